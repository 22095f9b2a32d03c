"""Finding and loading scenarios: Python files that define ``SCENARIO``."""

from __future__ import annotations

from mirror.definition_files import DefinitionKind
from mirror.scenario.declaration import Scenario

SCENARIOS = DefinitionKind("scenario", Scenario)
