"""The chain of transforms of a flow, read and checked as Connect does (CFG-012), and what of it is refused here.

MirrorMaker 2 hands every record to the chain as two byte arrays and has byte arrays written. A transform that needs a
Struct or a Map, or makes something else than a byte array, fails there at the first record; here it is refused at once.

Invariants:

(a) Transforms are resolved for each topic when the epoch is planned. Names and routers go by the topic alone; a topic
    that no transform looks at keeps the raw lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from mirror.config.connector_keys import CONNECTORS, Connector
from mirror.config.definition import (
    PYTHON,
    REQUIRED,
    BadValue,
    Check,
    Definition,
    Importance,
    Type,
    no_empty_item,
    not_empty,
    unique,
)
from mirror.config.errors import ConfigError, ErrorAbout, Mistakes
from mirror.model.java_regex import PatternError, compile_java
from mirror.model.references import Unusable, named
from mirror.model.transforms.chain import Chain, ChainedTransform
from mirror.model.transforms.python_function import PythonFunction
from mirror.model.transforms.stock import (
    DropHeaders,
    Filter,
    HasHeaderKey,
    InsertHeader,
    Predicate,
    RecordIsTombstone,
    RegexRouter,
    TopicNameMatches,
)

T = TypeVar("T")

_TRANSFORMS = "org.apache.kafka.connect.transforms."
_PREDICATES = f"{_TRANSFORMS}predicates."
_NO_STRUCT = "it needs a Struct or a Map, and MirrorMaker 2 hands it byte arrays, on which it fails at the first record"
_NO_BYTES = "what it makes is no byte array, and MirrorMaker 2 can write nothing else: it fails at the first record"
_REFUSED: Final = {
    **dict.fromkeys(
        ("ExtractField", "Flatten", "HeaderFrom", "InsertField", "MaskField", "ReplaceField", "ValueToKey"), _NO_STRUCT
    ),
    **dict.fromkeys(("SetSchemaMetadata", "TimestampConverter"), _NO_STRUCT),
    **dict.fromkeys(("Cast", "HoistField"), _NO_BYTES),
    "TimestampRouter": "it sends the records of one partition to several topics, and here a partition has one copy",
}
_KEYS_OF_TRANSFORMS: Final = {
    "InsertHeader": frozenset({"header", "value.literal"}),
    "DropHeaders": frozenset({"headers"}),
    "RegexRouter": frozenset({"regex", "replacement"}),
}
_KEYS_OF_PREDICATES: Final = {"TopicNameMatches": frozenset({"pattern"}), "HasHeaderKey": frozenset({"name"})}
_A_FUNCTION = f"; a function of one's own can change bytes: {PYTHON}package.module:function"


def read_chain(values: Mapping[str, str], flow: str, error: ErrorAbout) -> Chain:
    """Return the chain that a source connector's settings speak of.

    Raises
    ------
    ConfigError
        for what Connect refuses, and for a transform that cannot work on byte arrays.
    """
    keys = _Keys(values, flow, error)
    predicates: dict[str, Predicate] = {}
    stages: list[ChainedTransform] = []
    mistakes = Mistakes()
    for alias in keys.aliases("predicates"):
        with mistakes.noted():
            predicates[alias] = _predicate(keys, f"predicates.{alias}.")
    # Without all of them it cannot be said of a transform whether the one that it names is there.
    mistakes.refuse()
    for alias in keys.aliases("transforms"):
        with mistakes.noted():
            stages.append(_stage(keys, alias, predicates))
    mistakes.refuse()
    return Chain(tuple(stages), skips_errors=values.get("errors.tolerance", "none").strip() == "all")


def keys_of_transform(kind: str) -> frozenset[str]:
    """Return what is read of a transform whose ``type`` is ``kind``, behind ``transforms.<alias>.``."""
    own = _KEYS_OF_TRANSFORMS.get(kind.strip().removeprefix(_TRANSFORMS), frozenset())
    return own | {"type", "predicate", "negate", "plugin.version"}


def keys_of_predicate(kind: str) -> frozenset[str]:
    """Return what is read of a predicate whose ``type`` is ``kind``, behind ``predicates.<alias>.``."""
    own = _KEYS_OF_PREDICATES.get(kind.strip().removeprefix(_PREDICATES), frozenset())
    return own | {"type", "plugin.version"}


def require_functions(chain: Chain, error: ErrorAbout) -> None:
    """Import the functions of a chain, for whoever is to apply it.

    Raises
    ------
    ConfigError
        for each that is not supported here.
    """
    mistakes = Mistakes()
    for stage in chain.stages:
        if isinstance(stage.transform, PythonFunction):
            try:
                named(stage.transform.reference)
            except Unusable as problem:
                mistakes.note(error(f"transforms.{stage.alias}.type", str(problem)).mistakes)
    mistakes.refuse()


@dataclass(frozen=True, slots=True)
class _Keys:
    """A connector's settings; those of transforms reach it from ``A->B.`` keys alone (CFG-078)."""

    values: Mapping[str, str]
    flow: str
    error: ErrorAbout

    def aliases(self, name: str) -> tuple[str, ...]:
        return self.read(CONNECTORS[Connector.SOURCE][name])  # type: ignore[no-any-return]

    def type(self, prefix: str) -> str:
        name = f"{prefix}type"
        if name not in self.values:
            raise self._missing(name)
        return self.values[name]

    def get(self, name: str, kind: Type = Type.STRING, default: Any = REQUIRED, check: Check | None = None) -> Any:
        return self.read(Definition(name, kind, default, Importance.MEDIUM, check))

    def read(self, definition: Definition) -> Any:
        if definition.default is REQUIRED and definition.name not in self.values:
            raise self._missing(definition.name)
        try:
            return definition.value(self.values)
        except BadValue as problem:
            raise self.error(definition.name, str(problem)) from problem

    def _missing(self, name: str) -> ConfigError:
        """Return the error about a key that is not there, with the line where it is misplaced or first asked for."""
        message = f"write {self.flow}.{name} = ...; MirrorMaker 2 looks for it nowhere else"
        misplaced = self.error(name, message)
        return misplaced if misplaced.line else self.error(name.partition(".")[0], f"{name} is missing; {message}")

    def negates(self, name: str) -> bool:
        negate: bool = self.get(name, Type.BOOLEAN, default=False)
        if negate and self.values[name].lower() != "true":
            message = "there is white space around true: MirrorMaker 2 would take it for false; remove the white space"
            raise self.error(name, message)
        return negate

    def compiled(self, name: str, make: Callable[[], T]) -> T:
        try:
            return make()
        except PatternError as problem:
            raise self.error(name, str(problem)) from problem


