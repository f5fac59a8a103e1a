"""Spark sessions fit for keyfold: one of our own, or the user's."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold import private
from keyfold.engine import cluster, limits
from keyfold.engine.jvm.command import JAVA_OPTIONS
from keyfold.engine.jvm.launch import Launch
from keyfold.engine.startup_phases import Tell, brief
from keyfold.engine.storage.files import replace_file
from keyfold.errors import ConnectRefused, KeyfoldError, RunError
from keyfold.kernel.build import java, kernel_jar
from keyfold.settings import Settings, load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STORE = "spark.sql.streaming.stateStore"
_CHECKPOINT_FILES = "org.apache.spark.sql.execution.keyfold.io.LocalCheckpointFiles"

# What a stream of keyfold's needs or was measured to run best with (docs/checkpoints.md).
STREAMING: dict[str, str] = {
    f"{_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting rows costs a read per write: 2.5 times slower.
    f"{_STORE}.rocksdb.trackTotalNumberOfRows": "false",
    # One cache and one bound on memory for all state stores of a JVM; see `memory_and_batches`.
    f"{_STORE}.rocksdb.boundedMemoryUsage": "true",
    # Of two attempts of a task, the one that the commit log names wrote the state that counts.
    f"{_STORE}.checkpointFormatVersion": "2",
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
    # Halves the time of a small batch. Queries need the class when they start: only a JVM of our own has it.
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
}

# On a local master nobody else has to reach the driver.
LOOPBACK: dict[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

# A JVM whose heap is full would continue without the threads it lost; with this option it ends instead.
_FULL_HEAP = "-XX:+ExitOnOutOfMemoryError"

# A JVM that was started before it is needed; see `ahead`.
_ahead: list[Launch] = []

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


def own_session(
    settings: Settings,
    extra: Mapping[str, str] | None = None,
    tell: Tell = brief,
    *,
    alone: bool = False,
) -> SparkSession:
    """A new session with the measured settings and the user's on top.

    `alone`: the process ends with the run, so that temporary files can be in its home.
    """
    # One process has one SparkContext: use it rather than change it under its user.
    running = _running_session()
    if running is not None:
        _discard_ahead()
        return users_session(running, settings)
    # Python workers must be this Python, with what is installed beside it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    wanted = _jvm_up(settings, extra or {}, tell, alone)
    from pyspark.sql import SparkSession

    with _own_interrupts() if alone else nullcontext():
        spark = SparkSession.builder.config(map={**wanted}).getOrCreate()
    if "spark.sql.shuffle.partitions" not in wanted:
        spark.conf.set("spark.sql.shuffle.partitions", str(cluster.partitions(spark)))
    return checked(spark)


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Leaves Ctrl-C to the command: PySpark's handler, meant for notebooks, calls Java to cancel jobs, which
    fails with a trace if the signal comes during another call.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def ahead(home: str | Path | None, settings: Mapping[str, Any], tell: Tell = brief) -> Iterator[None]:
    """Starts the JVM that `own_session(alone=True)` is about to ask for, while Python loads the engine.

    Errors are ignored here, since they occur there again and are reported there.
    """
    try:
        if not _ahead and not _jvm_there():
            with suppress(KeyfoldError, OSError):
                wanted = load(home=home, **settings)
                _ahead.append(_launch(wanted, {}, tell, wanted.local_directory))
        yield
    finally:
        _discard_ahead()


def _discard_ahead() -> None:
    """Ends a JVM that was started ahead and not used."""
    while _ahead:
        _ahead.pop().discard()


def _jvm_up(settings: Settings, extra: Mapping[str, str], tell: Tell, alone: bool) -> dict[str, str]:
    """Starts a JVM for PySpark unless it has one; returns the settings of its session."""
    place = settings.local_directory if alone else None
    if _jvm_there():
        jar = kernel_jar(settings.kernel_dir, lambda: tell("kernel"))
        _load(jar)
        return wanted_of(settings, jar, extra)
    launch = _ahead.pop() if _ahead else _launch(settings, extra, tell, place)
    from pyspark import SparkContext

    SparkContext._ensure_initialized(gateway=launch.gateway())
    return launch.wanted


def _load(jar: Path) -> None:
    """Adds the kernel to a JVM that runs already: spark-submit's, which began without it.

    A jar of a session alone would not do: the driver reads the results of tasks with the JVM's own loader.
    """
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getClass().getName() == "org.apache.spark.util.MutableURLClassLoader":
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())


def _launch(settings: Settings, extra: Mapping[str, str], tell: Tell, place: Path | None) -> Launch:
    found = java()
    jar = kernel_jar(settings.kernel_dir, lambda: tell("kernel"))
    tell("spark")
    return Launch(found, jar, wanted_of(settings, jar, extra), settings, place)


def _jvm_there() -> bool:
    """Whether PySpark has a JVM already, its own or one that started this process."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return "PYSPARK_GATEWAY_PORT" in os.environ or getattr(context, "_gateway", None) is not None


