"""pyproject.toml says what is needed; requirements.lock and environment.yml give exactly that."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]

# The same package under conda-forge's name.
CONDA_NAMES = {
    "docker-py": "docker",
    "matplotlib-base": "matplotlib",
    "python-confluent-kafka": "confluent-kafka",
}
# What conda gives besides the packages of pyproject.toml.
CONDA_ALONE = {"python", "openjdk", "make", "pip"}

# The folders of Python, which import each other as packages.
OURS = {"mirror", "runbooks", "scenarios", "tests"}

# The machines the lock must serve.
MACHINES = [
    {"python_version": python[:4], "python_full_version": python, "sys_platform": system, "platform_machine": machine}
    for python in ("3.11.2", "3.11.7", "3.12.9", "3.13.2")
    for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
]


@dataclass(frozen=True, slots=True)
class Locked:
    """One entry of the lock."""

    name: str
    version: Version
    marker: Marker | None
    hashes: tuple[str, ...]

    def is_for(self, machine: dict[str, str]) -> bool:
        """Whether the entry is installed on a machine."""
        return self.marker is None or self.marker.evaluate(machine)


def read_lock() -> list[Locked]:
    """The entries of requirements.lock; refuses a line that is neither an entry nor a hash."""
    text = (ROOT / "requirements.lock").read_text()
    entries = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("#"):
            continue
        requirement, *hashes = re.split(r"\s+--hash=", line.strip())
        parsed = Requirement(requirement)
        (pin,) = parsed.specifier
        assert pin.operator == "==", line
        assert parsed.url is None, line
        entries.append(Locked(canonicalize_name(parsed.name), Version(pin.version), parsed.marker, tuple(hashes)))
    return entries


def read_needed() -> dict[str, SpecifierSet]:
    """What pyproject.toml asks for, to run, to practise and to develop."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    asked = project["project"]["dependencies"] + extras["lab"] + project["dependency-groups"]["dev"]
    return {canonicalize_name(each.name): each.specifier for each in map(Requirement, asked)}


def read_conda() -> dict[str, SpecifierSet]:
    """What environment.yml asks for from conda and from pip, under the names of pyproject.toml."""
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (from_pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    from_conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    asked = [re.sub(r"(?<![<>=!~])=(?!=)", "==", entry) for entry in from_conda]
    asked += [entry for entry in from_pip if not entry.startswith("--editable")]
    wanted = [Requirement(entry) for entry in asked]
    return {CONDA_NAMES.get(each.name, canonicalize_name(each.name)): each.specifier for each in wanted}


def third_party_imports(folder: str) -> set[str]:
    """The top-level modules from outside that the code of a folder imports."""
    found: set[str] = set()
    for source in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - OURS


@cache
def distributions() -> dict[str, set[str]]:
    """The distributions that bring each top-level module."""
    return {module: set(map(canonicalize_name, names)) for module, names in packages_distributions().items()}


@pytest.mark.parametrize("folder", sorted(OURS))
def test_what_the_code_imports_is_asked_for(folder: str) -> None:
    """Nothing is used that is there only because something else wants it."""
    needed = read_needed().keys()
    assert [module for module in sorted(third_party_imports(folder)) if not distributions()[module] & needed] == []


def test_the_lock_records_no_address() -> None:
    """Neither an index nor a folder of wheels: where packages come from is set up on the machine."""
    text = (ROOT / "requirements.lock").read_text()
    assert re.search(r"https?:|://|file:|--(extra-)?index-url|--find-links|--trusted-host| @ ", text) is None


def test_every_locked_package_has_hashes() -> None:
    for entry in read_lock():
        assert entry.hashes, entry.name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in entry.hashes), entry.name


@pytest.mark.parametrize(
    "machine", MACHINES, ids=lambda machine: "-".join([machine["python_full_version"], machine["platform_machine"]])
)
def test_the_lock_gives_each_machine_one_version_that_satisfies_the_project(machine: dict[str, str]) -> None:
    installed: dict[str, Version] = {}
    for entry in read_lock():
        if entry.is_for(machine):
            assert entry.name not in installed, f"{entry.name} twice"
            installed[entry.name] = entry.version
    for name, asked in read_needed().items():
        assert name in installed, f"{name} is not in the lock: make lock"
        assert installed[name] in asked, f"{name} {installed[name]} is locked, {asked} is asked for: make lock"


def test_conda_gives_the_same_packages() -> None:
    """The names and the bounds of pyproject.toml, no more and no fewer."""
    conda = {name: asked for name, asked in read_conda().items() if name not in CONDA_ALONE}
    assert conda == read_needed()


def test_conda_gives_python_and_java() -> None:
    conda = read_conda()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert str(conda["python"]) == "==3.11"
    assert "3.11" in SpecifierSet(project["project"]["requires-python"])
    assert str(conda["openjdk"]) == ">=17"


def test_conda_installs_the_project_itself() -> None:
    assert "- --editable ." in (ROOT / "environment.yml").read_text()


def test_the_build_uses_what_is_locked() -> None:
    """PySpark and the project are built offline with the lock's setuptools, and uv is taken from the lock by hash."""
    locked = {entry.name for entry in read_lock() if entry.marker is None}
    assert {"setuptools", "uv"} <= locked
