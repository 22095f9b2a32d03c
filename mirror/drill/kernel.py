"""The kernels notebooks run in: always this process's interpreter, whatever kernels are installed elsewhere."""

from __future__ import annotations

import os
import sys

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

OWNER_PID_VARIABLE = "MIRROR_OWNER_PID"
"""Environment variable: pid of the process that owns what outlives a notebook (clusters, the mirror, load)."""


class OwnInterpreterKernelManager(AsyncKernelManager):
    """Starts `ipykernel` with ``sys.executable`` and tells the kernel who owns the long-living processes.

    A kernel named ``python3`` found on the machine may belong to another environment, which lacks this package or,
    worse, has
    another version of it.
    """

    @property
    def kernel_spec(self) -> KernelSpec:
        """Return the only kernel there is."""
        return KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name=f"Python {sys.version_info.major}.{sys.version_info.minor} ({sys.executable})",
            language="python",
            env={OWNER_PID_VARIABLE: str(os.getpid())},
        )
