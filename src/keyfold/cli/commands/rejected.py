"""`keyfold rejected NAME`: prints rejected rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from keyfold.cli import tail
from keyfold.cli.options import Home, Json
from keyfold.cli.tail import Newest


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A stream or a table: app.name, or name if the home has a single app."
        ),
    ],
    limit: Newest = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Print rejected rows with the reason and the raw text.

    Rows of files have the file and, where it is known, the line; Kafka messages have partition and offset.

    Example: keyfold rejected shop.orders --limit 10
    """
    from keyfold.cli import output
    from keyfold.cli.home_reader import rejected_rows

    found, streams = rejected_rows(name, home)
    rows = sorted(found, key=lambda row: int(row["batch"]))
    columns = (
        "batch",
        "reason",
        *(["place"] if any("file" in row or "topic" in row for row in rows) else []),
        "raw",
    )
    tail.show(rows, limit, json, columns, lambda row: [_cell(row, name) for name in columns], ("batch",))
    for stream in streams:
        output.say(f"stream {stream} also has rejected rows: keyfold rejected {stream}")


def _cell(row: dict[str, Any], name: str) -> Any:
    if name == "reason" and "cause" in row:
        return f"{row['reason']}: {row['cause']}"
    if name != "place":
        return row[name]
    if "topic" in row:
        return f"{row['topic']}, partition {row['partition']}, offset {row['offset']}"
    if "file" not in row:
        return None
    where = [f"{what} {row[what]}" for what in ("line", "byte") if what in row]
    here = str(Path.cwd()) + os.sep
    return ", ".join([row["file"].removeprefix(here), *where])
