"""What is in git can be used anywhere: it names no registry's address and no place of the machine it was written on."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Written in two halves so that this file does not name them either.
REGISTRY_HOSTS = [
    name + "." + domain
    for name, domain in [
        ("pypi", "org"),
        ("files.pythonhosted", "org"),
        ("repo1.maven", "org"),
        ("repo.maven.apache", "org"),
        ("central.sonatype", "com"),
        ("conda.anaconda", "org"),
        ("registry.npmjs", "org"),
        ("static.crates", "io"),
        ("proxy.golang", "org"),
        ("deb.debian", "org"),
        ("archive.ubuntu", "com"),
    ]
]


@cache
def texts() -> dict[str, str]:
    """The text files that are in git, or would be with the next ``git add``, by path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    contents = {path: (ROOT / path).read_bytes() for path in listed if path and (ROOT / path).is_file()}
    return {path: content.decode() for path, content in contents.items() if b"\0" not in content}


def test_no_file_names_the_address_of_a_registry() -> None:
    """Where packages come from is the business of the machine: mirrors, proxies and caches are set up there."""
    naming = [f"{path}: {host}" for path, text in texts().items() for host in REGISTRY_HOSTS if host in text]
    assert naming == []


def test_no_file_names_the_folder_of_this_checkout() -> None:
    assert [path for path, text in texts().items() if f"{ROOT}/" in text] == []


def test_every_text_file_ends_with_a_line_end() -> None:
    assert [path for path, text in texts().items() if text and not text.endswith("\n")] == []
