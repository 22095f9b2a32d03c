"""Try every mutation of the catalogue on a copy of the tree: `make mutations`, ARGS="copier/lane --jobs 1" for some."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import SimpleQueue

from tests.mutations.catalogue import ROOT, Mutated, Mutation, Refused, catalogue, mutated

# Of ten mutations nine are to be noticed.
LEAST_KILLED = 0.9
# Who mutates a loop may make it endless: that is noticed as well.
LONGEST_SECONDS = 1800.0
# What pytest ends with when tests ran, or could not be collected, which a mutation may bring about.
PASSED, NOTICED = 0, {1, 2}


@dataclass(frozen=True, slots=True)
class Chosen:
    """A mutation to be tried, the module's text, and what it makes of that."""

    mutation: Mutation
    text: str
    change: Mutated

    def __str__(self) -> str:
        """Return one line for people."""
        return f"{self.mutation.module}:{self.change.line} {self.mutation.rule}"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutation: the test that noticed it, None when none did."""

    chosen: Chosen
    noticed_by: str | None


class Tree:
    """A copy of the tree in which one module at a time is changed."""

    def __init__(self, path: Path) -> None:
        """Copy what Git knows, or would add, as it is now."""
        self.path = path
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout.split("\0")  # fmt: skip
        for name in filter(None, names):
            if (ROOT / name).is_file():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, path / name)
        self._ages = count(1)

    def write(self, module: str, text: str) -> None:
        """Write a module so that nobody takes what was compiled of it before for this: each is a second younger."""
        file = self.path / module
        file.write_text(text, "utf-8")
        at = (ROOT / module).stat().st_mtime + next(self._ages)
        os.utime(file, (at, at))

    def failing(self, tests: str) -> str | None:
        """Return the first test that fails, None if all pass.

        Raises
        ------
        RuntimeError
            if the tests could not be run.
        """
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            *tests.split(),
        ]
        environment = {**os.environ, "PYTHONPATH": str(self.path)}
        try:
            done = subprocess.run(
                command,
                cwd=self.path,
                env=environment,
                check=False,
                capture_output=True,
                text=True,
                timeout=LONGEST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"{tests}, which did not end"
        if done.returncode == PASSED:
            return None
        # Who is interrupted ends with the code of a module that could not be imported, and names no test.
        # Of a test with parameters the name may have spaces; what it failed with stands behind a dash.
        named = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        if done.returncode not in NOTICED or named is None:
            raise RuntimeError(f"{tests} could not be run: pytest ends with {done.returncode}\n{done.stdout[-3000:]}")
        return named[1]


def tried(chosen: Sequence[Chosen], folder: Path, jobs: int) -> list[Fate]:
    """Try mutations, several at once, and tell of each that is noticed: by the nearest tests first, all of them.

    Raises
    ------
    RuntimeError
        if tests fail without any mutation, or cannot be run.
    """
    trees: SimpleQueue[Tree] = SimpleQueue()
    for number in range(jobs):
        trees.put(Tree(folder / str(number)))

    def unchanged(tests: str) -> None:
        tree = trees.get()
        try:
            if (failing := tree.failing(tests)) is not None:
                raise RuntimeError(f"{failing} fails without any mutation, so it shows nothing")
        finally:
            trees.put(tree)

    def noticed_by(each: Chosen, tests: str) -> Fate:
        tree = trees.get()
        try:
            tree.write(each.mutation.module, each.change.text)
            found = Fate(each, tree.failing(tests))
        finally:
            tree.write(each.mutation.module, each.text)
            trees.put(tree)
        if found.noticed_by is not None:
            print(f"killed   {each} ({found.noticed_by})", flush=True)
        return found

    fates: list[Fate] = []
    left = list(chosen)
    with ThreadPoolExecutor(jobs) as pool:
        for distance in count():
            tests = [each.mutation.tests[distance] for each in left if distance < len(each.mutation.tests)]
            fates += [Fate(each, None) for each in left if distance >= len(each.mutation.tests)]
            left = [each for each in left if distance < len(each.mutation.tests)]
            if not left:
                return fates
            list(pool.map(unchanged, sorted(set(tests))))
            found = list(pool.map(noticed_by, left, tests))
            fates += [each for each in found if each.noticed_by is not None]
            left = [each.chosen for each in found if each.noticed_by is None]
            for each in left:
                print(f"not yet  {each}", flush=True)
    raise AssertionError  # the distances do not end


def by_module(fates: Sequence[Fate]) -> list[str]:
    """Return, for people, how many mutations of each module were noticed."""
    tried = Counter(each.chosen.mutation.module for each in fates)
    killed = Counter(each.chosen.mutation.module for each in fates if each.noticed_by is not None)
    return [f"{killed[module]:4} of {count:<4} {module}" for module, count in sorted(tried.items())]


def main(arguments: Sequence[str]) -> int:
    """Return 0 if enough were noticed, 1 if not, 2 if the catalogue or the tests are not in order."""
    parser = argparse.ArgumentParser(prog="make mutations", description=__doc__)
    parser.add_argument("modules", nargs="*", help="parts of the paths of modules; all if none is said")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    asked = parser.parse_args(arguments)
    chosen: list[Chosen] = []
    refused: list[Refused] = []
    for mutation in catalogue():
        text = (ROOT / mutation.module).read_text("utf-8")
        change = mutated(mutation, text)
        if isinstance(change, Refused):
            refused.append(change)
        elif not asked.modules or any(part in mutation.module for part in asked.modules):
            chosen.append(Chosen(mutation, text, change))
    if refused or not chosen:
        print("\n".join(each.reason for each in refused) or "no module is called so", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="mirror-mutations-") as folder:
        try:
            fates = tried(chosen, Path(folder), asked.jobs)
        except RuntimeError as wrong:
            print(wrong, file=sys.stderr)
            return 2
    survivors = [each for each in fates if each.noticed_by is None]
    print("\n".join(by_module(fates)))
    print(f"{len(fates) - len(survivors)} of {len(fates)} mutations killed")
    for each in survivors:
        print(f"survived {each.chosen}")
    return 0 if len(survivors) <= (1 - LEAST_KILLED) * len(fates) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
