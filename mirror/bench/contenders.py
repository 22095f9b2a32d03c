"""Who is measured, and in which order; pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from mirror.lab.errors import BadRequest


class Contender(StrEnum):
    """Who carries records from the source to a reader."""

    #: This engine, with the file that MM2 is given.
    MIRROR = "mirror"
    #: The same, making copies with the source's offsets (``mirror.offsets = same``).
    SAME = "mirror-same"
    #: This engine under unchanged names, both ways, as a pair of clusters has it whose applications move.
    NAME = "mirror-name"
    #: The same with the source's offsets.
    SAME_NAME = "mirror-same-name"
    #: Java MirrorMaker 2 with its defaults.
    MM2 = "mm2"
    #: Java MirrorMaker 2 as somebody sets it up who wants throughput.
    MM2_TUNED = "mm2-tuned"
    #: A bare producer that replays the source's batches from memory; has no latency.
    FLOOR = "floor"
    #: Nobody: the reader reads the source; has no throughput.
    NO_MIRROR = "no-mirror"

    @property
    def copies(self) -> bool:
        """Whether it has a throughput."""
        return self is not Contender.NO_MIRROR

    @property
    def is_replicator(self) -> bool:
        """Whether it is a program that goes on copying: it has a start, a latency, and memory worth counting."""
        return self not in {Contender.FLOOR, Contender.NO_MIRROR}

    @property
    def is_mirror(self) -> bool:
        """Whether it is this engine."""
        return self in {Contender.MIRROR, Contender.SAME, Contender.NAME, Contender.SAME_NAME}

    @property
    def keeps_names(self) -> bool:
        """Whether its copies are called like their originals."""
        return self in {Contender.NAME, Contender.SAME_NAME}

    def copy_of(self, topic: str, source: str) -> str:
        """Return what the copy of a topic of the cluster ``source`` is called."""
        return topic if self.keeps_names else f"{source}.{topic}"

    @property
    def has_latency(self) -> bool:
        """Whether records that are written now come out at its other end."""
        return self is not Contender.FLOOR


USUAL = (Contender.MIRROR, Contender.MM2, Contender.MM2_TUNED, Contender.FLOOR, Contender.NO_MIRROR)
"""Who is measured if nobody is named."""


def parse_contenders(text: str) -> tuple[Contender, ...]:
    """Read names separated by commas.

    Raises
    ------
    BadRequest
        naming what is not a contender, or is there twice.
    """
    chosen: list[Contender] = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        try:
            contender = Contender(name)
        except ValueError:
            known = ", ".join(Contender)
            raise BadRequest(f"--contenders: {name!r} is none; there are {known}") from None
        if contender in chosen:
            raise BadRequest(f"--contenders: {name} is there twice")
        chosen.append(contender)
    if not chosen:
        raise BadRequest("--contenders: name at least one")
    return tuple(chosen)


def order(round_number: int, contenders: Sequence[Contender]) -> tuple[Contender, ...]:
    """Return who runs in which order in a round, counted from 1: another begins each time, as brokers warm up."""
    first = (round_number - 1) % len(contenders)
    return (*contenders[first:], *contenders[:first])
