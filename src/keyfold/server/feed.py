"""`Feed`: the changes of some tables as server-sent events, from a snapshot or a position on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from keyfold.errors import KeyfoldError
from keyfold.read import AppReader
from keyfold.read.changes import LogPosition, TableChanges
from keyfold.read.tabular import pieces
from keyfold.read.values import plain, utf8
from keyfold.server import stepping
from keyfold.server.error_body import error_document
from keyfold.server.log_watch import LogWatch, stopping

_HEARTBEAT_SECONDS: Final = 10.0
_AT_ONCE: Final = 500
_TRIES: Final = 5
BEGIN: Final = b"retry: 1000\n\n"
_HEARTBEAT: Final = b": nothing new\n\n"


@dataclass(frozen=True)
class Followed:
    """A table that a feed follows."""

    app: AppReader
    table: str
    changes: TableChanges

    @property
    def name(self) -> str:
        """The name of the table, with its app."""
        return self.changes.name


class Feed:
    """The events of some tables; `positions` has those from which a reader goes on.

    A reader that is slow finds what it has not taken yet in the log: nothing is kept for it in memory but the
    piece that is being sent.
    """

    def __init__(
        self,
        tables: Sequence[Followed],
        positions: Mapping[str, LogPosition],
        watch: LogWatch,
        *,
        snapshot: bool,
    ) -> None:
        self._tables, self._watch, self._snapshot = tables, watch, snapshot
        self._positions = dict(positions)
        self._newest: list[int | None] = []
        for one in tables:
            if one.name in positions:
                one.changes.require(positions[one.name])
            elif not snapshot:
                self._positions[one.name] = one.changes.end()

    @property
    def id(self) -> str:
        """From where a reader goes on that has seen all events until now."""
        return ",".join(f"{name}@{position}" for name, position in sorted(self._positions.items()))

    async def events(self) -> AsyncIterator[bytes]:
        """The events, some at a time; now and then a comment, so that the connection is seen to be alive."""
        found = self.steps()
        try:
            yield BEGIN + self._event("begin", {"position": self.id}, id=bool(self._positions))
            while (piece := await stepping.step(found)) is not stepping.END:
                if isinstance(piece, bytes):
                    yield piece
                elif self._watch.closed:
                    yield self._closed(stopping())
                    return
                elif not await self._watch.wait(
                    [one.changes for one in self._tables], self._newest, _HEARTBEAT_SECONDS
                ):
                    yield _HEARTBEAT
        finally:
            await stepping.close(found)

    def steps(self) -> Iterator[bytes | None]:
        """The events, some at a time; None if there are no more for now."""
        try:
            for one in self._tables:
                if one.name not in self._positions:
                    yield from self._rows(one)
            while True:
                self._newest = [one.changes.log.newest() for one in self._tables]
                found = False
                for one in self._tables:
                    # Events of a table are in order; tables take turns, a batch each.
                    for piece in self._batch(one):
                        found = True
                        yield piece
                if not found:
                    yield None
        except KeyfoldError as error:
            yield self._closed(error)

    def _rows(self, one: Followed) -> Iterator[bytes]:
        """The rows of a view as of one batch, whose changes and those before it are in them."""
        batch, rows = self._view(one)
        count = 0
        with closing(rows):
            for piece in pieces(rows, _AT_ONCE):
                count += len(piece)
                yield b"".join(self._event("row", self._named(one, {"row": row})) for row in piece)
        behind = LogPosition(0) if batch is None else one.changes.behind(batch)
        self._positions[one.name] = behind
        yield self._event("snapshot", self._named(one, {"batch": batch, "rows": count}), id=True)

    def _view(self, one: Followed) -> tuple[int | None, Any]:
        """The rows of a view as of one moment, and the batch that it shows at that moment."""
        for _ in range(_TRIES):
            before = one.app.views.position(one.table)
            rows: Any = one.app.table(one.table).scan()
            if one.app.views.position(one.table) == before:
                break
            rows.close()
        else:
            # Batches come faster than a read begins: changes since the position are sent again.
            before, rows = one.app.views.position(one.table), one.app.table(one.table).scan()
        return None if before is None else before.batch, rows

    def _batch(self, one: Followed) -> Iterator[bytes]:
        """The events of the next batch of a table, if there is one."""
        position = self._positions[one.name]
        one.changes.require(position)
        for manifest, changes in one.changes.batches(position):
            head, count = {"batch": manifest.batch}, 0
            for piece in pieces((change.document() for change in changes), _AT_ONCE):
                count += len(piece)
                yield b"".join(self._event("change", self._named(one, {**head, **row})) for row in piece)
            self._positions[one.name] = LogPosition(manifest.batch + 1, manifest.epoch)
            end = {**head, "at": manifest.at, "watermark": manifest.watermark, "changes": count}
            yield self._event("batch", self._named(one, end), id=True)
            return

    def _named(self, one: Followed, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"app": one.app.name, "table": one.table, **facts}

    def _closed(self, error: KeyfoldError) -> bytes:
        return self._event("closed", {**error_document(error), "position": self.id})

    def _event(self, kind: str, data: Mapping[str, Any], *, id: bool = False) -> bytes:
        head = f"id: {self.id}\n" if id else ""
        return b"%sevent: %s\ndata: %s\n\n" % (head.encode(), kind.encode(), utf8(plain(data)))
