"""The settings of Spark sessions: what keyfold needs or was measured to run best with, then the user's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from keyfold import private
from keyfold.engine import cluster, limits
from keyfold.engine.jvm.command import JAVA_OPTIONS
from keyfold.engine.storage.files import replace_file
from keyfold.kernel.api import CHECKPOINT_FILES
from keyfold.settings import Settings

STORE = "spark.sql.streaming.stateStore"

# What a stream of keyfold's needs or was measured to run best with (docs/checkpoints.md).
STREAMING: dict[str, str] = {
    f"{STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting rows costs a read per write: 2.5 times slower.
    f"{STORE}.rocksdb.trackTotalNumberOfRows": "false",
    # One cache and one bound on memory for all state stores of a JVM; see `memory_and_batches`.
    f"{STORE}.rocksdb.boundedMemoryUsage": "true",
    # Of two attempts of a task, the one that the commit log names wrote the state that counts.
    f"{STORE}.checkpointFormatVersion": "2",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "true",
    # One store for both sides of a join, from which expired rows are removed without a scan.
    "spark.sql.streaming.join.stateFormatVersion": "4",
    # An idle query looks for new input this often.
    "spark.sql.streaming.pollingDelay": "50ms",
    # Progress reports are kept for status; a few are enough.
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.session.timeZone": "UTC",
    # Rows of a state come to the driver in record batches of this size, where a view is rebuilt from it.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
}

# Set when the JVM starts, so only on a session of our own.
STARTING: dict[str, str] = {
    "spark.driver.maxResultSize": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "",  # see cluster.partitions
    # Spark keeps 100 classes of generated code, of which each table has about ten: of more than ten different
    # tables, each batch of each would be compiled again.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Halves the time of a small batch. Queries need the class when they start: only a JVM of our own has it.
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
}

# On a local master nobody else has to reach the driver.
LOOPBACK: dict[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

# A JVM whose heap is full would continue without the threads it lost; with this option it ends instead.
_FULL_HEAP = "-XX:+ExitOnOutOfMemoryError"

LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.filePermissions = rw-------
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 50MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""


def wanted_of(
    settings: Settings, jar: Path, extra: Mapping[str, str], submitted: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The settings of a session of keyfold's own; the user's override them, or are added.

    `submitted`: the settings of spark-submit, if that has started the JVM. They are the user's too.
    """
    given = {**settings.spark, **extra}
    own = {**(submitted or {}), **given}
    default = "local[*]" if submitted is None else submitted.get("spark.master", "")
    master = given.get("spark.master") or settings.master or default
    logging = f"-Dlog4j2.configurationFile={log_settings(settings).as_uri()}"
    wanted: dict[str, str] = {
        **STREAMING,
        **STARTING,
        **memory_and_batches(settings),
        **({} if cluster.is_local(master or None) else cluster.executor_memory(own, settings.state_memory)),
        # Executors on other machines must be able to reach the driver.
        **(LOOPBACK if master and cluster.is_local(master) else {}),
        "spark.app.name": "keyfold",
        "spark.driver.memory": settings.driver_memory,
        **own,
        "spark.master": master,
        "spark.jars": ",".join(dict.fromkeys((str(jar), *jars_of(own)))),
        # Of two options for the same thing Java uses the last: the user's.
        JAVA_OPTIONS: f"{logging} {_FULL_HEAP} {own.get(JAVA_OPTIONS, '')}".strip(),
    }
    return {key: value for key, value in wanted.items() if value}


def memory_and_batches(settings: Settings) -> dict[str, str]:
    """The settings that bound the memory of state, and the size of a batch."""
    return {
        f"{STORE}.rocksdb.maxMemoryUsageMB": str(max(1, limits.bytes_of(settings.state_memory) >> 20)),
        limits.FILES: str(settings.batch_files),
        limits.BYTES: str(limits.bytes_of(settings.batch_bytes)),
    }


def jars_of(settings: Mapping[str, str]) -> list[str]:
    """The jars that settings of Spark name."""
    return [jar.strip() for jar in settings.get("spark.jars", "").split(",") if jar.strip()]


def log_settings(settings: Settings) -> Path:
    """Sends Spark's and Java's logs to files in the home; errors that matter are raised as exceptions."""
    home = settings.local_directory
    private.directory(home)
    for log in (home / "java.log", *home.glob("spark.log*")):
        private.tighten(log)
    replace_file(home / "log4j2.properties", LOGGING.format(log=home / "spark.log").encode())
    return home / "log4j2.properties"
