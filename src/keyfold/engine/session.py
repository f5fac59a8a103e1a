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

from keyfold.engine import cluster, limits
from keyfold.engine.jvm.launch import Launch
from keyfold.engine.jvm.short_run import FIRST_TIER
from keyfold.engine.session_settings import (
    STORE,
    STREAMING,
    jars_of,
    memory_and_batches,
    wanted_of,
)
from keyfold.engine.startup_phases import Tell, brief
from keyfold.errors import ConnectRefused, KeyfoldError, RunError
from keyfold.kernel import api
from keyfold.kernel.build import java, kernel_jar
from keyfold.settings import Settings, load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A JVM that was started before it is needed; see `ahead`.
_ahead: list[Launch] = []


def own_session(
    settings: Settings,
    extra: Mapping[str, str] | None = None,
    tell: Tell = brief,
    *,
    alone: bool = False,
    short: bool = False,
) -> SparkSession:
    """A new session with the measured settings and the user's on top.

    `alone`: the process ends with the run, so that temporary files can be in its home. `short`: it has
    little to do (see `short_run`).
    """
    # One process has one SparkContext: use it rather than change it under its user.
    running = _running_session()
    if running is not None:
        _discard_ahead()
        return users_session(running, settings)
    with _python_of_workers(settings.spark.get("spark.pyspark.python")):
        wanted = _jvm_up(settings, extra or {}, tell, alone, short)
        from pyspark.sql import SparkSession

        with _own_interrupts() if alone else nullcontext():
            spark = SparkSession.builder.config(map={**wanted}).getOrCreate()
    if "spark.sql.shuffle.partitions" not in wanted:
        spark.conf.set("spark.sql.shuffle.partitions", str(cluster.partitions(spark)))
    check_session(spark)
    kernel(spark).forgetSettingOrigins(spark._jsparkSession)
    return spark


@contextmanager
def _python_of_workers(named: str | None) -> Iterator[None]:
    """Names the Python of workers to PySpark, which reads only the variable, and when its context begins.

    It is this one, with what is installed beside it, unless executors have another.
    """
    before = os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = named or before or sys.executable
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYSPARK_PYTHON"]
        else:
            os.environ["PYSPARK_PYTHON"] = before


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
def ahead(
    home: str | Path | None, settings: Mapping[str, Any], tell: Tell = brief, *, short: bool = False
) -> Iterator[None]:
    """Starts the JVM that `own_session(alone=True)` is about to ask for, while Python loads the engine.

    Errors are ignored here, since they occur there again and are reported there.
    """
    try:
        if not _ahead and not _jvm_there():
            with suppress(KeyfoldError, OSError):
                wanted = load(home=home, **settings)
                _ahead.append(_launch(wanted, {}, tell, wanted.local_directory, short))
        yield
    finally:
        _discard_ahead()


def _discard_ahead() -> None:
    """Ends a JVM that was started ahead and not used."""
    while _ahead:
        _ahead.pop().discard()


def _jvm_up(
    settings: Settings, extra: Mapping[str, str], tell: Tell, alone: bool, short: bool
) -> dict[str, str]:
    """Starts a JVM for PySpark unless it has one; returns the settings of its session."""
    home = settings.local_directory if alone else None
    if _jvm_there():
        jar = kernel_jar(settings.kernel_dir, lambda: tell("kernel"))
        _load(jar)
        return wanted_of(settings, jar, extra, _submitted_settings())
    launch = _ahead.pop() if _ahead else _launch(settings, extra, tell, home, short)
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


def _submitted_settings() -> dict[str, str] | None:
    """The settings that spark-submit was given; None if PySpark started the JVM itself."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    from pyspark import SparkConf

    return dict(SparkConf(loadDefaults=True).getAll())


def _launch(
    settings: Settings, extra: Mapping[str, str], tell: Tell, home: Path | None, short: bool
) -> Launch:
    found = java()
    jar = kernel_jar(settings.kernel_dir, lambda: tell("kernel"))
    tell("spark")
    options = (FIRST_TIER,) if short else ()
    return Launch(found, jar, wanted_of(settings, jar, extra), settings, home, options)


def _jvm_there() -> bool:
    """Whether PySpark has a JVM already, its own or one that started this process."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return "PYSPARK_GATEWAY_PORT" in os.environ or getattr(context, "_gateway", None) is not None


def is_running() -> bool:
    """Whether this process has a session or a JVM already, perhaps the user's."""
    return _jvm_there() or _running_session() is not None


def _running_session() -> SparkSession | None:
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession._instantiatedSession


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
    provider = f"{STORE}.providerClass"
    if copy.conf.get(provider) != STREAMING[provider]:
        raise RunError(
            "this session's state store is not RocksDB",
            given=f"{provider}={copy.conf.get(provider)}",
            hint=f"leave {provider} unset; timers and the kernel's state need RocksDB",
        )
    added = [] if kernel_loaded(copy) else [str(kernel_jar(settings.kernel_dir))]
    for jar in (*added, *jars_of(settings.spark)):
        copy._jsparkSession.sessionState().resourceLoader().addJar(jar)
    return check_session(copy)


def refuse_connect(spark: Any) -> None:
    if type(spark).__module__.startswith("pyspark.sql.connect") or not hasattr(spark, "_jsparkSession"):
        raise ConnectRefused(
            "this is a Spark Connect session, and keyfold needs a classic one",
            given=f"{type(spark).__module__}.{type(spark).__name__}",
            hint="the kernel runs inside the driver's JVM, which Connect hides; start with "
            "SparkSession.builder.master(...) instead of .remote(...), or leave spark= out",
        )


def kernel(spark: Any) -> api.Kernel:
    """The kernel's entry point in the session's JVM."""
    # Jars that were added later are visible to the session's own class loader only.
    loader = spark._jsparkSession.artifactManager().classloader()
    entry: api.Kernel = loader.loadClass(api.ENTRY).getField("MODULE$").get(None)
    return entry


def check_session(spark: SparkSession) -> SparkSession:
    """The session, unless its Spark plans the kernel's operators in a way the kernel does not support."""
    difference = kernel(spark).selfCheck(spark._jsparkSession)
    if difference is not None:
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
