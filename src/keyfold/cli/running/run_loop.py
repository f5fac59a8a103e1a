"""Runs an app from the command line: start, wait, show its progress, stop."""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Literal

from keyfold.cli import output
from keyfold.cli.main import Interrupted
from keyfold.cli.running.draining import Draining
from keyfold.cli.running.signals import Stopping
from keyfold.cli.running.standby import Standby
from keyfold.cli.terminal import log_lines
from keyfold.errors import KeyfoldError
from keyfold.read.metrics import RunStatus

if TYPE_CHECKING:
    from pathlib import Path

    from keyfold.cli.running.serving import Address
    from keyfold.engine.handle import Handle
    from keyfold.engine.startup_phases import Step
    from keyfold.plan.nodes import AppSpec

Watch = Mapping[str, Mapping[str, Any]]
Ended = Literal["drained", "time", "signal", "idle", "over"]


def run_app(
    spec: AppSpec,
    file: str,
    *,
    home: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    drain: bool = False,
    seconds: float | None = None,
    meanwhile: Callable[[Handle, Stopping], None] | None = None,
    before_end: Callable[[Handle], None] | None = None,
    watch: Watch | None = None,
    loading: Callable[[], None] = lambda: None,
    standby: bool = False,
    serve: Address | None = None,
) -> tuple[Ended, RunStatus, int | None]:
    """Runs an app to its end: how it ended, its last status, and the signal if it was one.

    `meanwhile` is called once it is up, `before_end` when it is about to be stopped; of the tables in
    `watch` the live screen shows rows too. `loading` is called while Java comes up.
    `standby`: if another process runs the app, wait until it has ended. `serve`: where to serve the home.
    """
    from keyfold.cli.running.serving import served_beside
    from keyfold.engine.jvm import class_archive, process

    with (
        Stopping() as stopping,
        output.warnings_said(),
        served_beside(serve, home, settings or {}) as said,
        process.ending_java(),
    ):
        handle = start_app(spec, file, home, settings or {}, stopping, loading, brief=drain, standby=standby)
        try:
            if said:
                output.say(said)
            if meanwhile:
                meanwhile(handle, stopping)
            ended = wait_until_end(handle, stopping, drain=drain, seconds=seconds, watch=watch)
            if before_end:
                before_end(handle)
            handle.stop()
            # A query may have failed while the others were being stopped.
            handle.wait(0)
            status = RunStatus.read(handle.status())
        finally:
            handle.stop()
    class_archive.write_missing()
    return ended, status, stopping.number


def live_terminal() -> bool:
    """Whether stderr is a terminal that can be drawn on; asked of it, since FORCE_COLOR says so of a file."""
    return sys.stderr.isatty() and not output.terminal().is_dumb_terminal


def start_app(
    spec: AppSpec,
    file: str,
    home: str | Path | None,
    settings: Mapping[str, Any],
    stopping: Stopping,
    loading: Callable[[], None] = lambda: None,
    *,
    brief: bool = False,
    standby: bool = False,
) -> Handle:
    """The app, started, with what the start does shown; `loading` is called while Java comes up.

    `brief`: the run is short if there is little input, so that Java need not optimize its code.
    """
    from keyfold.cli.terminal.startup_bar import Starting
    from keyfold.engine import session
    from keyfold.engine.jvm import short_run

    output.say(f"starting {spec.name} from {file}")
    try:
        short = brief and short_run.drains_little(spec)
        with (
            Starting(output.terminal(), live_terminal()) as shown,
            session.ahead(home, settings, shown, short=short),
        ):

            def tell(step: Step) -> None:
                stopping.check()
                shown(step)

            # Only now, since it takes as long to load as Java takes to come up.
            from keyfold.engine.start import start
            from keyfold.engine.startup.options import StartOptions

            loading()
            waits = Standby(spec.name).wait if standby else None
            options = StartOptions(tell=tell, alone=True, standby=waits)
            handle = start(spec, home=home, settings=settings, options=options)
            # At once: from here on a signal must not leave the queries without anybody who stops them.
            stopping.up()
    except KeyboardInterrupt:
        number = stopping.number or signal.SIGINT
        raise Interrupted("stopped during the start; no row was processed", number) from None
    tables = ", ".join(table.name for table in handle.spec.tables)
    output.say(f"{handle.spec.name} is running in {handle.home.shown}: {tables}")
    return handle


def wait_until_end(
    handle: Handle,
    stopping: Stopping,
    *,
    drain: bool = False,
    seconds: float | None = None,
    watch: Watch | None = None,
    over: Callable[[], bool] = lambda: False,
    look: float = math.inf,
) -> Ended:
    """Shows the app until it ends, or is to end, and says why; `over` is asked at least every `look`
    seconds."""
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    draining = Draining(handle) if drain else None
    every, shown = (0.2 if drain else 0.5), 0.0
    with _drawn(stopping), _open_screen(handle, drain, seconds, watch or {}) as show:
        while True:
            if draining is not None and draining.done():
                return "drained"
            if over():
                return "over"
            left = deadline - time.monotonic()
            if left <= 0:
                return "time"
            handle.wait(min(left, every, look), stopping.asked)
            if stopping.asked.is_set():
                return "signal"
            if draining is None and not any(query.isActive for query in handle.queries.values()):
                return "idle"
            if time.monotonic() < shown + every:
                continue
            # A failure to draw must not end the run.
            with suppress(KeyfoldError, OSError):
                show()
            shown = time.monotonic()


@contextmanager
def _drawn(stopping: Stopping) -> Iterator[None]:
    """While a screen is drawn a signal prints nothing; it is reported below the screen afterwards."""
    stopping.drawn = live_terminal()
    try:
        yield
    finally:
        if stopping.drawn and stopping.asked.is_set():
            stopping.say()
        stopping.drawn = False


def _open_screen(handle: Handle, drain: bool, seconds: float | None, watch: Watch) -> Any:
    """A live screen in a terminal, else log lines."""
    if not live_terminal():
        return nullcontext(log_lines.Lines(handle).tell)
    from keyfold.cli.terminal.live_screen import Screen

    until = (
        "until all input is read" if drain else "Ctrl-C stops" if seconds is None else f"for {seconds:g} s"
    )
    return Screen(handle, output.terminal(), until, watch)
