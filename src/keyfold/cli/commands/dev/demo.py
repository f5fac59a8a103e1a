"""`keyfold demo`: runs a shop with generated visitors, and verifies its totals at the end."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from keyfold.cli.options import For, Json, seconds_of

if TYPE_CHECKING:
    from keyfold.engine.handle import Handle

# The rows that the live screen and the final report show of each table.
SHOWN: Final[dict[str, dict[str, Any]]] = {
    "regions": {"order_by": "revenue desc", "limit": 4},
    "customers": {"order_by": "spent desc", "limit": 3},
    "products": {"order_by": "sold desc", "limit": 3},
}


def command(
    for_: For = None,
    home: Annotated[
        str | None,
        typer.Option(
            "--home",
            metavar="DIR",
            help="Where to keep data and state. Default: a temporary directory.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run a shop with generated visitors, live.

    The console, whose address is printed, shows it in a browser. After Ctrl-C the totals are compared with a
    recount of the generated files.

    Without --home all files are in a temporary directory, which is deleted at the end.

    Example: keyfold demo --for 20s
    """
    from keyfold.cli import output
    from keyfold.cli.running import run_loop
    from keyfold.cli.running.serving import Address
    from keyfold.demo.generate import Generator
    from keyfold.demo.shop import app

    seconds = seconds_of(for_)
    report: dict[str, Any] = {}
    with (
        output.only_results(),
        _directory(home) as directory,
        Generator(directory / "demo-data") as generator,
    ):
        data = directory / "demo-data"

        def begin(handle: Handle, _: object) -> None:
            generator.start()
            quoted = shlex.quote(str(directory))
            output.say(f"read it from another terminal: keyfold rows shop.regions --home {quoted}")

        def end(handle: Handle) -> None:
            generator.stop()
            output.say("processing the remaining input, and recounting the files")
            handle.drain()
            report.update(_report(handle, data))

        run_loop.run_app(
            app(data).spec(),
            "the demo",
            home=directory,
            seconds=seconds,
            meanwhile=begin,
            before_end=end,
            serve=Address(),
            watch=SHOWN,
        )
    output.json_document(report) if json else _show(report)
    if not report["equal"]:
        raise typer.Exit(1)


@contextmanager
def _directory(home: str | None) -> Iterator[Path]:
    from keyfold.engine.storage.layout import local_app_home

    if home is not None:
        given = Path(home).expanduser().resolve()
        # Checks the home, as `run` does, before anything is written to it.
        local_app_home(given, "shop")
        yield given
        return
    with TemporaryDirectory(prefix="keyfold-demo-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def _report(handle: Handle, data: Path) -> dict[str, Any]:
    from keyfold.demo.recount import differences
    from keyfold.read.side_outputs import kind_of

    wrong = differences(data, lambda table: handle.table(table).rows())
    rejected = [row for stream in ("orders", "clicks") for row in handle.rejected(stream)]
    return {
        "tables": {name: handle.table(name).rows(**options) for name, options in SHOWN.items()},
        "keys": {name: table["keys"] for name, table in handle.status(count=True)["tables"].items()},
        "rejected": dict(Counter(kind_of(row["reason"]) for row in rejected).most_common()),
        "equal": not wrong,
        "differences": wrong[:20],
    }


def _show(report: dict[str, Any]) -> None:
    from keyfold.cli import formatting, output

    for name, rows in report["tables"].items():
        print(
            f"\n{name}: {report['keys'][name]:,} keys"
            + (", the first ones:" if len(rows) < report["keys"][name] else "")
        )
        columns = [column for column in rows[0] if not column.startswith("_")] if rows else []
        output.table(
            columns,
            ([formatting.short(row[column]) for column in columns] for row in rows),
            right=columns[1:],
        )
    print(f"\nvisits: {report['keys']['visits']:,} keys")
    print(f"\n{sum(report['rejected'].values()):,} rows were rejected:")
    output.table(
        ("rows", "reason"), ((count, reason) for reason, count in report["rejected"].items()), right=("rows",)
    )
    print()
    if report["equal"]:
        print("a recount of the generated files gives the same totals for every key")
    else:
        output.error("\n".join(["a recount of the generated files DIFFERS", *report["differences"]]))
