"""Rows of a table as they were after an earlier batch, as far back as its log tells.

The log has changes, not rows. So all rows are known only if it has all changes since the table's first batch:
they are folded into a temporary file. One row is also known if it has not changed since, or if the log has a
change of its key up to that batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from keyfold.engine.log.changes import changes
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.retention import totals
from keyfold.engine.log.table_log import TableLog
from keyfold.errors import QueryError
from keyfold.read import history
from keyfold.read.history import KeyChanges
from keyfold.views.contract import Location, Position, ViewSchema, ViewStore
from keyfold.views.query.filters import checked_key
from keyfold.views.reader import TableReader
from keyfold.views.schema import BATCH
from keyfold.views.stores import LOCAL, views_at

MOST_CHANGES: Final = 200_000
"""How many changes are folded for one read of rows: a second or two."""
Row = dict[str, Any]


class PastGone(QueryError):
    """The log does not reach so far back; `oldest` is the first batch that can be read, None if none can."""

    def __init__(self, what: str, *, oldest: int | None, **parts: Any) -> None:
        hint = "the present rows, without as_of" if oldest is None else f"as_of={oldest}, or a later batch"
        super().__init__(what, reason="gone", hint=hint, **parts)
        self.oldest = oldest


def parse(text: str) -> int | datetime:
    """A batch, or a time: without a zone it is in UTC."""
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        hint = "a batch, such as 7; or a time, such as 2026-01-31T13:30:00Z"
        raise QueryError("as_of is neither a batch nor a time", given=f"as_of={text}", hint=hint) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


@dataclass(frozen=True)
class PastReader:
    """Reads one table, whose view is at a position, as of earlier batches; `began_with`: its initial rows."""

    name: str
    log: TableLog
    store: ViewStore
    table: str
    began_with: str | None = None

    def position(self, as_of: int | datetime) -> Position:
        """The batch that was the last one: that of a number, or the last one up to a time."""
        now = self.store.position(self.table)
        if now is None:
            raise self._behind("the view has no batch yet", as_of)
        if isinstance(as_of, datetime):
            if as_of > datetime.now(UTC):
                raise self._behind("the time is in the future", as_of)
            if as_of >= now.at:
                return now
        elif as_of >= now.batch:
            if as_of > now.batch:
                raise self._behind(f"the view is at batch {now.batch}, before batch {as_of}", as_of)
            return now
        last: Manifest | None = None
        first: int | None = None
        for manifest in self.log.after(totals(self.log).upto):
            first = manifest.batch if first is None else first
            is_later = manifest.at > as_of if isinstance(as_of, datetime) else manifest.batch > as_of
            if is_later or manifest.batch > now.batch:
                break
            last = manifest
        if last is None:
            oldest = now.batch if first is None else min(first, now.batch)
            what = "the log does not reach so far back"
            raise PastGone(what, oldest=oldest, where=self.name, given=f"as_of={as_of}")
        return Position(last.batch, last.at, last.watermark)

    def rows_of_keys(self, keys: Sequence[Sequence[Any]], batch: int) -> list[Row | None]:
        """The rows of some keys as they were after a batch, in their order; None for one without a row."""
        schema = self.store.schema(self.table)
        parts = [checked_key(key, schema) for key in keys]
        wanted = [repr(one) for one in parts]
        now = dict(zip(wanted, self.store.get_many(self.table, keys), strict=True))
        # Nothing has changed these since.
        found = {one: row for one, row in now.items() if row is not None and row[BATCH.name] <= batch}
        if left := {one: row for one, row in now.items() if one not in found}:
            by_text = dict(zip(wanted, parts, strict=True))
            changes_of = KeyChanges(self.log, schema, by_text, self.name, f"as_of={batch}")
            found |= self._from_log(changes_of, left, batch)
        return [found.get(one) for one in wanted]

    def _from_log(
        self, changes_of: KeyChanges, wanted: Mapping[str, Row | None], batch: int
    ) -> dict[str, Row]:
        """The rows of keys by the last change of each up to a batch; what the log can't tell is gone."""
        since = history.since(self.log)
        first = batch + 1 if since.batch is None else since.batch
        manifests = list(self.log.after(first - 1))
        found: dict[str, Row | None] = {}
        for manifest in reversed([one for one in manifests if one.batch <= batch]):
            if left := wanted.keys() - found.keys():
                found |= changes_of.rows(manifest, left)
        if not self._is_whole(since):
            unknown = {key: row for key, row in wanted.items() if key not in found}
            later = _first_changes(changes_of, unknown, [one for one in manifests if one.batch > batch])
            if later or batch < first - 1:
                what, oldest = f"the log does not tell the row after batch {batch}", max([*later, first])
                raise PastGone(what, oldest=oldest, where=self.name, given=changes_of.given)
        return {key: row for key, row in found.items() if row is not None}

    @contextmanager
    def rows(self, batch: int) -> Iterator[TableReader]:
        """A reader of all rows as they were after a batch, until the context ends."""
        schema = self.store.schema(self.table)
        self._require_whole(batch)
        with TemporaryDirectory(prefix="keyfold-past-") as directory:
            views = views_at(Location(LOCAL, "past", directory, Path(directory)))
            with views.open(read_only=False) as store:
                store.create(schema)
                self._fold(store, schema, [one for one in self.log.after(-1) if one.batch <= batch])
                yield TableReader(store, self.table)

    def _fold(self, store: ViewStore, schema: ViewSchema, manifests: Sequence[Manifest]) -> None:
        """Applies the changes of batches in one transaction."""
        first = manifests[0]
        with store.batch(self.table, first.batch, first.at, first.watermark) as view:
            for manifest in manifests:
                if manifest is not first:
                    view.next(Position(manifest.batch, manifest.at, manifest.watermark))
                for found in changes(self.log, manifest, schema):
                    view.apply(found)

    def _require_whole(self, batch: int) -> None:
        since, given = history.since(self.log), f"as_of={batch}"
        if not self._is_whole(since):
            what = "rows are folded from all changes since the first batch, and the log has not all"
            raise PastGone(what, oldest=None, where=self.name, given=given)
        count = sum(one.counts["change"] for one in self.log.after(-1) if one.batch <= batch)
        if count > MOST_CHANGES:
            what = f"the table had {count:,} changes until batch {batch}; at most {MOST_CHANGES:,} are folded"
            hint = "the rows of some keys, which need none of this"
            raise QueryError(what, reason="too_large", where=self.name, given=given, hint=hint)

    def _is_whole(self, since: history.Since) -> bool:
        """Whether the log has every change of the table. Initial rows are in no log."""
        return since.whole and since.migrated is None and self.began_with is None

    def _behind(self, what: str, as_of: int | datetime) -> QueryError:
        given, hint = f"as_of={as_of}", "at_least=BATCH with wait, to wait for it"
        return QueryError(what, reason="behind_bound", where=self.name, given=given, hint=hint)


def _first_changes(
    changes_of: KeyChanges, now: Mapping[str, Row | None], manifests: Sequence[Manifest]
) -> list[int]:
    """The batches of the first changes of keys, of those that have one in some batches or have a row now."""
    # A row of a view that was rebuilt has a later batch than the one that wrote it.
    found = {key: row[BATCH.name] for key, row in now.items() if row is not None}
    left = set(now)
    for manifest in manifests:
        if left:
            changed = changes_of.rows(manifest, left).keys()
            left -= changed
            found |= {key: min(manifest.batch, found.get(key, manifest.batch)) for key in changed}
    return list(found.values())
