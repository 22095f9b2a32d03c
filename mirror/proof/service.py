"""A process that keeps Spark warm and judges on request, for as long as a run lasts.

Spark takes seconds to start and longer to get going; a run's notebooks, each a process of its own, would pay that
every time. Run as ``python -m mirror.proof.service ADDRESS_FILE``; the file then says where it listens, readable by
its owner only. Requests are module-level functions with their arguments, by reference, as `multiprocessing` pickles
them; whoever may read the file may have it run code, as whoever owns the run may anyway.

It only saves time: where it has ended, killed perhaps, whoever asks judges in its own process.

Invariants:

(a) What only saves time stops nothing: archives, files compiled ahead and the judges' process may be missing, killed
    or late. It is said in a line, and whoever asked goes on without.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from mirror.proof.warm_up import warm_up
from mirror.spark import kill_spark, spark_answers, spark_session

P = ParamSpec("P")
T = TypeVar("T")

# What either side meets when the other has ended, or is somebody else by now.
_LOST = (OSError, EOFError, AuthenticationError)


def ask(address_file: Path, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Have the service of ``address_file`` call a function; return what it returns, raise what it raises.

    A function that only reads, for it is called here, and a line says so, if the service ends before it has answered.
    """
    try:
        address = json.loads(address_file.read_text())
        with Client((address["host"], address["port"]), authkey=bytes.fromhex(address["key"])) as connection:
            connection.send((function, args, kwargs))
            error, answer = connection.recv()
    except _LOST as lost:
        reason = str(lost) or type(lost).__name__
        print(f"The process that judges has ended ({reason}): judging here, which takes longer", file=sys.stderr)
        return function(*args, **kwargs)
    if error is not None:
        raise error
    result: T = answer
    return result


def serve(address_file: Path) -> None:
    """Listen, start Spark, and answer requests one after the other until SIGTERM; get warm behind the first answer.

    Each connection has a thread: one that says nothing, or nothing of ours, keeps nobody waiting.
    """
    signal.signal(signal.SIGTERM, _end)
    key = secrets.token_bytes(32)
    judging = threading.Lock()
    # Who connects is asked for the key by its thread: here one that does not answer would keep the others out.
    with Listener(("127.0.0.1", 0)) as listener:
        host, port = listener.address
        # Asked before Spark has started, it answers when it has. The rest is for the machine's quieter moments, behind
        # the first answer: beside the start of a replicator and of applications it makes a drill 5 s longer.
        spark = threading.Thread(target=_saving_time, args=(lambda: spark_session("judges"),), daemon=True)
        spark.start()
        rest = threading.Thread(target=_saving_time, args=(lambda: warm_up(spark_session("judges")),), daemon=True)
        unfinished = address_file.with_suffix(".unfinished")
        unfinished.touch(mode=0o600)
        unfinished.write_text(json.dumps({"host": host, "port": port, "key": key.hex()}))
        unfinished.rename(address_file)
        while True:
            with suppress(*_LOST):
                connection = listener.accept()
                threading.Thread(target=_serve, args=(connection, key, spark, judging, rest), daemon=True).start()


def _end(*_: object) -> None:
    kill_spark()
    os._exit(0)


def _serve(
    connection: Connection, key: bytes, spark: threading.Thread, judging: threading.Lock, rest: threading.Thread
) -> None:
    """Answer whoever has connected, if it has the key; one that is gone, or is none of ours, is dropped."""
    with suppress(*_LOST), connection:
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
        request = connection.recv()
        spark.join()
        with judging:
            _answer(connection, request)
            if rest.ident is None:
                rest.start()


def _saving_time(prepare: Callable[[], object]) -> None:
    try:
        prepare()
    except Exception as problem:  # noqa: BLE001  # what only saves time stops nothing, whatever broke in it
        print(f"not warm, so judgements take longer: {problem}", file=sys.stderr, flush=True)


def _answer(connection: Connection, request: Any) -> None:
    function, args, kwargs = request
    try:
        answer = function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001  # it is raised where the question was asked
        if not spark_answers():
            # Without Spark this process is of no use to anybody: whoever asked is to go on without it.
            print(f"Spark is gone: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        connection.send((error, None))
    else:
        connection.send((None, answer))


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