def _stage(keys: _Keys, alias: str, predicates: Mapping[str, Predicate]) -> ChainedTransform:
    prefix = f"transforms.{alias}."
    transform = _transform(keys, prefix)
    chosen = keys.get(f"{prefix}predicate", default=None)
    negate = keys.negates(f"{prefix}negate")
    if chosen is None:
        if f"{prefix}negate" in keys.values:
            raise keys.error(
                f"{prefix}negate", f"there is no {prefix}predicate to be negated; add it or remove the key"
            )
        return ChainedTransform(alias, transform)
    if chosen not in predicates:
        known = ", ".join(predicates) or "none"
        raise keys.error(f"{prefix}predicate", f"{chosen!r} is not among predicates ({known}); add it there")
    try:
        return ChainedTransform(alias, transform, predicates[chosen], negate)
    except ValueError as problem:
        message = (
            f"{problem}, so one partition's would go to several topics; let it depend on {_PREDICATES}TopicNameMatches"
        )
        raise keys.error(f"{prefix}predicate", message) from problem


def _transform(keys: _Keys, prefix: str) -> InsertHeader | DropHeaders | Filter | RegexRouter | PythonFunction:
    kind, key = keys.type(prefix), f"{prefix}type"
    if kind.startswith(PYTHON):
        return PythonFunction(kind.removeprefix(PYTHON).strip())
    match kind.removeprefix(_TRANSFORMS) if kind.startswith(_TRANSFORMS) else None:
        case "InsertHeader":
            header = keys.get(f"{prefix}header")
            literal: str = keys.get(f"{prefix}value.literal")
            return InsertHeader(header, None if literal == "null" else literal.encode())
        case "DropHeaders":
            return DropHeaders(frozenset(keys.get(f"{prefix}headers", Type.LIST, check=_names)))
        case "Filter":
            return Filter()
        case "RegexRouter":
            regex, replacement = keys.get(f"{prefix}regex"), keys.get(f"{prefix}replacement")
            keys.compiled(f"{prefix}regex", lambda: compile_java(regex))
            return keys.compiled(f"{prefix}replacement", lambda: RegexRouter(regex, replacement))
        case str(name) if (reason := _REFUSED.get(name.partition("$")[0])) is not None:
            raise keys.error(key, f"{kind} is not supported here: {reason}; remove it{_A_FUNCTION}")
    offered = ", ".join(f"{_TRANSFORMS}{name}" for name in ("DropHeaders", "Filter", "InsertHeader", "RegexRouter"))
    raise keys.error(key, f"there is no transform {kind!r} here; there are {offered}{_A_FUNCTION}")


def _predicate(keys: _Keys, prefix: str) -> Predicate:
    kind = keys.type(prefix)
    match kind.removeprefix(_PREDICATES) if kind.startswith(_PREDICATES) else None:
        case "TopicNameMatches":
            pattern = keys.get(f"{prefix}pattern", check=not_empty)
            return keys.compiled(f"{prefix}pattern", lambda: TopicNameMatches(pattern))
        case "RecordIsTombstone":
            return RecordIsTombstone()
        case "HasHeaderKey":
            return HasHeaderKey(keys.get(f"{prefix}name", check=not_empty))
    offered = ", ".join(f"{_PREDICATES}{name}" for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches"))
    raise keys.error(f"{prefix}type", f"there is no predicate {kind!r} here; there are {offered}")


def _names(values: tuple[str, ...]) -> str | None:
    if not values:
        return "name at least one header"
    return no_empty_item(values) or unique(values)
