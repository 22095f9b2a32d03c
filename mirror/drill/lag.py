"""Samples the lag of every flow of a properties file into ``lag.jsonl``, once a second, until told to stop.

Run as ``python -m mirror.drill.lag FILE LAG_FILE``. While a source does not answer, its lag is null: not known, not
zero.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path

from mirror.config.resolving import load
from mirror.control.flow_status import FlowStatus
from mirror.control.status import observe

INTERVAL_SECONDS = 1.0


def samples(status: FlowStatus, at_ms: int) -> list[dict[str, object]]:
    """Return one sample a partition of a flow."""
    return [
        {
            "at_ms": at_ms,
            "flow": str(status.flow),
            "topic": partition.topic,
            "partition": partition.partition,
            "lag_records": partition.lag_records,
            "lag_seconds": partition.lag_seconds,
        }
        for partition in status.partitions
    ]


def main(properties: Path, lag_file: Path) -> None:
    """Sample until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with observe(load(properties, applies_transforms=False)) as observers, lag_file.open("a") as out:
        while not stop.wait(INTERVAL_SECONDS):
            for observer in observers:
                for sample in samples(observer.look(), time.time_ns() // 1_000_000):
                    out.write(json.dumps(sample) + "\n")
            out.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
