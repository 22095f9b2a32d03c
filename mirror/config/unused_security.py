"""Keys of a login or of TLS that no client's ``security.protocol`` asks for: nothing reads them.

Java takes them without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mirror.config.mirror_maker import MirrorMakerConfig

_PROTOCOL = "security.protocol"
_DEFAULT = "PLAINTEXT"
_KEY = re.compile(r"(?:(?:producer|consumer|admin)\.)?(sasl|ssl)\..+")
_PROTOCOLS: Final = {"sasl": ("SASL_SSL", "SASL_PLAINTEXT"), "ssl": ("SSL", "SASL_SSL")}


def unused_security(config: MirrorMakerConfig) -> Iterator[tuple[str, str]]:
    """Yield each such key below a cluster, and what is to be said of it, in the order of the file by cluster."""
    for alias in config.clusters:
        own = f"{alias}.{_PROTOCOL}"
        # Of a flow it may be for a client on this cluster; all flows at once have it at the top.
        forms = [
            key
            for key in config.resolved
            if key.endswith(_PROTOCOL) and (key == _PROTOCOL or key.startswith(f"{alias}.") or "->" in key)
        ]
        given = {config.resolved[key].strip().upper() for key in forms}
        now = config.resolved.get(own, config.resolved.get(_PROTOCOL, _DEFAULT)).strip().upper()
        for key in dict.fromkeys(entry.key for entry in config.file.entries):
            found = _KEY.fullmatch(key.removeprefix(f"{alias}.")) if key.startswith(f"{alias}.") else None
            if found is None or not given.isdisjoint(_PROTOCOLS[found[1]]):
                continue
            kept = now.removeprefix("PLAINTEXT").removesuffix("_PLAINTEXT")
            meant = [each for each in _PROTOCOLS[found[1]] if kept in each.split("_") or not kept]
            yield key, f"has no effect: {own} is {now}; write {' or '.join(meant)}"
