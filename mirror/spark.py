"""The one place where Spark is started: quiet, in UTC, its workers on the interpreter that runs this.

``python -m mirror.spark`` makes, once per user, an archive of the classes Spark loads; with it a local session starts
and answers its first question several seconds sooner. Without it everything works the same.

Invariants:

(a) Spark is started in a thread. In the main one PySpark takes Ctrl-C over, to cancel the jobs and raise
    ``KeyboardInterrupt`` wherever the engine is.
(b) PySpark hands a job's data over through a temporary file, unless Spark encrypts what it keeps
    (``spark.io.encryption.enabled``); an engine's Spark does, for the data are logins. On this machine they cross
    nothing but sockets of this user: JVM and workers speak over Unix domain sockets. Spark's page and event log are
    off; neither shows the data.
"""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyspark
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses

from mirror import cache, executor_archive
from mirror.no_spark import SparkDidNotStart, SparkFailed
from mirror.spark_conf import is_local, is_secret
from mirror.spark_folder import SparkFolder
from mirror.waiting import WaitTimeout, wait_until

_SETTINGS: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # Everything here is a few tasks on one machine; the default of 200 shuffle partitions is 200 tiny tasks a join.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A second attempt of the same task would send, or read, twice.
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.driver.memory": "1g",
    # What tasks are handed, logins among it, would pass through a temporary file.
    "spark.io.encryption.enabled": "true",
}

