"""The layers of the package import each other in one direction, and each outside system has one layer that knows it."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "mirror"

# What each layer may import besides itself. A layer is a folder of the package or a module beside the folders.
MAY_IMPORT: dict[str, set[str]] = {
    "waiting": set(),
    "asking": set(),
    "consent": {"asking", "config"},
    "escaping": set(),
    "clock": set(),
    "tables": {"escaping"},
    "terminal": {"escaping"},
    "cache": set(),
    "signals": set(),
    "background_process": set(),
    "atomic_file": set(),
    "no_spark": set(),
    "extras": set(),
    "executor_archive": set(),
    "spark_conf": {"model", "config"},
    "spark_folder": set(),
    "spark": {"cache", "no_spark", "executor_archive", "spark_conf", "spark_folder", "waiting"},
    "model": set(),
    "parts": {"model"},
    "display": {"waiting", "terminal", "escaping"},
    "config": {"model"},
    "kafka": {"clock", "model", "config", "waiting"},
    # The library for applications: no engine behind it, and nothing a replicator needs.
    "client": {"model", "config", "kafka"},
}
MAY_IMPORT["same_offsets"] = {"model", "kafka"}
MAY_IMPORT |= {
    layer: {"model", "config", "kafka", "waiting", "parts", "cache", "spark", "no_spark"}
    for layer in ("copier", "control", "proof", "lab")
}
MAY_IMPORT["copier"] |= {"clock", "spark_conf"}
MAY_IMPORT["control"] |= {"clock", "same_offsets"}
MAY_IMPORT["copier"] |= {"same_offsets"}
MAY_IMPORT["lab"] |= {"atomic_file", "display", "signals", "tables", "terminal"}
MAY_IMPORT["engine"] = {
    "clock",
    "spark",
    "spark_conf",
    "atomic_file",
    "model",
    "config",
    "kafka",
    "waiting",
    "escaping",
    "parts",
    "copier",
    "control",
    "proof",
    "same_offsets",
}
MAY_IMPORT["legacy"] = {
    "signals",
    "waiting",
    "spark",
    "spark_conf",
    "no_spark",
    "model",
    "config",
    "kafka",
    "copier",
    "engine",
}
# The layers below may import exactly what they do import: one more is a decision, and one less is written down.
UPPER_LAYERS = (
    "legacy",
    "evidence",
    "definition_files",
    "recovery",
    "lab_applications",
    "drill",
    "scenario",
    "bench",
    "history",
    "monitoring",
    "commands",
    "cli",
)
MAY_IMPORT["evidence"] = {"atomic_file", "model"}
MAY_IMPORT["definition_files"] = {"evidence"}
MAY_IMPORT["recovery"] = {
    "asking",
    "same_offsets",
    "atomic_file",
    "waiting",
    "spark",
    "no_spark",
    "model",
    "config",
    "kafka",
    "control",
    "proof",
    "engine",
    "evidence",
}
MAY_IMPORT["lab_applications"] = {"lab", "recovery"}
MAY_IMPORT["drill"] = {
    "display",
    "asking",
    "consent",
    "terminal",
    "spark",
    "history",
    "lab_applications",
    "signals",
    "waiting",
    "parts",
    "model",
    "config",
    "kafka",
    "control",
    "proof",
    "lab",
    "evidence",
    "definition_files",
    "recovery",
}
MAY_IMPORT["scenario"] = {
    "display",
    "lab_applications",
    "signals",
    "waiting",
    "atomic_file",
    "tables",
    "terminal",
    "model",
    "config",
    "kafka",
    "control",
    "proof",
    "lab",
    "evidence",
    "definition_files",
    "recovery",
}
MAY_IMPORT["bench"] = {
    "display",
    "evidence",
    "kafka",
    "lab",
    "model",
    "config",
    "signals",
    "tables",
    "terminal",
    "waiting",
}
MAY_IMPORT["history"] = {"parts", "model", "config", "kafka", "control", "evidence"}
MAY_IMPORT["monitoring"] = {"model", "config", "control", "engine", "history", "recovery"}
MAY_IMPORT["cli"] = {"background_process", "bench", "extras", "lab", "drill", "scenario", "commands"}
MAY_IMPORT["commands"] = {
    "asking",
    "consent",
    "spark_conf",
    "history",
    "monitoring",
    "display",
    "waiting",
    "legacy",
    "signals",
    "tables",
    "terminal",
    "no_spark",
    "model",
    "config",
    "kafka",
    "control",
    "proof",
    "engine",
    "evidence",
    "recovery",
}
MAY_IMPORT["__main__"] = {"cli"}

# Who may import a client of an outside system; every other layer is refused.
ONLY_IN: dict[str, set[str]] = {
    "kafka": {"kafka"},  # kafka-python: security and protocol are mapped once
    "confluent_kafka": {
        "bench",
        "lab",
        "legacy",
    },  # it plays the applications, and the members of MirrorMaker 1's group
    "pyspark": {"spark", "copier", "proof", "history"},
    "prometheus_client": {"monitoring"},
}

# Folders that use the package and that it therefore never imports.
USERS_OF_THE_PACKAGE = {"notebooks", "runbooks", "scenarios", "tests"}


def layer_of(source: Path) -> str:
    """The layer of a source file of the package."""
    return source.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(code: str) -> set[str]:
    """Every module that the code imports anywhere, in full; names imported from a package are added to it."""
    return imported_by(ast.walk(ast.parse(code)))


def imported_by(nodes: Iterable[ast.AST]) -> set[str]:
    """The modules that statements import."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def imported_layers(layer: str) -> set[str]:
    """The other layers that a layer imports."""
    modules = {
        module for source in SOURCES if layer_of(source) == layer for module in imported_modules(source.read_text())
    }
    named = {module.split(".")[1] for module in modules if module.startswith("mirror.")}
    return named & set(MAY_IMPORT) - {layer}


