"""docs/settings.md, made of the declarations in mirror/config/engine_keys.py: ``python -m tests.house.settings_page``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mirror.config.engine_keys import ENGINE

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
_HEAD = """# The engine's own settings

Keys of the properties file that MirrorMaker does not know, and ignores. Those marked with a flow may be written for one flow too:
`east->west.mirror.gaps = stop`; a running engine takes in a change of those marked live without a restart. `mirror plan FILE --explain`
lists every key of a file with its effect, MirrorMaker's own among them; these are described in Kafka's documentation, and what differs here in
[compatibility.md](compatibility.md). This page is made of `mirror/config/engine_keys.py` by `python -m tests.house.settings_page`.

| key | type | default | of a flow | live | meaning |
|---|---|---|---|---|---|
"""


def page() -> str:
    """The page as it should be."""
    rows = (
        f"| `{name}` | {key.type.lower()} | {_shown(key.default)} | {_yes(key.of_a_flow)} | {_yes(key.live)} | {key.meaning} |\n"
        for name, key in sorted(ENGINE.items())
    )
    return _HEAD + "".join(rows)


def _yes(marked: bool) -> str:
    return "yes" if marked else ""


def _shown(default: Any) -> str:
    match default:
        case bool():
            return str(default).lower()
        case tuple():
            return f"`{','.join(default)}`"
        case "":
            return "none"
        case float():
            return f"{default:g}"
    return f"{default}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
