"""The process of a kernel that runs a step: ipykernel's, which ends as soon as it is told to.

Run as ``python -m mirror.drill.kernel_process -f CONNECTION_FILE``.
"""

from __future__ import annotations

import atexit
import os

from ipykernel.kernelapp import IPKernelApp


class KernelProcess(IPKernelApp):
    """ipykernel's application without a race at its end.

    ipykernel 7 stops the thread that publishes output while its control channel may still wait, for up to 10 s, for
    that thread to publish that the request to shut down was answered: one kernel in ten took 3 s to end, when it was
    killed.
    """

    def start(self) -> None:
        """Run until the kernel is told to shut down, and until its control channel has answered that."""
        super().start()  # type: ignore[no-untyped-call]
        if self.control_thread is not None:
            self.control_thread.stop()
            self.control_thread.join()


if __name__ == "__main__":
    # Called last, after all that is registered later: to take Spark's and pandas' modules apart takes half a second.
    atexit.register(os._exit, 0)
    KernelProcess.launch_instance()
