"""Config providers: values that stand elsewhere, written ``${provider:path:key}`` (CFG-100 to CFG-103)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import regex

from mirror.config.errors import ConfigError
from mirror.config.properties import parse
from mirror.model.java_regex import PatternError, compile_java

CONFIG_PROVIDERS = "config.providers"
_PLACEHOLDER = regex.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
_PACKAGE = "org.apache.kafka.common.config.provider."


class ProviderProblem(ValueError):
    """Why a provider, or a value it should give, is not available."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(key, message)
        self.key = key
        self.message = message


class ConfigProvider(Protocol):
    """Something that gives values for keys at a path."""

    def get(self, path: str, keys: frozenset[str]) -> Mapping[str, str]:
        """Return those of ``keys`` it has at ``path``.

        Raises
        ------
        OSError, ValueError
            if the path cannot be read.
        """


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """The directories and files a provider may read; ``None`` = all."""

    paths: tuple[Path, ...] | None

    @classmethod
    def parse(cls, text: str | None) -> AllowedPaths:
        """Read ``allowed.paths``: absolute paths that exist, joined by commas.

        Raises
        ------
        ValueError
            for a path that is not absolute, or not there.
        """
        if not text:
            return cls(None)
        paths = tuple(_normalized(path) for path in text.rstrip(",").split(","))
        for path in paths:
            if not path.is_absolute():
                raise ValueError(f"the allowed path {path} is not absolute; write it from the root")
            if not path.exists():
                raise ValueError(f"the allowed path {path} does not exist; create it or leave it out")
        return cls(paths)

    def find(self, path: str) -> Path | None:
        """Return the path to read, ``None`` if it may not be read."""
        if self.paths is None:
            return Path(path)
        wanted = _normalized(path)
        return wanted if any(wanted.is_relative_to(allowed) for allowed in self.paths) else None


@dataclass(frozen=True, slots=True)
class FileConfigProvider:
    """Keys of a properties file in UTF-8."""

    allowed: AllowedPaths

    def get(self, path: str, keys: frozenset[str]) -> Mapping[str, str]:
        """Return those of ``keys`` the file has; nothing for an empty or forbidden path."""
        file = self.allowed.find(path) if path else None
        if file is None:
            return {}
        values = parse(file.read_text(encoding="utf-8"), file).values
        return {key: value for key, value in values.items() if key in keys}


@dataclass(frozen=True, slots=True)
class DirectoryConfigProvider:
    """Files of a directory: a key is a file's name, its value the whole content."""

    allowed: AllowedPaths

    def get(self, path: str, keys: frozenset[str]) -> Mapping[str, str]:
        """Return the contents of the regular files named by ``keys``; nothing for an empty or forbidden path."""
        directory = self.allowed.find(path) if path else None
        if directory is None or not directory.is_dir():
            return {}
        files = [file for file in directory.iterdir() if file.name in keys and file.is_file()]
        return {file.name: file.read_bytes().decode("utf-8", errors="replace") for file in files}


@dataclass(frozen=True, slots=True)
class EnvVarConfigProvider:
    """Environment variables whose name matches a pattern."""

    allowlist: regex.Pattern[str]

    def get(self, path: str, keys: frozenset[str]) -> Mapping[str, str]:
        """Return those of ``keys`` that are set and allowed."""
        if path:
            raise ValueError(f"an environment variable has no path, but {path!r} is given; write ${{provider:NAME}}")
        return {key: os.environ[key] for key in keys if key in os.environ and self.allowlist.fullmatch(key)}


def providers(names: Iterable[str], values: Mapping[str, str]) -> dict[str, ConfigProvider]:
    """Make the providers ``names`` from ``config.providers.<name>.class`` and ``.param.*`` (CFG-071).

    A name without a class is left out, and so its placeholders stay as they are (CFG-100).

    Raises
    ------
    ProviderProblem
        for a class that is none of the three this engine has, or a bad parameter.
    """
    made = {}
    for name in names:
        key = f"{CONFIG_PROVIDERS}.{name}.class"
        if key in values:
            prefix = f"{CONFIG_PROVIDERS}.{name}.param."
            parameters = {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
            made[name] = _provider(key, values[key], prefix, parameters)
    return made


def replace_placeholders(values: Mapping[str, str], available: Mapping[str, ConfigProvider]) -> dict[str, str]:
    """Return ``values`` with every placeholder of an available provider replaced (CFG-100, CFG-102).

    Placeholders of unknown providers, and those the provider has no value for, stay as they are.

    Raises
    ------
    ProviderProblem
        naming the key whose placeholder cannot be read.
    """
    if not available:
        return dict(values)
    return {key: _PLACEHOLDER.sub(partial(_looked_up, key, available), value) for key, value in values.items()}


def _looked_up(key: str, available: Mapping[str, ConfigProvider], placeholder: regex.Match[str]) -> str:
    """Return the value a placeholder in ``key`` stands for, or the placeholder itself."""
    whole, path, name = placeholder[0], placeholder[3] or "", placeholder[4]
    provider = available.get(placeholder[1])
    if provider is None:
        return whole
    try:
        return provider.get(path, frozenset({name})).get(name, whole)
    except (OSError, ValueError, ConfigError) as problem:
        raise ProviderProblem(key, f"{whole} cannot be resolved: {problem}") from problem


def _provider(key: str, class_name: str, prefix: str, parameters: Mapping[str, str]) -> ConfigProvider:
    match class_name.removeprefix(_PACKAGE):
        case "FileConfigProvider":
            return FileConfigProvider(_allowed_paths(prefix, parameters))
        case "DirectoryConfigProvider":
            return DirectoryConfigProvider(_allowed_paths(prefix, parameters))
        case "EnvVarConfigProvider":
            try:
                return EnvVarConfigProvider(compile_java(parameters.get("allowlist.pattern", ".*")))
            except PatternError as problem:
                raise ProviderProblem(f"{prefix}allowlist.pattern", f"is no usable pattern: {problem}") from problem
        case _:
            known = ", ".join(f"{_PACKAGE}{name}ConfigProvider" for name in ("File", "Directory", "EnvVar"))
            raise ProviderProblem(key, f"{class_name!r} is not available; use one of {known}")


def _allowed_paths(prefix: str, parameters: Mapping[str, str]) -> AllowedPaths:
    try:
        return AllowedPaths.parse(parameters.get("allowed.paths"))
    except ValueError as problem:
        raise ProviderProblem(f"{prefix}allowed.paths", str(problem)) from problem


def _normalized(path: str) -> Path:
    return Path(os.path.normpath(path))
