"""Which of several engines leads a flow: what is written of it in the state topic, and what follows from that.

Engines of one flow find each other in its state topic on the target. Whoever wants to lead appends a claim of the term
after the last; of several the first in the log wins, and every reader sees the same order. The leader renews its claim.
An engine that stands by bids for the next term when the claim is released, or has not been renewed for a while of its
own clock during which it could read the topic: clocks of different machines are never compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Claim:
    """An engine's claim to lead a flow.

    Attributes
    ----------
    engine
        the engine's id.
    term
        one more than that of the leader before; 0 in claims of versions without terms.
    renewals
        how many times it was renewed.
    is_confirmed
        False for a bid; its first renewal, written by an engine that saw its bid win, confirms it.
    is_released
        whether the engine has stopped and leads no longer.
    is_settled
        of a released one: whether the log has all that was sent; nothing can arrive late.
    host, pid, place
        the machine's name, the process, and what tells apart the machines and containers that have such a process.
    settings
        digests of the settings that engines of one flow must have in common, by key.
    timeout_seconds
        after how long without a renewal another engine may lead, by the file of this one; 0 if it does not say.
    former_seconds
        of that time of the leaders before, what was left when this was written: tasks of theirs that were cut off may
        write for as long, whoever leads meanwhile. 0 where there is none, or they had stopped with all in the log.
    """

    engine: str
    term: int = 0
    renewals: int = 0
    is_confirmed: bool = True
    is_released: bool = False
    is_settled: bool = False
    host: str = ""
    pid: int = 0
    place: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = 0.0
    former_seconds: float = 0.0

    def renewed(self, former_seconds: float = 0.0) -> Claim:
        """Return the claim as its engine writes it next."""
        return replace(self, renewals=self.renewals + 1, is_confirmed=True, former_seconds=former_seconds)

    def released(self, former_seconds: float = 0.0, *, is_settled: bool) -> Claim:
        """Return the claim as its engine writes it last."""
        return replace(self.renewed(former_seconds), is_released=True, is_settled=is_settled)

    def content(self) -> dict[str, Any]:
        """Return the value of its record."""
        content = {each.name.removeprefix("is_"): getattr(self, each.name) for each in fields(self)}
        content["settings"] = dict(self.settings)
        return {key: value for key, value in content.items() if value or not key.endswith("_seconds")}

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Claim:
        """Return the claim that a record's value holds."""
        keys = {each.name: each.name.removeprefix("is_") for each in fields(cls)[1:]}
        return cls(content["engine"], **{name: content[key] for name, key in keys.items() if key in content})

    @property
    def where(self) -> str:
        """The engine in words for people."""
        return f"{self.engine[:8]} on {self.host} (process {self.pid})" if self.host else self.engine[:8]


def newest(known: Claim | None, read: Claim) -> Claim:
    """Return the claim that counts once ``read`` was read behind ``known``.

    Of several bids for a term the first counts. A confirmed claim counts before a bid of the same term whatever their
    order: its engine has seen the whole order, of which compaction may have left the last bid only.
    """
    if known is None or read.term > known.term:
        return read
    if read.term < known.term:
        return known
    if read.engine == known.engine or (read.is_confirmed and not known.is_confirmed):
        return read
    return known


def digest_of(settings: Mapping[str, str]) -> str:
    """Return one digest for those of the settings that engines of one flow must have in common."""
    return hashlib.sha256(json.dumps(sorted(settings.items())).encode()).hexdigest()[:12]


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of the settings in which two engines of a flow differ."""
    return tuple(sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key))) if theirs else ()


def differing_words(whose: str, keys: Sequence[str]) -> str:
    """Return, behind a semicolon, in what a file differs, and that other settings are not compared; else nothing."""
    return f"; of the settings that engines of a flow must share {whose} in {', '.join(keys)}" if keys else ""


class Silence:
    """For how long a claim has not been renewed, as far as one engine could see, by its own clock.

    Attributes
    ----------
    seen
        the claim as it stood at the last look: engine, term and renewals; None before the first.
    """

    def __init__(self) -> None:
        """Have seen nothing."""
        self.seen: tuple[str, int, int] | None = None
        self._since: float | None = None

    def unreadable(self) -> None:
        """Count anew from the next look on: the state topic could not be read, and perhaps not be written either."""
        self._since = None

    def look(self, claim: Claim, asked_at: float, read_at: float) -> float:
        """Return for how many seconds at least the claim has stood as it does.

        Parameters
        ----------
        asked_at, read_at
            when the reading began by which it stands so, and when it was over: the time that it took says nothing of
            the leader. Seconds of one clock.
        """
        seen = claim.engine, claim.term, claim.renewals
        if self._since is None or seen != self.seen:
            self.seen, self._since = seen, read_at
        return max(0.0, asked_at - self._since)
