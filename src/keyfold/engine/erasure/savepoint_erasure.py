"""Writes a savepoint without a key, also if its table had another name or other key columns."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from keyfold.engine.erasure import unread
from keyfold.engine.erasure.erased import Erased
from keyfold.engine.erasure.source_columns import source_columns
from keyfold.engine.erasure.staging import ErasureStaging
from keyfold.engine.erasure.switch import erase_from_view
from keyfold.engine.followers.view import ViewFollower
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.migration.table_names import then_called
from keyfold.engine.operations.kinds import FORGET
from keyfold.engine.recovery.view_rebuild import follows
from keyfold.engine.savepoint.manifest import FILE, SavedFile, Savepoint
from keyfold.engine.savepoint.savepoints import FILES as SAVED
from keyfold.engine.savepoint.savepoints import VIEW, Savepoints
from keyfold.engine.state.join_keys import joined_key
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.surgery.key_erasure import TableKey, declared_key
from keyfold.errors import BadOption
from keyfold.read import history
from keyfold.views.contract import Views
from keyfold.views.stores import views_in


@dataclass(frozen=True)
class SavepointErasure:
    """The erasure of a key, as staged for the home, from the savepoints of that home."""

    work: ErasureStaging

    def erase(self, name: str) -> Erased | None:
        """Stages a savepoint without the key: its files, its view, and the manifest that lists them.

        None if the savepoint does not have the table.
        """
        app_home = self.work.home
        savepoint = Savepoints(app_home).find(name)
        with _home_in(app_home, name) as (home, view):
            table = then_called(app_home.read_plan(), self.work.table, home.read_plan())
            if table is None or table not in savepoint.tables:
                return None
            other = None if table == self.work.table else table
            declared = declared_key(home, table)
            key = key_then(self.work.key, declared_key(app_home, self.work.table), declared)
            if key is None:
                why = f"{table}, whose key was {', '.join(declared)}: these values say nothing about that"
                return Erased(not_searched=[why], table=other)
            source = source_columns(home, table, key) if declared else self.work.source
            joined = joined_key(home, table, key.columns) if declared else self.work.joined
            mine = replace(self.work, table=table, key=key, source=source, joined=joined)
            found = _Saved(mine, savepoint).erase(home, view)
            found.table = other
            return found


def key_then(key: TableKey, now: Mapping[str, str], then: Mapping[str, str]) -> TableKey | None:
    """A present key in the columns that the table's key had at that time; None if these can't be derived.

    Columns are the same if they have the same name or expression, since a migration may rename them. A key
    that had fewer columns is found by those; one that had more, as all keys with these values.
    """
    if not then:
        return key
    expressions = {expression: name for name, expression in then.items()}

    def column(name: str) -> str | None:
        # By expression first: columns may have swapped their names, or taken over another's.
        same = expressions.get(now.get(name, ""))
        return same or (name if name in then and then[name] not in now.values() else None)

    named = [(column(name), value) for name, value in key.columns.items()]
    found = {name: value for name, value in named if name is not None}
    if set(found) != set(then) and len(found) < len(key.names):
        return None
    return TableKey(tuple(found), tuple(found.values()), tuple(then))


@dataclass(frozen=True)
class _Saved:
    """One savepoint, and the table's name and key in it."""

    work: ErasureStaging
    savepoint: Savepoint

    def erase(self, home: AppHome, view: Path) -> Erased:
        name, storage = self.savepoint.name, self.work.home.storage
        prefix = f"savepoints/{name}/{SAVED}/"
        if self._is_told(home):
            return Erased(not_searched=["the deletion, with the key, for readers that a restore brings back"])
        if self.savepoint.view is not None:
            with Savepoints(self.work.home).storage(name).fetch(VIEW) as copy:
                shutil.copyfile(copy, view)
            self._bring_up(views_in(view), home.table(self.work.table))
        try:
            found = self.work.erase(home, prefix, views_in(view))
        except BadOption as error:
            raise BadOption(
                f"the key can't be erased from savepoint {name}: {error.what}",
                given=name,
                hint=f"keyfold savepoint delete {name}; to keep its rows, make another app of it before "
                f"(keyfold savepoint clone {name} NAME), run that to the end (keyfold run APP.py --drain), "
                "and forget the key there",
            ) from None
        if self.savepoint.view is not None:
            erase_from_view(views_in(view), self.work.table, self.work.key.columns, found.batch)
            storage.send(view, f"{FORGET.prepared}/savepoints/{name}/{VIEW}")
        self.work.deleted.append(f"savepoints/{name}/reading")
        manifest = self._manifest(prefix, found)
        storage.put(f"{FORGET.prepared}/savepoints/{name}/{FILE}", manifest.encode())
        return found

    def _bring_up(self, views: Views, table: TableHome) -> None:
        """Applies the committed batches that the view did not have when it was captured."""
        batch = table.committed_batch()
        with views.open(read_only=False) as store:
            if batch is None or table.path.name not in store.tables():
                return
            log = TableLog(table.log_files, batch)
            follower = ViewFollower(log, store, store.schema(table.path.name))
            if follows(log, follower.position, table.spark.before_resizes(batch)):
                for manifest in log.after(follower.position):
                    follower.apply(manifest)

    def _is_told(self, home: AppHome) -> bool:
        """Whether a home only has the key for readers: its deletion, in the newest batch, and what they
        have yet to read before it.
        """
        key = self.work.key
        if key.names != key.declared[: len(key.names)]:
            return False
        table = home.table(self.work.table)
        log = TableLog(table.log_files, table.committed_batch())
        newest = log.newest()
        found = list(history.history(log, key.values))
        last = [one for one in found if one.batch == newest]
        read_upto = unread.of_table(home, self.work.table, None).read_upto
        return (
            bool(last)
            and all(one.op == "delete" for one in last)
            and all(one.batch > read_upto for one in found if one not in last)
        )

    def _manifest(self, prefix: str, found: Erased) -> Savepoint:
        savepoint, table = self.savepoint, self.work.table
        storage, staged = self.work.home.storage, f"{FORGET.prepared}/{prefix}"
        gone = [name.removeprefix(prefix) for name in self.work.deleted if name.startswith(prefix)]
        files = {
            file.path: file
            for file in savepoint.files
            if not any(f"{file.path}/".startswith(f"{name}/") for name in gone)
        }
        for file in storage.files(staged.rstrip("/")):
            files[file.name] = SavedFile(file.name, file.bytes, storage.sha256(f"{staged}{file.name}"))
        view = savepoint.view
        if view is not None:
            name = f"{FORGET.prepared}/savepoints/{savepoint.name}/{VIEW}"
            view = SavedFile(VIEW, storage.size(name), storage.sha256(name))
        tables = dict(savepoint.tables)
        if found.batch is not None:
            saved = tables[table]
            left = None if saved.state is None else found.left
            tables[table] = replace(saved, batch=found.batch, state=left)
        return replace(
            savepoint, files=tuple(files[name] for name in sorted(files)), view=view, tables=tables
        )


@contextmanager
def _home_in(home: AppHome, savepoint: str) -> Iterator[tuple[AppHome, Path]]:
    """A savepoint's files as the home they were captured from, and a place for a copy of its view."""
    files = home.storage.below(f"savepoints/{savepoint}/{SAVED}")
    with tempfile.TemporaryDirectory(prefix="keyfold-forget-") as directory:
        yield AppHome(home.path, files), Path(directory) / VIEW
