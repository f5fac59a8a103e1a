"""Shared by the commands of `keyfold savepoint`: finds the app, shows progress, reports results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from keyfold.cli import formatting, output

if TYPE_CHECKING:
    from keyfold.engine.savepoint.manifest import Savepoint
    from keyfold.engine.savepoint.verify import Damage
    from keyfold.engine.storage.layout import AppHome


def tables_of(home: AppHome, names: Sequence[str] | None) -> list[str]:
    """Tables that were named as `table` or `app.table`."""
    return [name.removeprefix(f"{home.path.name}.") for name in names or ()]


def running(home: AppHome) -> bool:
    """Whether a process holds the app."""
    from keyfold.engine.storage.lease import current

    return current(home) is not None


def refuse_running(home: AppHome, or_else: str = "") -> None:
    """Refuses to go on while a process runs the app; `or_else`: what can be done meanwhile."""
    from keyfold.engine.storage.lease import current
    from keyfold.engine.storage.lease_takeover import must_be_stopped

    lease = current(home)
    if lease is not None:
        raise must_be_stopped(home, lease, here=True, or_else=or_else)


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal."""
    from rich.progress import Progress

    screen = output.terminal()
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def tell(what: str, done: int, of: int) -> None:
            bar.update(task, description=f"files {what}", completed=done, total=of)

        yield tell


@contextmanager
def spark(home: str | None, *, needed: bool) -> Iterator[Any]:
    """A Spark session if it is needed, else None."""
    from keyfold.cli.home.spark_session import own_spark

    if not needed:
        yield None
        return
    with own_spark(home) as session:
        yield session


def read_back(
    app_home: AppHome, found: Savepoint, home: str | None
) -> tuple[dict[str, tuple[int, str]], list[Damage]]:
    """How many rows the state of each table has, with what that was compared with; and what differs."""
    from keyfold.engine.savepoint import state_check

    with spark(home, needed=True) as session:
        now = state_check.states(session, app_home, found.name, found.tables)
    recorded = {name: table.state is not None for name, table in found.tables.items()}
    rows = {
        name: (state_check.rows(state), "as recorded" if recorded[name] else "nothing was recorded")
        for name, state in now.items()
    }
    return rows, state_check.differences(found, now)


def table_rows(found: Savepoint) -> Iterator[tuple[Any, ...]]:
    """The tables of a savepoint, for people."""
    for name, table in found.tables.items():
        files = found.of_table(name)
        size = formatting.size(sum(file.bytes for file in files))
        yield (name, table.batch, table.watermark or "", table.partitions, len(files), size)


def summary(found: Savepoint) -> str:
    """What a savepoint has, in a few words."""
    count = len(found.tables)
    tables = "1 table" if count == 1 else f"{count} tables"
    return f"{tables}, {len(found.files):,} files, {formatting.size(found.size)}"


def report_deleted(names: Sequence[str], json: bool) -> None:
    """Reports which savepoints are gone."""
    if json:
        output.json_document({"deleted": list(names)})
    else:
        print(f"deleted: {', '.join(names)}" if names else "nothing to delete")


def say(found: Savepoint, json: bool, text: str) -> None:
    """Reports a savepoint, for a program or for people."""
    output.json_document(found.document()) if json else print(text)
