"""How far a view is: what answers say of it, the age that it may have, and the batch a reader waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from keyfold.errors import QueryError
from keyfold.read import AppReader, past, wanted
from keyfold.read.values import plain
from keyfold.server import parameters
from keyfold.server.granted.home import GrantedHome
from keyfold.server.log_watch import stopping
from keyfold.server.parameters import Parameter
from keyfold.server.served_home import ServedHome
from keyfold.views.contract import Position

AT_LEAST: Final = parameters.integer(
    "at_least", "Answer only once the view has this batch; 409 with the present position otherwise.", least=0
)
AFTER: Final = Parameter(
    "after",
    "Answer only once the view shows this position: `orders/3@1234` is the message of Kafka with topic, "
    "partition and offset, and `shop.totals@9` is `position` of an answer, or an id of the change feed. "
    "409 with the present position otherwise.",
    {"type": "string", "maxLength": 10_000},
    lambda name, given: wanted.parse(given),
    many=True,
    example="orders/3@1234",
)
WAIT: Final = parameters.duration(
    "wait",
    "How long to wait for `at_least` and `after`, at most a minute; without these, for the first batch.",
    longest="1 minute",
)
MAX_AGE: Final = parameters.duration(
    "max_age", "Refuse to answer (412) if the view's last batch is older than this.", example="5s"
)
AS_OF: Final = Parameter(
    "as_of",
    "The rows as they were after this batch, or at this time; 410 if the log does not tell.",
    {"type": "string", "maxLength": 40},
    lambda name, given: past.parse(given),
    example="2026-01-31T13:30:00Z",
)
"""What routes of rows accept."""
PARAMETERS: Final = (AT_LEAST, AFTER, WAIT, MAX_AGE)
"""What every route of a table accepts."""
VARY: Final = "accept, authorization, cookie"
"""What an answer with an ETag depends on beside its address: the format, and who asks."""
_POLL: Final = 0.005
_SLOWEST_POLL: Final = 0.1


@dataclass(frozen=True)
class View:
    """A table's view at one moment: what is read afterwards is at least as new."""

    app: AppReader
    table: str
    position: Position | None
    edition: int
    seen: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def age(self) -> float | None:
        """Seconds since the last batch was committed."""
        if self.position is None:
            return None
        return max(0.0, round((self.seen - self.position.at).total_seconds(), 3))

    def fields(self) -> dict[str, Any]:
        """The fields with which every answer about a table begins."""
        return {"app": self.app.name, "table": self.table, **self.freshness()}

    def freshness(self) -> dict[str, Any]:
        """Batch, position behind it, watermark and age."""
        at = self.position
        behind = f"{self.app.name}.{self.table}@{0 if at is None else at.batch + 1}"
        return {
            "batch": at and at.batch,
            "position": behind,
            "watermark": plain(at and at.watermark),
            "age": self.age,
        }

    def headers(self) -> dict[str, str]:
        """The same as headers, without those that have no value."""
        found = self.freshness()
        # Of tables whose names headers can't have, the position is in documents alone.
        has = {name: str(value) for name, value in found.items() if value is not None}
        return {f"keyfold-{name}": value for name, value in has.items() if value.isascii()}

    @property
    def etag(self) -> str | None:
        """A name for the rows: that of another batch, and of rows changed without one, is another one.

        A weak one: the age differs from answer to answer, and formats have the same.
        """
        if self.position is None:
            return None
        micros = int(self.position.at.timestamp() * 1_000_000)
        return f'W/"{self.position.batch}-{micros:x}-{self.edition:x}"'

    def refuse_older(self, max_age: float | None) -> None:
        """Refuses a view that is older than the reader accepts."""
        if max_age is None or (self.age is not None and self.age <= max_age):
            return
        what = "the view has no batch yet" if self.age is None else f"the view is {self.age:,.1f} s old"
        raise QueryError(
            what,
            reason="too_old",
            where=f"{self.app.name}.{self.table}",
            given=f"max_age={max_age:g}s",
            hint="a longer max_age, or none; `keyfold status` says whether the app runs",
        )


def view_of(app: AppReader, name: str) -> View:
    """The view of a table now; a table without one has no position."""
    table = _known(app, name)
    try:
        return View(app, table, app.views.position(table), app.views.edition())
    except QueryError as error:
        if error.reason != "not_ready":
            raise
        return View(app, table, None, 0)


def view_as_of(now: View, as_of: int | datetime) -> View:
    """The view of a table as it was after an earlier batch."""
    return replace(now, position=now.app.past(now.table).position(as_of))


def _known(app: AppReader, name: str) -> str:
    try:
        # Also a table that the app no longer declares.
        return app.views.schema(name).table
    except QueryError:
        return app.table_name(name)


async def reach(app: AppReader, name: str, values: Mapping[str, Any], home: ServedHome | GrantedHome) -> None:
    """Waits for `at_least` and `after`, as long as `wait` says or until the server stops.

    It takes no thread meanwhile.
    """
    at_least, after, wait = values["at_least"], values["after"], values["wait"]
    if at_least is None and after is None and wait is None:
        return
    table = await home.in_thread(app, _known, app, name)
    batch = 0 if at_least is None and after is None else at_least
    positions = [one for given in after or () for one in given]
    deadline, pause = time.monotonic() + (wait or 0), _POLL
    while True:
        error = await home.in_thread(app, _behind, app, table, batch, positions)
        if error is None:
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise error
        if home.watch.closed:
            raise stopping()
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 1.5, _SLOWEST_POLL)


def _behind(app: AppReader, table: str, batch: int | None, positions: wanted.Wanted) -> QueryError | None:
    """Why a view does not show what the reader waits for; None if it does."""
    position = app.views.position(table)
    if batch is not None and (position is None or position.batch < batch):
        try:
            app.views.wait(table, batch)
        except QueryError as error:
            return error
    return app.behind(table, position, positions) if positions else None


def matches(etag: str | None, given: str | None) -> bool:
    """Whether a client already has what it asks for, by its If-None-Match."""
    if etag is None or given is None:
        return False
    known = [one.strip().removeprefix("W/") for one in given.split(",")]
    return known == ["*"] or etag.removeprefix("W/") in known