_LOCAL_SETTINGS: dict[str, str] = {
    # A host name that does not resolve, or resolves to an outside address, must not stop a local session.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A judgement on one machine is over before the second compiler pays: the first compiler alone, and plans taken as
    # they are, halve the CPU of the first one (20 to 11 CPU seconds for 60,000 sends and 120,000 records of logs).
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.adaptive.enabled": "false",
    # What is kept between two questions of a judgement is small and soon gone: to compress it takes more than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # A ledger is hundreds of small files; beyond 32 Spark would look each of them up in a task of its own.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}


#: What whoever asks Spark may meet; a JVM that is killed may be met at any moment of its end.
SPARK_ERRORS = (PySparkException, Py4JError, OSError, EOFError)
_OF_JAVA = ("SQLSTATE:", "Driver stacktrace:", "Caused by: java.")

_ENDING_SECONDS = 60.0
# The one JVM that writes the archive of its classes at its end; on a busy machine that has taken over a minute.
_ARCHIVING_SECONDS = 600.0
_starting = threading.Lock()
_folder: SparkFolder | None = None
_TEMPORARY_FILES = "-Djava.io.tmpdir="
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_PYTHON, _PYTHON_PATH = "spark.pyspark.python", "spark.executorEnv.PYTHONPATH"
_DRIVER_PORT = "spark.mirror.driver.port"
_PY4J = "py4j"
_ARCHIVES, _PYTHON_FILES = "spark.archives", "spark.submit.pyFiles"
_SOCKETS, _SOCKET_FOLDER = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"


def spark_context(
    app_name: str,
    master: str | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    log_path: Path | None = None,
) -> SparkContext:
    """Return the running Spark of this process, or start one; who needs no SQL is spared a quarter of a start's CPU.

    Parameters
    ----------
    app_name
        What Spark shows as the name of the application.
    master
        A Spark master URL; ``local[*]`` when none is given.
    settings
        Further Spark settings, which win over those of this module (``spark.driver.memory`` for instance).
    log_path
        Where the output of Spark's JVM and of its workers is appended; otherwise a file in Spark's own folder
        (`spark_folder`), which goes with it. It is kept off this process's own streams, so that a notebook or a
        terminal shows results only.

    Raises
    ------
    SparkDidNotStart
        if the JVM cannot be started (no Java, or a wrong setting).

    Notes
    -----
    On this machine ``PYSPARK_PYTHON`` is set to the running interpreter first: without it the workers are whatever
    ``python3`` the path names, which lacks this package, and Spark fails with "Python worker failed to connect back".
    On a cluster that is a matter of ``spark.pyspark.python`` or ``PYSPARK_PYTHON``, and the code is shipped.
    """
    with _starting:
        if SparkContext._active_spark_context is None:
            _start(app_name, master, settings, log_path)
        return SparkContext.getOrCreate()


def spark_session(
    app_name: str,
    master: str | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    log_path: Path | None = None,
) -> SparkSession:
    """Return a session on this process's Spark, which is started as by `spark_context`."""
    spark_context(app_name, master, settings=settings, log_path=log_path)
    return SparkSession.builder.getOrCreate()


def _start(app_name: str, master: str | None, settings: Mapping[str, str] | None, log_path: Path | None) -> None:
    global _folder  # noqa: PLW0603  # PySpark keeps its one context in globals too
    keep_py4j_quiet()
    try:
        folder = _folder = SparkFolder()
    except OSError as error:
        raise SparkDidNotStart(
            f"Spark has no folder for its temporary files ({error}); name one that can be written to by TMPDIR"
        ) from error
    chosen_master = master or "local[*]"
    chosen = dict(_SETTINGS)
    given = dict(settings or {})
    workers = given.get(_PYTHON) or os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = (not is_local(master) and workers) or sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        chosen |= _LOCAL_SETTINGS
        chosen |= _socket_settings(folder)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        archive = _class_archive_path()
        if cache.is_whole(archive):
            # Java passes over an archive that was made by another Java or from other jars, and dies of half a one.
            chosen[_JAVA_OPTIONS] += f" -XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off"
    chosen["spark.sql.warehouse.dir"] = str(folder.warehouse)
    modules, archives = "", None
    if not is_local(master):
        # Handed over below, once Spark is up.
        modules, archives = given.pop(_PYTHON_FILES, ""), given.pop(_ARCHIVES, None)
        if archives is None:
            own = given.get(_PYTHON_PATH)
            given[_PYTHON_PATH] = f"{executor_archive.FOLDER}:{own}" if own else executor_archive.FOLDER
    chosen |= given
    java_options = chosen.get(_JAVA_OPTIONS, "")
    if _TEMPORARY_FILES not in java_options:
        chosen[_JAVA_OPTIONS] = f'{java_options} "{_TEMPORARY_FILES}{folder.path}"'.strip()

    def conf_of(values: Mapping[str, str]) -> SparkConf:
        return SparkConf(loadDefaults=False).setMaster(chosen_master).setAppName(app_name).setAll(list(values.items()))

    log = log_path or folder.log
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with log.open("ab") as output:
            # A session of its own: a signal to this process's group is for this process to answer, not for the JVM,
            # which ends when its standard input does.
            streams = {"stdout": output, "stderr": output, "start_new_session": True}
            # It hands them over as arguments of a process, which everybody may read.
            open_ones = conf_of({key: value for key, value in chosen.items() if not is_secret(key)})
            gateway = _launched(open_ones, streams)
        context = SparkContext(conf=conf_of(chosen), gateway=gateway)
        if not is_local(master):
            _ship(context, folder.code, archives, modules)
        # It would print a stack when the JVM is lost; whoever asks Spark next is told of that.
        context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    except SPARK_ERRORS as error:
        last_lines = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
        # What the JVM has raised it is asked for, and can be as long as it runs.
        message = str(error)
        end_spark()
        raise SparkDidNotStart(
            f"Spark's JVM did not start ({message}); is Java 17 or later on the path? Its log is {log}:\n{last_lines}"
        ) from error


def keep_py4j_quiet() -> None:
    """Let py4j log nothing unless somebody has set up the root logger; calling it again changes nothing.

    What it logs it raises as well. That Ctrl-C came while it waited for the JVM it logs on the root logger itself, with
    a traceback, and so gives that logger a handler that prints its other lines from then on.
    """
    root = logging.getLogger()
    if not root.handlers:
        root.addFilter(_is_of_others)
        logging.getLogger(_PY4J).propagate = False


def _is_of_others(line: logging.LogRecord) -> bool:
    """Whether a line of the log was not written in the code of py4j."""
    return Path(line.pathname).parent.name != _PY4J


def _launched(conf: SparkConf, streams: Mapping[str, Any]) -> JavaGateway:
    """Return the gateway to a JVM that is started; if that is interrupted, nothing is left of it.

    PySpark takes away the folder to which the JVM is about to write its address: that one would fail, and never come to
    look whether its standard input has ended.
    """
    before = {each.pid for each in psutil.Process().children()}
    try:
        return launch_gateway(conf, popen_kwargs=dict(streams))
    except BaseException:
        for child in psutil.Process().children():
            with suppress(psutil.Error, WaitTimeout):
                if child.pid not in before and any("spark" in part for part in _command(child)):
                    child.kill()
                    child.wait()
        raise


def _command(child: psutil.Process) -> list[str]:
    """Return a child's command line: its parent's between fork and exec, and none within an exec, are waited out."""
    own = psutil.Process().cmdline()
    return wait_until(
        child.cmdline, "a child's own command", timeout_seconds=5, until=lambda parts: bool(parts) and parts != own
    )


def _socket_settings(folder: SparkFolder) -> dict[str, str]:
    """Return how Spark and its Python workers talk on this machine: by sockets, where their names fit.

    Otherwise they talk over the loopback address, as they do on the machines of a cluster: the folders of executors
    have long names (YARN's containers for instance), and are not known here.
    """
    return {_SOCKETS: "true", _SOCKET_FOLDER: str(folder.path)} if folder.has_room_for_sockets else {_SOCKETS: "false"}


def _ship(context: SparkContext, code: Path, archives: str | None, modules: str) -> None:
    """Hand executors, also those that come later, the code of tasks: ``archives`` and ``modules``, joined by commas.

    Without a word about archives it is this installation's own, written to ``code``; an empty one says that the workers
    have the code.
    """
    if archives is None:
        executor_archive.write_archive(code)
        archives = f"{code}#{executor_archive.FOLDER}"
    for archive in filter(None, archives.split(",")):
        context.addArchive(archive)
    for module in filter(None, modules.split(",")):
        context.addPyFile(module)


@dataclass(frozen=True, slots=True)
class DriverAddress:
    """Where tasks reach this process: as they know it, as it knows itself, and from which port on (0: any)."""

    host: str = "127.0.0.1"
    bind: str = "127.0.0.1"
    port: int = 0


def driver_address(context: SparkContext) -> DriverAddress:
    """Return what ``spark.driver.host``, ``spark.driver.bindAddress`` and ``spark.mirror.driver.port`` say.

    Spark itself listens at the same addresses, on ports of its own.
    """
    conf = context.getConf()
    host = conf.get("spark.driver.host") or "127.0.0.1"
    return DriverAddress(host, conf.get("spark.driver.bindAddress") or host, int(conf.get(_DRIVER_PORT) or 0))


def spark_answers() -> bool:
    """Whether this process's Spark is at work; its JVM may still be there as a process when it is not.

    Without its folder of temporary files, which somebody who cleans up may have removed, no job can begin.
    """
    context = SparkContext._active_spark_context
    try:
        return context is not None and not context._jsc.sc().isStopped() and Path(context._temp_dir).is_dir()
    except SPARK_ERRORS:
        return False


def spark_message(error: Exception) -> str:
    """Return what Spark met; what comes behind it says nothing to people: frames, states and causes of Java's."""
    lines = (line.strip() for line in str(error).strip().splitlines() if not line.startswith("\t"))
    messages = [line for line in lines if line and not line.startswith(_OF_JAVA)]
    return messages[-1] if messages else type(error).__name__


@contextmanager
def spark_asked(what: str) -> Iterator[None]:
    """Have what Spark raises meanwhile be a `SparkFailed` that names ``what``; a Spark that is lost is started anew.

    What files and connections of whoever asks raise stays what it is.
    """
    try:
        yield
    except (PySparkException, Py4JError, EOFError) as error:
        if spark_answers():
            raise SparkFailed(f"{what}: Spark could not do it: {spark_message(error)}") from error
        end_spark()
        raise SparkFailed(f"{what}: Spark's JVM has ended in the middle of it; is there enough memory?") from error


def _class_archive_path() -> Path:
    """Return where the archive of Spark's classes is, or would be."""
    return cache.directory() / f"spark-{pyspark.__version__}-classes.jsa"


def make_class_archive() -> Path | None:
    """Make the archive unless it is there, and return it; None, and a line said, where that fails."""
    return cache.offer(_class_archive_path(), "The archive of Spark's classes", _write_class_archive)


def _write_class_archive(made: Path) -> None:
    """Run what sessions run, and let Java write down, when it ends, what it has loaded."""
    options = f"{_LOCAL_SETTINGS[_JAVA_OPTIONS]} -XX:ArchiveClassesAtExit={made} -Xlog:cds=off"
    try:
        _warm_up(spark_session("archive", "local[1]", settings={_JAVA_OPTIONS: options}), made.parent)
    finally:
        status = end_spark(_ARCHIVING_SECONDS)
    if status != 0:
        raise cache.NotMade(f"the JVM that writes it ended with status {status}")


def _warm_up(spark: SparkSession, folder: Path) -> None:
    """Do a little of everything the judges and the copier do."""
    spark.sparkContext.parallelize([1, 2], 2).map(lambda number: number + 1).collect()
    path = str(folder / "warm-up.parquet")
    spark.range(100).selectExpr("id", "id % 7 as part", "cast(id as string) as name").write.parquet(path)
    rows = spark.read.parquet(path)
    ranked = rows.withColumn("rank", F.row_number().over(Window.partitionBy("part").orderBy("id")))
    counted = ranked.join(F.broadcast(rows.select("id")), "id").groupBy("part").agg(F.count("*"), F.max("name"))
    counted.join(rows, "part", "left_anti").toPandas()
    counted.collect()


def end_spark(patience_seconds: float = _ENDING_SECONDS) -> int | None:
    """Stop this process's Spark, if it was started, and wait until its JVM has ended; one that does not is killed.

    Returns the JVM's exit status (negative: the signal that ended it), None if there was no JVM.
    """
    gateway, context = SparkContext._gateway, SparkContext._active_spark_context
    if context is not None:
        with warnings.catch_warnings():
            # Of a JVM that was killed, which whoever ends it knows.
            warnings.simplefilter("ignore", RuntimeWarning)
            with suppress(*SPARK_ERRORS):
                context.stop()
    if gateway is not None:
        with suppress(*SPARK_ERRORS):
            gateway.shutdown()
        with suppress(OSError):
            gateway.proc.stdin.close()
        try:
            gateway.proc.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()
        if context is not None and _folder is not None:
            # The log of one that did not even start says why.
            _folder.remove()
        if os.getpid() == 1:
            threading.Thread(target=_take_in, args=(gateway.proc.pid,), name="orphans", daemon=True).start()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    return None if gateway is None else gateway.proc.returncode


# Who ends without a word to Spark is to leave no files either.
atexit.register(end_spark)


def kill_spark() -> None:
    """End this process's Spark as it is, for who only reads with it and is about to end."""
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.proc.kill()
        gateway.proc.wait()
    if _folder is not None:
        _folder.remove()


def _take_in(session: int) -> None:
    """Wait for what the processes of a JVM have left behind: the first process of a container is their parent then."""
    while left := [each.pid for each in psutil.Process().children() if _session_of(each.pid) == session]:
        for pid in left:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


if __name__ == "__main__":
    if made := make_class_archive():
        print(f"Spark's classes: {made}")
