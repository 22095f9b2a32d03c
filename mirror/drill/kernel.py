"""The kernels notebooks run in: always this process's interpreter, whatever kernels are installed elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from traitlets import Unicode, default

from mirror.drill.unattended import UNATTENDED_VARIABLE


class OwnInterpreterKernelManager(AsyncKernelManager):
    """Starts `kernel_process` with ``sys.executable`` and tells the kernel that no person is there to be asked.

    A kernel named ``python3`` found on the machine may belong to another environment, which lacks this package or,
    worse, has another version of it.
    """

    log_path = Unicode(help="File for what the kernel's process writes beside its notebook.").tag(config=True)

    async def _async_launch_kernel(self, kernel_cmd: list[str], **options: Any) -> None:
        """Start the process with its output going to the log: Spark and the JVM write there, not into the terminal."""
        with Path(self.log_path).open("ab") as log:
            await super()._async_launch_kernel(kernel_cmd, stdout=log, stderr=log, **options)

    @default("transport_encryption")
    def _encrypt(self) -> str:
        # A kernel executes whatever reaches its port: nobody else on the machine shall be able to talk to it.
        return "required"

    @property
    def kernel_spec(self) -> KernelSpec:
        """Return the only kernel there is."""
        return KernelSpec(
            # By its name: whoever only starts kernels needs not have loaded ipykernel.
            argv=[sys.executable, "-m", "mirror.drill.kernel_process", "-f", "{connection_file}"],
            display_name=f"Python {sys.version_info.major}.{sys.version_info.minor}",
            language="python",
            env={UNATTENDED_VARIABLE: "1"},
            metadata={"supported_encryption": ["curve"]},
        )
