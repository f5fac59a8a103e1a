"""`keyfold run APP.py`: starts an app and stays with it."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from keyfold.cli.ending import Interrupted
from keyfold.cli.options import AppFile, Home, Json

if TYPE_CHECKING:
    from keyfold.cli.load import Loaded
    from keyfold.cli.signals import Stopping
    from keyfold.engine.handle import Handle

_PROGRESS_SECONDS: Final = 10.0
Ended = Literal["drained", "time", "signal", "idle"]


def command(
    app: AppFile,
    drain: Annotated[bool, typer.Option("--drain", help="Process all input there is, then stop.")] = False,
    for_: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="Stop after this time, such as 30s.", show_default=False),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Run an app until it is stopped with Ctrl-C or SIGTERM; the batch under way is finished first.

    Example: keyfold run shop.py --drain
    """
    from keyfold.cli import output
    from keyfold.cli.load import load
    from keyfold.cli.signals import Stopping
    from keyfold.plan import durations

    seconds = None if for_ is None else durations.millis(for_, "--for") / 1000
    with output.only_results(), Stopping() as stopping:
        handle = _started(load(app), home, stopping)
        ended, status = _lived(handle, stopping, drain, seconds)
    if drain and ended == "signal":
        assert stopping.number is not None
        raise Interrupted("stopped before all input was processed; the next start goes on", stopping.number)
    output.json_document({**status, "ended": ended}) if json else _show(status)
    if drain and ended == "time":
        output.say(f"the {for_} were over before all input was processed; the next start goes on")
        raise typer.Exit(1)


def _started(loaded: Loaded, home: str | None, stopping: Stopping) -> Handle:
    from keyfold.cli import output
    from keyfold.cli.load import for_workers

    output.say(f"starting {loaded.app.name} of {loaded.path.name}")
    try:
        for_workers(loaded)
        handle: Handle = loaded.app.start(home=home)
    except KeyboardInterrupt:
        number = stopping.number or signal.SIGINT
        raise Interrupted("stopped before the app was up; nothing was processed", number) from None
    stopping.up()
    tables = ", ".join(table.name for table in handle.spec.tables)
    output.say(f"{handle.spec.name} runs in {handle.home.path}: {tables}")
    return handle


def _lived(
    handle: Handle, stopping: Stopping, drain: bool, seconds: float | None
) -> tuple[Ended, dict[str, Any]]:
    """Waits for the end and stops the app; a query that failed raises."""
    try:
        ended = _waited(handle, stopping, drain, seconds)
        handle.stop()
        # A query may have failed while the others were being stopped.
        handle.wait(0)
        return ended, _final(handle)
    finally:
        handle.stop()
        handle.spark.stop()


def _waited(handle: Handle, stopping: Stopping, drain: bool, seconds: float | None) -> Ended:
    progress = Progress(handle)
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    draining = Draining(handle) if drain else None
    while True:
        if draining is not None and draining.done():
            return "drained"
        left = deadline - time.monotonic()
        if left <= 0:
            return "time"
        handle.wait(min(left, 0.2 if drain else 1.0), stopping.asked)
        if stopping.asked.is_set():
            return "signal"
        if draining is None and not any(query.isActive for query in handle.queries.values()):
            return "idle"
        progress.tell()


class Draining:
    """A drain in a thread of its own, since a call into Java can't be interrupted by a signal."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._drain, name="keyfold-drain", daemon=True)
        self._thread.start()

    def done(self) -> bool:
        """Whether all input is processed; raises what the drain raised."""
        self._thread.join(0.05)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def _drain(self) -> None:
        try:
            self._handle.drain()
        except BaseException as error:
            self._error = error


class Progress:
    """A line for each table that moved, every few seconds."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._next = time.monotonic() + _PROGRESS_SECONDS
        self._told: dict[str, int | None] = {}

    def tell(self) -> None:
        from keyfold.cli import output

        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PROGRESS_SECONDS
        for name, table in self._handle.status()["tables"].items():
            if table["batch"] != self._told.get(name):
                self._told[name] = table["batch"]
                speed = f", {table['rows_per_second']:,.0f} rows/s" if table["rows_per_second"] else ""
                output.say(f"{name}: batch {table['batch']}{speed}, {table['rejected']:,} rejected")


def _final(handle: Handle) -> dict[str, Any]:
    status = handle.status()
    keys = _keys(handle)
    tables = {name: {**table, "keys": keys.get(name)} for name, table in status["tables"].items()}
    return {**status, "tables": tables}


def _keys(handle: Handle) -> dict[str, int]:
    """How many keys each view has; nothing where views are turned off."""
    from keyfold.views.none import NoViews
    from keyfold.views.reader import open_store

    if isinstance(handle.store, NoViews):
        return {}
    store = open_store(handle.home.views, read_only=True)
    try:
        names = {table.name: store.schema(table.name).keys[0].name for table in handle.spec.tables}
        return {table: sum(1 for _ in store.scan(table, columns=[key])) for table, key in names.items()}
    finally:
        store.close()


def _show(status: dict[str, Any]) -> None:
    from keyfold.cli import output

    columns = ("batch", "keys", "rejected")
    rows = ([f"{status['app']}.{name}", *map(table.get, columns)] for name, table in status["tables"].items())
    output.table(("table", *columns), rows, right=columns)