def _running_session() -> SparkSession | None:
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession._instantiatedSession


def wanted_of(settings: Settings, jar: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session of keyfold's own; the user's override them, or are added."""
    own = {**settings.spark, **extra}
    # With spark-submit the master is the submitted one, unless a setting says otherwise.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    master = own.get("spark.master") or settings.master or ("" if submitted else "local[*]")
    logging = f"-Dlog4j2.configurationFile={log_settings(settings).as_uri()}"
    wanted: dict[str, str] = {
        **STREAMING,
        **STARTING,
        **memory_and_batches(settings),
        **({} if cluster.is_local(master or None) else cluster.executor_memory(own, settings.state_memory)),
        # Executors on other machines must be able to reach the driver.
        **(LOOPBACK if master and cluster.is_local(master) else {}),
        "spark.app.name": "keyfold",
        "spark.master": master,
        "spark.driver.memory": settings.driver_memory,
        **own,
        "spark.jars": ",".join(dict.fromkeys((str(jar), *_jars(own)))),
        # Of two options for the same thing Java uses the last: the user's.
        JAVA_OPTIONS: f"{logging} {_FULL_HEAP} {own.get(JAVA_OPTIONS, '')}".strip(),
    }
    return {key: value for key, value in wanted.items() if value}


def memory_and_batches(settings: Settings) -> dict[str, str]:
    """The settings that bound the memory of state, and the size of a batch."""
    return {
        f"{_STORE}.rocksdb.maxMemoryUsageMB": str(max(1, limits.bytes_of(settings.state_memory) >> 20)),
        limits.FILES: str(settings.batch_files),
        limits.BYTES: str(limits.bytes_of(settings.batch_bytes)),
    }


def _jars(settings: Mapping[str, str]) -> list[str]:
    return [jar.strip() for jar in settings.get("spark.jars", "").split(",") if jar.strip()]


def log_settings(settings: Settings) -> Path:
    """Sends Spark's and Java's logs to files in the home; errors that matter are raised as exceptions."""
    home = settings.local_directory
    private.directory(home)
    for log in (home / "java.log", *home.glob("spark.log*")):
        private.tighten(log)
    replace_file(home / "log4j2.properties", LOGGING.format(log=home / "spark.log").encode())
    return home / "log4j2.properties"


def users_session(spark: Any, settings: Settings) -> SparkSession:
    """A copy of the user's session: their settings win, theirs stays untouched, the kernel is added."""
    refuse_connect(spark)
    from pyspark.sql import SparkSession

    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    conf = copy._jsparkSession.sessionState().conf()
    for key, value in {**STREAMING, **memory_and_batches(settings), **settings.spark}.items():
        own = key in settings.spark or key in (limits.FILES, limits.BYTES)
        if key != "spark.jars" and (own or not conf.contains(key)):
            copy.conf.set(key, value)
    provider = f"{_STORE}.providerClass"
    if copy.conf.get(provider) != STREAMING[provider]:
        raise RunError(
            "this session's state store is not RocksDB",
            given=f"{provider}={copy.conf.get(provider)}",
            hint=f"leave {provider} unset; timers and the kernel's state need RocksDB",
        )
    added = [] if kernel_loaded(copy) else [str(kernel_jar(settings.kernel_dir))]
    for jar in (*added, *_jars(settings.spark)):
        copy._jsparkSession.sessionState().resourceLoader().addJar(jar)
    return checked(copy)


def refuse_connect(spark: Any) -> None:
    if type(spark).__module__.startswith("pyspark.sql.connect") or not hasattr(spark, "_jsparkSession"):
        raise ConnectRefused(
            "this is a Spark Connect session, and keyfold needs a classic one",
            given=f"{type(spark).__module__}.{type(spark).__name__}",
            hint="the kernel runs inside the driver's JVM, which Connect hides; start with "
            "SparkSession.builder.master(...) instead of .remote(...), or leave spark= out",
        )


def kernel(spark: Any) -> Any:
    """The kernel's entry point in the session's JVM."""
    # Jars that were added later are visible to the session's own class loader only.
    loader = spark._jsparkSession.artifactManager().classloader()
    module = loader.loadClass("org.apache.spark.sql.keyfold.api.KernelApi$")
    return module.getField("MODULE$").get(None)


def checked(spark: SparkSession) -> SparkSession:
    """The session, unless its Spark plans the kernel's operators in a way the kernel does not support."""
    difference = str(kernel(spark).selfCheck(spark._jsparkSession))
    if difference:
        raise RunError(
            "the kernel is not compatible with this version of Spark",
            given=difference,
            hint="install pyspark>=4.3,<4.4",
        )
    return spark


def kernel_loaded(spark: SparkSession) -> bool:
    try:
        kernel(spark)
    except Exception:
        return False
    return True
