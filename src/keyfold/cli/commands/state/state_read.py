"""`keyfold state read | diff`: what is in a table's state, and what differs between two."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyfold.cli.options import Home, Json, TableName

if TYPE_CHECKING:
    from keyfold.engine.state.diff import KeyDifference
    from keyfold.engine.state.state_of import StateOf
    from keyfold.engine.storage.layout import AppHome

Batch = Annotated[
    int | None,
    typer.Option("--batch", metavar="N", help="An earlier batch that is retained.", show_default=False),
]
SavepointName = Annotated[
    str | None,
    typer.Option("--savepoint", metavar="NAME", help="A savepoint of the app.", show_default=False),
]
Part = Annotated[
    str | None,
    typer.Option(
        "--part",
        metavar="PART",
        help="Another part of the state than the table's own fold, such as timers, or 1.left.",
        show_default=False,
    ),
]
Key = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="VALUE",
        help="Only this key: a value for each of its columns, or for the first ones; repeated.",
        show_default=False,
    ),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most this many rows.")]


def read(
    name: TableName,
    batch: Batch = None,
    savepoint: SavepointName = None,
    key: Key = None,
    part: Part = None,
    limit: Limit = 20,
    home: Home = None,
    json: Json = False,
) -> None:
    """Print what a table's state holds, with columns by name.

    Works while the app runs, too.

    Windows, kept rows and partial matches are unpacked. What only Spark can interpret, such as the buffer of
    a sketch, is shown as its size.

    Example: keyfold state read shop.totals --key eu
    """
    from keyfold.cli import output
    from keyfold.cli.home.removal_dialog import find_table
    from keyfold.cli.home.spark_session import own_spark
    from keyfold.engine.state import parts as state_parts
    from keyfold.engine.state_reading import state_of

    with find_table(name, home) as (app_home, table), _read(app_home, savepoint):
        state = state_of(app_home, table, batch, savepoint)
        with own_spark(home) as spark:
            known = state.parts(spark)
            wanted = state_parts.find_part(state.table, known, part)
            read = state.rows(spark, wanted, key or ())
            # While Spark is up, which even the names of columns need.
            columns = read.frame.columns
            rows = [row.asDict(recursive=True) for row in read.frame.limit(limit + 1).collect()]
    more, rows = len(rows) > limit, rows[:limit]
    if json:
        head = {"app": app_home.path.name, "table": table, "batch": state.batch, "savepoint": savepoint}
        names = {"part": wanted.name, "parts": [one.name for one in known], "key": list(read.keys)}
        output.json_document({**head, **names, "rows": rows, "more": more})
        return
    output.table(columns, (list(row.values()) for row in rows))
    if more:
        output.say(f"there are more than {limit} rows: --limit")
    others = ", ".join(one.name for one in known if one != wanted)
    if others:
        output.say(f"batch {state.batch}; other parts: {others} (--part)")


def _read(home: AppHome, savepoint: str | None) -> AbstractContextManager[object]:
    """Notices that a savepoint is deleted while it is read."""
    from keyfold.engine.savepoint.savepoints import Savepoints

    return nullcontext() if savepoint is None else Savepoints(home).reading(savepoint)


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A batch's number, a savepoint, an app, or: now.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same.")],
    name: TableName,
    part: Part = None,
    limit: Limit = 20,
    home: Home = None,
    json: Json = False,
) -> None:
    """Compare two states of a table, key by key.

    Shows which keys were added, removed or changed from A to B, and exits with 1 if there are any. An app
    stands for its own table of the same name.

    Example: keyfold state diff before-upgrade now shop.totals
    """
    from keyfold.cli import output
    from keyfold.cli.home.removal_dialog import find_table
    from keyfold.cli.home.spark_session import own_spark
    from keyfold.engine.state import diff as state_diff

    with ExitStack() as opened:
        app_home, table = opened.enter_context(find_table(name, home))
        one, other = (_side(opened, app_home, table, word, home) for word in (a, b))
        spark = opened.enter_context(own_spark(home))
        changes = list(state_diff.differences(spark, one, other, part, limit + 1))
    more, changes = len(changes) > limit, changes[:limit]
    if json:
        output.json_document({"table": table, "changes": [_change(one) for one in changes], "more": more})
    else:
        rows = ((one.change, *one.key.values(), one.before, one.after) for one in changes)
        keys = list(changes[0].key) if changes else []
        output.table(("change", *keys, "before", "after"), rows)
        if more:
            output.say(f"more than {limit} keys differ: --limit")
    if changes:
        raise typer.Exit(1)


def _change(one: KeyDifference) -> dict[str, Any]:
    return {"key": one.key, "change": one.change, "before": one.before, "after": one.after}


def _side(opened: ExitStack, app_home: AppHome, table: str, word: str, home: str | None) -> StateOf:
    from keyfold.cli.home.removal_dialog import find_table
    from keyfold.engine.savepoint.savepoints import Savepoints
    from keyfold.engine.state_reading import state_of

    if word == "now":
        return state_of(app_home, table)
    if word.isdecimal():
        return state_of(app_home, table, batch=int(word))
    if word in Savepoints(app_home).names():
        opened.enter_context(_read(app_home, word))
        return state_of(app_home, table, savepoint=word)
    other, same = opened.enter_context(find_table(f"{word}.{table}", home))
    return state_of(other, same)