def broken_directions(layer: str, code: str) -> list[str]:
    """What code of the layer imports against the rules."""
    problems = []
    for module in sorted(imported_modules(code)):
        top, _, rest = module.partition(".")
        if top == "mirror":
            other = rest.split(".")[0]
            if other in MAY_IMPORT and other != layer and other not in MAY_IMPORT[layer]:
                problems.append(f"{layer} imports {module}, and may import only {sorted(MAY_IMPORT[layer])}")
        elif top in USERS_OF_THE_PACKAGE:
            problems.append(f"{layer} imports {module}, which uses the package")
        elif layer not in ONLY_IN.get(top, {layer}):
            problems.append(f"{layer} imports {module}, which only {sorted(ONLY_IN[top])} may")
    return problems


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.relative_to(ROOT).as_posix())
def test_rooms_import_in_one_direction(source: Path) -> None:
    """The row: model, config, kafka; copier, control, proof, lab, evidence; engine; recovery; drill, scenario; cli."""
    if source == PACKAGE / "__init__.py":
        assert imported_modules(source.read_text()) <= {"__future__.annotations"}, "the package itself imports nothing"
        return
    layer = layer_of(source)
    assert layer in MAY_IMPORT, f"{source.relative_to(ROOT)} is in no layer: give it a place in MAY_IMPORT"
    assert broken_directions(layer, source.read_text()) == []


@pytest.mark.parametrize("layer", UPPER_LAYERS)
def test_what_a_layer_may_import_is_what_it_imports(layer: str) -> None:
    assert imported_layers(layer) == MAY_IMPORT[layer]


_HOLDS_STATEMENTS = (ast.Module, ast.ClassDef, ast.If, ast.Try, ast.With)


def modules_it_loads(code: str, known: set[str]) -> set[str]:
    """Those of the known modules that code loads while it is loaded itself; not what functions import when called."""
    statements = list[ast.AST]()
    waiting: list[ast.AST] = [ast.parse(code)]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not is_for_types_alone(node):
            statements.append(node)
            waiting += ast.iter_child_nodes(node) if isinstance(node, _HOLDS_STATEMENTS) else ()
    found = imported_by(statements)
    return {each if each in known else each.rpartition(".")[0] for each in found} & known


