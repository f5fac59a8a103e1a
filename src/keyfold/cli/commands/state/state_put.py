"""`keyfold state put | delete`: surgery on the state of one key."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyfold.cli.home.removal_dialog import Why
from keyfold.cli.options import AppFile, Home, Json, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keyfold.engine.compile.compiled import Compiled
    from keyfold.engine.storage.layout import AppHome
    from keyfold.plan.nodes import AppSpec

KeyValues = Annotated[
    list[str],
    typer.Argument(metavar="KEY...", help="A value for each column of the key.", show_default=False),
]


def delete(name: TableName, key: KeyValues, why: Why = None, home: Home = None, json: Json = False) -> None:
    """Remove a key from a table.

    It is removed from the state, from the view, and from the tables that read this one.

    The app must be stopped. A savepoint of it is made first. The new state is written beside the old one and
    read back before it takes its place. Later rows of the key start over; the log keeps its
    earlier changes: `keyfold forget` erases those too.

    Example: keyfold state delete shop.totals eu --why "a test customer"
    """
    from keyfold.cli import output
    from keyfold.cli.home.removal_dialog import find_table
    from keyfold.cli.home.spark_session import own_spark
    from keyfold.engine.savepoint.capture import silent
    from keyfold.engine.surgery import surgery as key_surgery

    with (
        find_table(name, home) as (app_home, table),
        own_spark(home, stopped=app_home) as spark,
        key_surgery.begin(spark, app_home, table, key, why, output.say, silent) as surgery,
    ):
        entry = key_surgery.delete(surgery)
    _report(app_home, table, entry, json)


def put(
    app: AppFile,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table of the app.")],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY... COLUMN=VALUE...",
            help="A value for each column of the key, then columns of the state with their new values.",
            show_default=False,
        ),
    ],
    why: Why = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Set columns of a key's state.

    The columns are those that `keyfold state read` shows.

    The app must be stopped. A savepoint of it is made first. The row that follows from the new state is
    published, so that the view and tables that read this one have it too. For tables of running aggregates.

    Example: keyfold state put shop.py totals eu n_count=5 --why "counted twice on Monday"
    """
    from keyfold.cli import output
    from keyfold.cli.app.loader import for_workers, load
    from keyfold.cli.home.app_home import open_app
    from keyfold.cli.home.spark_session import own_spark
    from keyfold.engine.savepoint.capture import choose_tables, silent
    from keyfold.engine.surgery import surgery as key_surgery

    with output.only_results():
        loaded = load(app)
        for_workers(loaded)
        spec = loaded.app.spec()
        choose_tables(spec.name, [one.name for one in spec.tables], [table])
        with open_app(spec.name, home) as app_home, own_spark(home, stopped=app_home) as spark:
            compiled = _compile_table(spark, spec, table, app_home)
            key, columns = _split(words, len(next(t for t in spec.tables if t.name == table).keys))
            with key_surgery.begin(spark, app_home, table, key, why, output.say, silent) as surgery:
                entry = key_surgery.put(surgery, compiled, columns)
    _report(app_home, table, entry, json)


def _compile_table(spark: SparkSession, spec: AppSpec, table: str, home: AppHome) -> Compiled:
    """The table as the file declares it, which must be how its state was written."""
    from keyfold.cli.app.check import empty_feeds
    from keyfold.engine.compile.table import compile_app
    from keyfold.engine.recovery import definition_check

    with TemporaryDirectory(prefix="keyfold-put-") as directory:
        compiled = compile_app(spark, spec, empty_feeds(spec, Path(directory)), home)
    (found,) = (one for one in compiled if one.spec.name == table)
    definition_check.check(spec, home.read_plan(), found, home)
    return found


def _split(words: list[str], keys: int) -> tuple[list[str], dict[str, str]]:
    from keyfold.errors import BadOption

    key, rest = words[:keys], words[keys:]
    for word in rest:
        if "=" not in word:
            raise BadOption("no column=value", given=word, hint="n_count=5")
    if not rest:
        raise BadOption("no column is given", given=", ".join(words), hint="KEY... COLUMN=VALUE...")
    return key, {name: value for name, _, value in (word.partition("=") for word in rest)}


def _report(home: AppHome, table: str, entry: dict[str, Any], json: bool) -> None:
    from keyfold.cli import output

    if json:
        output.json_document({"app": home.path.name, **entry})
        return
    key = ", ".join(f"{name}={value}" for name, value in entry["key"].items())
    changes = f"{entry['changes']} change{'s' * (entry['changes'] != 1)}"
    print(f"{entry['what']}: {home.path.name}.{table}, {key}; {changes} published; undo: {entry['undo']}")
