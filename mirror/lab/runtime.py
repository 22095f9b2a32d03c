"""What runs Kafka here: a Java, the jars, and the command lines made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mirror.lab import jars, java
from mirror.lab.jars import JarSet
from mirror.lab.java import Java
from mirror.model.progress import Watch, nobody

_LOG_SETTINGS = Path(__file__).with_name("log4j2.xml")

#: On two cores shared by several brokers and a replicator the serial collector costs a broker 100 MB less memory than
#: G1, and no throughput.
FRUGAL = ("-Xms64m", "-XX:+UseSerialGC")


@dataclass(frozen=True, slots=True)
class KafkaRuntime:
    """A Java with Kafka's jars.

    Attributes
    ----------
    java
        the Java runtime.
    jars
        the directory with Kafka's jars.
    class_archive
        an archive of a broker's classes that shortens its start; None: it starts without.
    java_options
        further options of the Java runtime.
    """

    java: Java
    jars: Path
    class_archive: Path | None = None
    java_options: tuple[str, ...] = ()

    def brief(self) -> KafkaRuntime:
        """Return the same for what is over within minutes, before the second compiler has paid for itself.

        On two cores a drill is an eighth shorter with such brokers, for a fifth less of the CPU.
        """
        return replace(self, java_options=(*self.java_options, "-XX:TieredStopAtLevel=1"))

    def command(
        self,
        main_class: str,
        arguments: Sequence[str],
        *,
        heap_megabytes: int,
        temporary_files: Path,
        log_level: str = "WARN",
        memory_options: Sequence[str] = FRUGAL,
    ) -> list[str]:
        """Return the command line that runs one of Kafka's main classes.

        ``memory_options`` are how the heap begins and is collected. ``temporary_files`` is a folder that goes with the
        other files of the process: what it unpacks there, and performance data files, ``kill -9`` leaves behind.
        """
        archive = [] if self.class_archive is None else [f"-XX:SharedArchiveFile={self.class_archive}"]
        return [
            str(self.java.path),
            *(f"-Xmx{heap_megabytes}m", *memory_options),
            *("-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError", f"-Djava.io.tmpdir={temporary_files}"),
            *archive,
            *self.java_options,
            f"-Dlog4j2.configurationFile={_LOG_SETTINGS}",
            f"-Dmirror.log.level={log_level}",
            *("-cp", f"{self.jars}/*", main_class),
            *arguments,
        ]


def prepare(watch: Watch = nobody, wanted: JarSet | None = None) -> KafkaRuntime:
    """Return the runtime, fetching the jars the first time: those of labs, unless others are ``wanted``.

    Raises
    ------
    JavaMissing, JarsUnavailable
        with a message that says what to do.
    """
    return KafkaRuntime(java.find(), jars.ensure(watch, wanted))