def is_for_types_alone(node: ast.AST) -> bool:
    """Whether what it holds is seen by type checkers alone."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def circle_among(modules: Mapping[str, str]) -> list[str]:
    """Modules that load each other in a circle, by the code of each; none: there is no circle."""
    try:
        graphlib.TopologicalSorter(
            {name: modules_it_loads(code, set(modules)) - {name} for name, code in modules.items()}
        ).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_load_each_other_in_a_circle() -> None:
    names = {each: ".".join(each.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for each in SOURCES}
    assert circle_among({names[each]: each.read_text() for each in SOURCES}) == []


def test_a_circle_is_seen() -> None:
    apart = {"mirror.a": "from mirror import b", "mirror.b": "def f():\n    from mirror import a"}
    assert circle_among(apart) == []
    assert set(circle_among(apart | {"mirror.b": "from mirror.c import d", "mirror.c": "import mirror.a"})) == {
        *("mirror.a", "mirror.b", "mirror.c")
    }


@pytest.mark.parametrize(
    ("layer", "code"),
    [
        ("model", "import kafka"),
        ("model", "def f():\n    from pyspark.sql import SparkSession"),
        ("model", "from mirror import config"),
        ("config", "import mirror.kafka.cluster"),
        ("kafka", "from mirror.lab.clusters import up"),
        ("control", "import confluent_kafka"),
        ("client", "from mirror.control import checkpoints"),
        ("copier", "from mirror.control.topics import plan"),
        ("proof", "from mirror.lab import load"),
        ("lab", "from mirror.drill import runner"),
        ("lab", "from kafka.protocol import types"),
        ("drill", "import pyspark"),
        ("drill", "from mirror.scenario import series"),
        ("scenario", "from mirror.drill import runner"),
        ("drill", "from mirror.cli import app"),
        ("drill", "from mirror.copier import loop"),
        ("scenario", "from mirror import spark"),
        ("recovery", "from mirror.drill.steps import failover"),
        ("recovery", "from mirror.lab import load"),
        ("engine", "from mirror.recovery.verify import verify_flow"),
        ("control", "from mirror.recovery import shadow_groups"),
        ("evidence", "from mirror.recovery import probing"),
        ("evidence", "from mirror.proof.objectives import Objectives"),
        ("cli", "from mirror.copier import epochs"),
        ("cli", "import tests.builders"),
    ],
)
def test_an_import_against_the_direction_is_seen(layer: str, code: str) -> None:
    assert len(broken_directions(layer, code)) == 1


@pytest.mark.parametrize(
    ("layer", "code"),
    [
        ("kafka", "from kafka.protocol import types\nfrom mirror.model.flow import Flow"),
        ("kafka", "import kafkaesque"),
        ("lab", "import confluent_kafka\nfrom mirror.kafka.log_tail import LogTail"),
        ("drill", "from mirror import recovery\nfrom mirror.lab import clusters"),
    ],
)
def test_an_import_along_the_direction_is_allowed(layer: str, code: str) -> None:
    assert broken_directions(layer, code) == []


def test_commands_start_without_what_only_some_of_them_need() -> None:
    """PySpark and pandas are more than half of what would be imported; runbooks, judges and pictures import them."""
    look = "import sys, mirror.cli; print(*sorted({'matplotlib', 'numpy', 'pandas', 'papermill', 'pyspark'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_the_direction_has_no_cycle() -> None:
    """Layers can be put in a row in which each imports only what stands before it."""
    placed: set[str] = set()
    remaining = dict(MAY_IMPORT)
    while ready := {layer for layer, others in remaining.items() if others - {layer, "cli"} <= placed}:
        placed |= ready
        remaining = {layer: others for layer, others in remaining.items() if layer not in ready}
    assert remaining == {}


def taken_from_tests(code: str) -> list[str]:
    """What the code imports from modules of tests."""
    return sorted(module for module in imported_modules(code) if module.startswith("tests.") and ".test_" in module)


def test_what_tests_share_stands_in_a_module_of_its_own() -> None:
    shared = {str(each.relative_to(ROOT)): taken_from_tests(each.read_text()) for each in ROOT.glob("tests/**/*.py")}
    assert {file: modules for file, modules in shared.items() if modules} == {}
    assert taken_from_tests("from tests.brokers.test_lab import send") == ["tests.brokers.test_lab.send"]
