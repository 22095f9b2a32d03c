"""Many differences of one kind in a row: where they are, their figures, and what mends them, in one if that can be.

Pure. A mend names what it mends by the first name of where the difference is: of those that are the same but for it
there is one text, with all names.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mirror.model.counts import first_of
from mirror.model.group_pattern import pattern_of
from mirror.model.grouped import grouped
from mirror.recovery.differences import Difference

_NAMED = 5
# So many names stand in one mend: a command is there to be copied.
_TOGETHER = 50
_NAME = "NAME"
_GROUPS = f"--groups {_NAME}"
# A figure stands by itself: that of orders-3 is a name's.
_FIGURE = re.compile(r"(?<!\S)(\d+(?:,\d{3})*(?:\.\d+)?)(?=[\s,:]|$)")


def summed_up(differences: Sequence[Difference]) -> list[Difference]:
    """Return one difference for all that one rule says in the same words: the first places and mends, how many more."""
    kinds = grouped(((each.rule, each.impact, each.what), each) for each in differences)
    return [_summed_up(each) for each in kinds.values()]


def _summed_up(alike: Sequence[Difference]) -> Difference:
    first = alike[0]
    if len(alike) == 1:
        return first
    return replace(
        first,
        where=first_of([each.where for each in alike], _NAMED),
        source=_in_common([each.source for each in alike]),
        target=_in_common([each.target for each in alike]),
        mend="\n".join(_mends(alike)),
    )


def _in_common(values: Sequence[str | None]) -> str | None:
    """Return what all have; the range, where one figure differs; otherwise what each has, in the order of places."""
    if len(set(values)) == 1:
        return values[0]
    told = [value or "-" for value in values]
    split = [_FIGURE.split(value) for value in told]
    # The odd ones are figures. One record, two records: both are the same words.
    words = {tuple(re.sub(r"s\b", "", word) for word in each[::2]) for each in split}
    if len(words) == 1:
        differing = [at for at in range(1, len(split[0]), 2) if len({each[at] for each in split}) > 1]
        if len(differing) == 1:
            (at,) = differing
            least, most = (pick(split, key=lambda each: float(each[at].replace(",", ""))) for pick in (min, max))
            return "".join((*most[:at], f"{least[at]} to {most[at]}", *most[at + 1 :]))
    return first_of(told, _NAMED, "; ")


def _mends(alike: Sequence[Difference]) -> Iterator[str]:
    """Return a line for each mend, and one for all that differ by a name only: commands are there to be copied."""
    named: dict[str, dict[str, str]] = {}
    for each in dict.fromkeys((each.where, each.mend) for each in alike):
        text, name = _with_placeholder(*each)
        named.setdefault(text, {}).setdefault(name, each[1])
    lines = [
        line
        for text, mends in named.items()
        for line in ([_together(text, list(mends))] if 1 < len(mends) <= _TOGETHER else mends.values())
    ]
    yield from lines[:_NAMED]
    if len(lines) > _NAMED:
        yield f"and {len(lines) - _NAMED:,} more alike: --all names them"


def _with_placeholder(where: str, mend: str) -> tuple[str, str]:
    """Return a mend without the name of what it mends, and the name; the whole mend, if it does not name it."""
    name = re.split(r", |: ", where, maxsplit=1)[0]
    for tried in (name, re.sub(r"-\d+$", "", name)):
        text = re.sub(rf"(?<!\S){re.escape(tried)}(?=[\s,;:]|$)", _NAME, mend)
        if text != mend:
            return text, tried
    return mend, ""


def _together(text: str, names: Sequence[str]) -> str:
    if _GROUPS in text and text.count(_NAME) == 1:
        return text.replace(_GROUPS, f"--groups {shlex.quote(pattern_of(names))}")
    if re.search(rf"--[\w-]+ {_NAME}", text):
        return f"{text}, with {_NAME} each of {', '.join(names)}"
    return text.replace(_NAME, ", ".join(names))
