"""The changes published by a change of one key's state: a batch of the log, for all followers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from keyfold.engine.internal_columns import MERGED_BATCH, OP, PREVIOUS
from keyfold.engine.log.key_text import as_text, matching
from keyfold.engine.log.manifest import KINDS, Manifest, Part, part_of
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage import contents
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.surgery.key_erasure import TableKey
from keyfold.engine.surgery.key_rows import rows_of_key
from keyfold.errors import BadOption

if TYPE_CHECKING:
    import pyarrow as pa

    from keyfold.views.contract import Views, ViewSchema

Row = Mapping[str, Any]


class KeyChanges:
    """The rows that followers have for a key, and the batch that replaces them.

    `batch`: the newest one of the state. A later one in a savepoint is about to be deleted.
    """

    def __init__(
        self, home: AppHome, table: str, batch: int, key: TableKey, views: Views | None = None
    ) -> None:
        self._home, self._table, self._batch = home, table, batch
        self._views = views or home.views
        self._table_home = home.table(table)
        self._log = TableLog(self._table_home.log_files, batch)
        self.schema: ViewSchema | None = None
        self.rows: list[Row] = []
        """The rows of the key in the view, which must be at the same batch as the state."""
        self._read(key)

    def _read(self, key: TableKey) -> None:
        readers = contents.readers(self._home, self._table)
        name = f"{self._home.path.name}.{self._table}"
        store = self._views.open(read_only=True) if self._views.exists() else None
        try:
            if store is None or self._table not in store.tables():
                if readers:
                    raise BadOption(
                        f"{name} has no view, so what {', '.join(readers)} has read of the key is not known",
                        given=name,
                        hint="start the app once with views, and stop it",
                    )
                return
            position = store.position(self._table)
            if position is None or position.batch < self._table_home.spark.before_resizes(self._batch):
                raise BadOption(
                    f"the view of {name} is not at batch {self._batch}, that of its state",
                    given="no batch" if position is None else f"batch {position.batch}",
                    hint="start the app, which brings the view up, and stop it (keyfold run APP.py --drain)",
                )
            self.schema = store.schema(self._table)
            names = [column.name for column in (*self.schema.keys, *self.schema.columns)]
            found = rows_of_key(store, self._table, key.columns)
            rows = [{name: row[name] for name in names} for row in found]
            self.rows = self._without_later(rows, key, position.batch)
        finally:
            if store is not None:
                store.close()

    def _without_later(self, rows: Sequence[Row], key: TableKey, upto: int) -> list[Row]:
        """The rows as they were before changes of batches that the view has, but not the state."""
        assert self.schema is not None
        keys = [column.name for column in self.schema.keys]

        def identity(row: Row) -> tuple[str, ...]:
            return tuple(as_text(row[name]) for name in keys)

        found = {identity(row): row for row in rows}
        log = TableLog(self._table_home.log_files)
        later = [manifest for manifest in log.after(self._batch) if manifest.batch <= upto]
        for changed in (row for m in reversed(later) for row in reversed(_changes(log, m, key))):
            before = changed.get(PREVIOUS)
            if before is not None:
                found[identity(changed)] = {name: changed[name] for name in keys} | before
            elif PREVIOUS in changed:
                found.pop(identity(changed), None)
            elif changed[OP] == "delete":
                found[identity(changed)] = changed
        names = [column.name for column in (*self.schema.keys, *self.schema.columns)]
        return [{name: row[name] for name in names} for row in found.values()]

    def publish(self, target: Storage, rows: Sequence[Row], *, told: bool = True) -> int:
        """Writes the batch after the last one, with the key's present rows, to be added to the log.

        Removed rows are deleted. `told=False`: only the view follows the log, and it is updated in another
        way. Returns the number of changes.
        """
        changes = self._changes(rows) if told else []
        manifest = self._log.find(self._log.newest() or 0)
        part = self._write(target, changes) if changes else None
        batch = self._batch + 1
        found = Manifest(
            batch=batch,
            epoch=0 if manifest is None else manifest.epoch,
            at=datetime.now(UTC),
            watermark=self._table_home.spark.watermark(self._batch),
            counts={**dict.fromkeys(KINDS, 0), "change": len(changes)},
            parts=() if part is None else (part,),
            offsets=tuple(self._table_home.spark.offset_documents(self._batch)),
            previous=self._log.newest(),
            times={} if manifest is None else manifest.times,
        )
        target.put(f"{batch}.json", found.encode())
        return len(changes)

    def _changes(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        if self.schema is None:
            return []
        keys = [column.name for column in self.schema.keys]
        others = [column.name for column in self.schema.columns]

        def identity(row: Row) -> str:
            return repr([row[name] for name in keys])

        def previous(row: Row | None) -> Any:
            return None if row is None else {OP: "upsert", **{name: row[name] for name in others}}

        old, new = ({identity(row): row for row in some} for some in (self.rows, rows))
        found = [
            {OP: "delete", **{name: row[name] for name in keys}, PREVIOUS: previous(row)}
            for one, row in old.items()
            if one not in new
        ]
        for one, row in new.items():
            if row != old.get(one):
                found.append({OP: "upsert", **row, PREVIOUS: previous(old.get(one))})
        return found

    def _write(self, target: Storage, changes: list[dict[str, Any]]) -> Part:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table, out = pa.Table.from_pylist(changes, self._parquet()), pa.BufferOutputStream()
        pq.write_table(table, out, store_schema=False)
        content = out.getvalue().to_pybytes()
        name = f"data/{self._batch + 1}-{secrets.token_hex(4)}/part-change.parquet"
        target.put(name, content)
        return part_of(name, "change", len(changes), content)

    def _parquet(self) -> pa.Schema:
        """The columns of the table's changes, from the log or from the view."""
        import pyarrow as pa

        for batch in reversed(self._log.batches()):
            manifest = self._log.find(batch)
            for part in manifest.of_kind("change") if manifest else ():
                if self._log.has(part):
                    found = self._log.schema(part).remove_metadata()
                    return pa.schema([field for field in found if field.name != MERGED_BATCH])
        assert self.schema is not None
        fields = list(self.schema.arrow)
        others = {column.name for column in self.schema.columns}
        before = [pa.field(OP, pa.string()), *(field for field in fields if field.name in others)]
        return pa.schema([*fields, pa.field(PREVIOUS, pa.struct(before))])


def _changes(log: TableLog, manifest: Manifest, key: TableKey) -> list[dict[str, Any]]:
    """The changes of a key in a batch, in order."""
    found = (matching(rows, key.names, key.values) for rows in log.rows(manifest, "change"))
    return [row for rows in found for row in rows.to_pylist()]
