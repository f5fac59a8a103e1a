"""`/api/changes`: the change feed."""

from __future__ import annotations

from typing import Final

from keyfold.errors import QueryError
from keyfold.read.changes import LogPosition
from keyfold.server import parameters
from keyfold.server.answers import EVENTS, Streamed
from keyfold.server.feed import Feed, Followed
from keyfold.server.route import Call, Route

MOST_TABLES: Final = 50
_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}


def follow_changes(call: Call) -> Streamed:
    """The changes of some tables as server-sent events, straight from their logs, until the client leaves.

    | event | data |
    |---|---|
    | `begin` | `position`, from which this feed begins |
    | `row` | a `row` of a table's view, with `snapshot=true` |
    | `snapshot` | that all rows of a table were sent, as of a `batch` |
    | `change` | `op` (upsert, final, delete), `key`, the row `after`; null after a delete |
    | `batch` | that all `changes` of a `batch` were sent, with its time `at` and `watermark` |
    | `closed` | why the feed ends (`error`), and the `position` to go on from |

    Rows, changes and the ends of batches have `app` and `table`. A change has the row `before` it (null if
    there was none) only where the log has it, which is so if another table retracts the table's rows.

    The id of `begin`, `snapshot` and `batch` is the position behind them, of all tables. A client that comes
    back with it (`Last-Event-ID`, as browsers do, or `position`) gets each later batch once. Of a batch that
    was not sent whole it gets all changes again: apply the changes of a batch when its `batch` event comes,
    and each counts once. A position whose changes retention has removed is answered with 410, and with
    `oldest`, the first position that is left.
    """
    given = call.values["position"] or call.last_event_id
    tables = _tables(call)
    positions = _positions(given, tables) if given else {}
    feed = Feed(tables, positions, call.home.watch, snapshot=call.values["snapshot"])
    return Streamed(EVENTS, feed.events(), _HEADERS)


def _tables(call: Call) -> list[Followed]:
    names = dict.fromkeys(name.strip() for name in (call.values["tables"] or "").split(","))
    if not all(names) or len(names) > MOST_TABLES:
        given = call.values["tables"]
        hint = f"tables=totals, or tables=shop.totals,shop.pairs, at most {MOST_TABLES}"
        raise QueryError("tables must name some tables", given=given, hint=hint)
    return list({one.name: one for one in (_followed(call, name) for name in names)}.values())


def _followed(call: Call, name: str) -> Followed:
    app, _, table = name.rpartition(".")
    reader = call.home.app(app or None, f"tables=APP.{table}")
    changes = reader.changes(reader.table_name(table))
    return Followed(reader, changes.name.rpartition(".")[2], changes)


def _positions(text: str, tables: list[Followed]) -> dict[str, LogPosition]:
    known, found = {one.name for one in tables}, {}
    for part in text.split(","):
        name, _, position = part.partition("@")
        if name not in known:
            hint = "the id of an event of a feed of the same tables"
            raise QueryError("the position is of another table", given=part, hint=hint)
        found[name] = LogPosition.parse(position)
    return found


ROUTES: Final = (
    Route(
        "follow_changes",
        "/api/changes",
        follow_changes,
        parameters=(
            parameters.text(
                "tables",
                "The tables, with commas: `totals`, or with the app `shop.totals`.",
                example="totals",
                required=True,
            ),
            parameters.flag("snapshot", "Whether the rows of tables without a position are sent first."),
            parameters.text("position", "The position to go on from; Last-Event-ID otherwise."),
        ),
        role="reader",
        media=(EVENTS,),
    ),
)
