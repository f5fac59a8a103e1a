"""Takes an app's home, and Spark, for a start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine import session
from keyfold.engine.jvm import process
from keyfold.engine.kafka import client
from keyfold.engine.kafka import connector as kafka_connector
from keyfold.engine.kafka.listening import wait_for_brokers
from keyfold.engine.operations import unfinished
from keyfold.engine.recovery import remote_home, view_moving
from keyfold.engine.startup.options import StartOptions
from keyfold.engine.status.monitor import record_failure
from keyfold.engine.storage.layout import AppHome, local_app_home, remote_app_home
from keyfold.engine.storage.lease import Lease
from keyfold.engine.storage.processes import jvm_pid
from keyfold.engine.storage.remote import SparkStorage
from keyfold.errors import HomeLocked, RunError
from keyfold.plan.nodes import AppSpec
from keyfold.plan.validate import arguments, latency
from keyfold.settings import Settings, load
from keyfold.views.stores import address_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class HeldHome:
    """The home of an app, which only this process may write, and the session of Spark for its queries."""

    spec: AppSpec
    spark: SparkSession
    home: AppHome
    lease: Lease
    settings: Settings
    options: StartOptions
    usual: bool
    """Whether Spark has the settings that a command's own session would have, and reads the sources."""


@contextmanager
def hold_home(
    spec: AppSpec,
    spark: Any,
    home: str | Path | None,
    settings: Mapping[str, Any] | None,
    options: StartOptions,
) -> Iterator[HeldHome]:
    """Takes the home and finishes what a crash has left in it. Released if what is done within fails."""
    arguments.require_tables(spec)
    latency.check_app(spec)
    if isinstance(spark, Mapping):
        settings, spark = {**(settings or {}), "spark": dict(spark)}, None
    wanted = load(home=home, **dict(settings or {}))
    if spark is None:
        process.forget()
    own = _Session(spec, spark, wanted, options)
    usual = own.is_usual() and isinstance(wanted.home, Path)
    app_home = _home_of(spec, wanted, own)
    if options.standby is not None:
        own.start()
    with remote_home.explain_errors(str(wanted.home)):
        lease = _take(app_home, wanted, options)
    try:
        app_home.use_local(wanted.local)
        unfinished.finish(app_home)
        if wanted.views != "none":
            view_moving.use_views(app_home, address_of(wanted.views))
        with client.using(wanted.kafka):
            # Before Spark, which takes longer to start than it takes to see that nothing listens.
            wait_for_brokers(spec, options.feeds)
            own.start()
            with process.reporting_java_end(spec.name):
                held = HeldHome(spec, own.spark, app_home, lease, wanted, options, usual)
                _prepare_jvm(held)
                yield held
    except BaseException as error:
        if isinstance(error, RunError):
            record_failure(app_home, error)
        lease.release()
        raise


class _Session:
    """The user's session, or one of keyfold's own, which is started when it is first needed."""

    def __init__(self, spec: AppSpec, users: SparkSession | None, wanted: Settings, options: StartOptions):
        self._app, self._users, self._wanted, self._options = spec.name, users, wanted, options

    def is_usual(self) -> bool:
        """Whether it will be as a command's is; asked before it is started."""
        # In a session of the user's, expressions can mean something else.
        options, others = self._options, self._users is not None or session.is_running()
        return options.alone and not (others or options.feeds or options.recorded)

    def start(self) -> None:
        """Starts it, unless it is up."""
        _ = self.spark

    @cached_property
    def spark(self) -> SparkSession:
        with process.reporting_java_end(self._app):
            if self._users is not None:
                return session.users_session(self._users, self._wanted)
            return session.own_session(self._wanted, tell=self._options.tell, alone=self._options.alone)


def _home_of(spec: AppSpec, wanted: Settings, own: _Session) -> AppHome:
    if isinstance(wanted.home, Path):
        return local_app_home(wanted.home, spec.name)
    # Only Spark can write such a home: it is started before the lease can be taken.
    own.start()
    with remote_home.explain_errors(wanted.home):
        storage = SparkStorage(session.kernel(own.spark), own.spark, f"{wanted.home}/{spec.name}")
        return remote_app_home(storage, wanted.local_directory, spec.name)


def _take(home: AppHome, wanted: Settings, options: StartOptions) -> Lease:
    while True:
        try:
            return Lease(home, seconds=wanted.lease_seconds).take()
        except HomeLocked as error:
            if options.standby is None:
                raise
            options.standby(error)


def _prepare_jvm(held: HeldHome) -> None:
    """Has the lease name the JVM, and loads Spark's connector of Kafka, if a stream needs it."""
    spec, spark = held.spec, held.spark
    held.lease.holds_jvm(jvm_pid(spark.sparkContext._gateway))
    if kafka_connector.read(spec, held.options.feeds):
        kafka_connector.check_login(spark, spec, held.settings)
        kafka_connector.load(spark, held.settings)
