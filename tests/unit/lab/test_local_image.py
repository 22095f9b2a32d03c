"""What an image that is built of this machine holds, and what it runs."""

from __future__ import annotations

from pathlib import Path

from mirror.lab.local_image import linked_libraries, start_script

LDD = """
	linux-vdso.so.1 (0x00007ffd8a1f2000)
	libjli.so => /opt/java/bin/../lib/libjli.so (0x00007f0f1c2d4000)
	libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f0f1c0f3000)
	/lib64/ld-linux-x86-64.so.2 (0x00007f0f1c2ee000)
"""


def test_libraries_and_the_loader_are_taken_and_the_kernel_s_own_is_not() -> None:
    assert linked_libraries(LDD) == [
        Path("/opt/java/lib/libjli.so"),
        Path("/lib/x86_64-linux-gnu/libc.so.6"),
        Path("/lib64/ld-linux-x86-64.so.2"),
    ]
    assert linked_libraries("\tnot a dynamic executable\n") == []


def test_a_disk_that_is_formatted_already_is_gone_on_with_and_any_other_trouble_is_said() -> None:
    lines = start_script(Path("/opt/java/bin/java")).splitlines()
    assert lines[0] == "#!/bin/sh"
    assert '*"already formatted"*) ;;' in lines[2]
    assert 'echo "$said"; exit 1' in lines[3]
    assert lines[-1].startswith("exec /opt/java/bin/java ")
