"""Spark sessions fit for keyfold: one of our own, or the user's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold import private
from keyfold.engine.jvm.launch import JAVA_OPTIONS, submitting
from keyfold.engine.jvm.process import END_SECONDS, Launched, how, remember
from keyfold.engine.jvm.scratch import Scratch
from keyfold.engine.startup_phases import Tell, brief
from keyfold.engine.storage.layout import replace_file
from keyfold.errors import ConnectRefused, JavaEnded, RunError
from keyfold.kernel.build import java, kernel_jar
from keyfold.settings import Settings

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
    f"{_STORE}.rocksdb.blockCacheSizeMB": "256",
    # An idle query looks for new input this often.
    "spark.sql.streaming.pollingDelay": "50ms",
    # Progress reports are kept for status; a few are enough.
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.session.timeZone": "UTC",
    # Changes of a batch go to the driver by design.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
}

# Set when the JVM starts, so only on a session of our own.
STARTING: dict[str, str] = {
    "spark.driver.maxResultSize": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "",  # cores; see own_session
    # Half of what a small batch takes; the class must be there when a query starts, so it came with the JVM.
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
}


# A JVM whose heap is full lives on without the threads it lost; this one ends, and says why.
_FULL_HEAP = "-XX:+ExitOnOutOfMemoryError"
# In a group of its own: signals to the terminal's group are for Python, which ends batches first.
_APART = {"process_group": 0}

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
    java()
    # Python workers must be this Python, with what is installed beside it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    # One process has one SparkContext: go on with it rather than change it under its user.
    running = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if running is not None:
        return users_session(running, settings)
    jar = kernel_jar(settings.kernel_dir, lambda: tell("kernel"))
    wanted = wanted_of(settings, jar, extra or {})
    tell("spark")
    _launch(wanted, settings, settings.home.resolve() if alone else None)
    spark = SparkSession.builder.config(map={**wanted}).getOrCreate()
    if "spark.sql.shuffle.partitions" not in wanted:
        spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    return spark


def wanted_of(settings: Settings, jar: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """What a session of keyfold's own is started with: the user's settings go on top, or are added."""
    given = {**settings.spark, **extra}
    logging = f"-Dlog4j2.configurationFile={log_settings(settings).as_uri()}"
    wanted: dict[str, str] = {
        **STREAMING,
        **STARTING,
        "spark.app.name": "keyfold",
        "spark.master": settings.master or "local[*]",
        "spark.driver.memory": settings.driver_memory,
        **given,
        "spark.jars": ",".join(dict.fromkeys((str(jar), *_jars(given)))),
        # Java takes the last of two that say the same: the user's.
        JAVA_OPTIONS: f"{logging} {_FULL_HEAP} {given.get(JAVA_OPTIONS, '')}".strip(),
    }
    return {key: value for key, value in wanted.items() if value}


def _jars(given: Mapping[str, str]) -> list[str]:
    return [jar.strip() for jar in given.get("spark.jars", "").split(",") if jar.strip()]


def _launch(wanted: Mapping[str, str], settings: Settings, place: Path | None) -> None:
    """Starts the JVM with its own output in a file: it would be printed into what the user looks at."""
    import psutil
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    said = settings.home.resolve() / "java.log"
    launched = Launched.now(wanted["spark.driver.memory"], said, said.with_name("spark.log"))
    before = {child.pid for child in psutil.Process().children()}
    # Added to, since another app of this home may be writing to it.
    with private.opened(said, "ab") as file, Scratch(place) as scratch:
        begun = file.tell()
        try:
            launch: Callable[..., Any] = launch_gateway
            with submitting(wanted, scratch):
                gateway = launch(None, {"stdout": file, "stderr": file, **_APART, **scratch.inherited})
        except (PySparkRuntimeError, Py4JError, ConnectionError) as error:
            file.flush()
            raise JavaEnded(
                f"Java ended before Spark was up: {how(_status(error))}",
                given=_telling_line(said.read_bytes()[begun:].decode("utf-8", "replace")),
                hint=f"all it said is in {said}; `keyfold doctor` looks for the usual reasons",
            ) from None
        except BaseException:
            # Interrupted on its way up, it would find nobody to talk to and wait for ever.
            for child in psutil.Process().children():
                if child.pid not in before:
                    child.kill()
            raise
        scratch.leave_to(gateway.jvm)
    remember(launched)
    SparkContext._ensure_initialized(gateway=gateway)


def _status(error: BaseException) -> int | None:
    """The exit status of a JVM that did not come up: PySpark leaves its process in no other place."""
    trace = error.__traceback__
    while trace is not None:
        process = trace.tb_frame.f_locals.get("proc")
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                return int(process.wait(END_SECONDS))
        trace = trace.tb_next
    return None


def _telling_line(text: str) -> str | None:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("WARNING: ")]
    telling = [line for line in lines if "rror" in line or "xception" in line]
    return next(iter(telling or lines), None)


def log_settings(settings: Settings) -> Path:
    """Spark's and Java's words go to a file in the home; errors that matter reach the user as exceptions."""
    home = settings.home.resolve()
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
    given = copy._jsparkSession.sessionState().conf()
    for key, value in {**STREAMING, **settings.spark}.items():
        if key != "spark.jars" and (key in settings.spark or not given.contains(key)):
            copy.conf.set(key, value)
    provider = f"{_STORE}.providerClass"
    if copy.conf.get(provider) != STREAMING[provider]:
        raise RunError(
            "this session keeps state in another store than RocksDB",
            given=f"{provider}={copy.conf.get(provider)}",
            hint=f"leave {provider} unset; timers and the kernel's state need RocksDB",
        )
    added = [] if kernel_loaded(copy) else [str(kernel_jar(settings.kernel_dir))]
    for jar in (*added, *_jars(settings.spark)):
        copy._jsparkSession.sessionState().resourceLoader().addJar(jar)
    return copy


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


def kernel_loaded(spark: SparkSession) -> bool:
    try:
        kernel(spark)
    except Exception:
        return False
    return True
