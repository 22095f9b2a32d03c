"""The process Spark forks its Python workers from, with the copier read already.

A worker is then at work half a second sooner, and half a second of CPU cheaper, when the engine starts and after a
worker was lost. Spark starts it as ``python -m mirror.copier.worker_daemon pyspark.worker``; where PySpark's own daemon
is used instead, each worker imports the copier itself.

Invariants:

(a) A worker whose parent has gone stops at once: an orphan must not write beside its successor.
"""

from __future__ import annotations

import gc
import os

if __name__ == "__main__":
    # A thread would not survive the fork, and the copier has no use for those of the linear algebra below NumPy.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

    import pyspark.worker  # noqa: F401 - as the two below it is read for those who are forked
    from pyspark.daemon import manager

    import mirror.copier.epochs
    import mirror.copier.takeover_task  # noqa: F401

    # What was read stays: no collection of garbage needs to look at it, which would copy its pages to each worker.
    gc.freeze()
    manager()
