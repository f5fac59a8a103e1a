"""What is SQLite's own: the file, other processes, a kill in the middle."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from keyfold.errors import BadName, HomeUnusable, QueryError, RunError
from keyfold.views.contract import Column, ViewSchema
from keyfold.views.query.filters import OneOf
from keyfold.views.sqlite import connections
from keyfold.views.sqlite.store import SqliteStore
from keyfold.views.stores import views_in
from keyfold.views.types.parse import parse

AT = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = ViewSchema("t", (Column("k", parse("string")),), (Column("n", parse("long")),))

OTHER_PROCESS = """
import sys
from datetime import UTC, datetime
from pathlib import Path
import pyarrow as pa
from keyfold.views.sqlite import writer as writing
from keyfold.views.stores import views_in
writing._GATHERED_BYTES = 1 << 20
store = views_in(Path(sys.argv[1])).open(read_only=sys.argv[2] == "read")
if sys.argv[2] == "read":
    for line in sys.stdin:
        rows = list(store.scan("t"))
        print(store.position("t").batch, len(rows), {row["n"] for row in rows}, flush=True)
else:
    with store.batch("t", 1, datetime(2026, 1, 1, tzinfo=UTC)) as writer:
        keys = [f"k{i}" for i in range(300_000)]
        rows = {"_op": ["upsert"] * len(keys), "k": keys, "n": [1] * len(keys)}
        writer.apply(pa.RecordBatch.from_pydict(rows))
        print("writing" if store._writer.in_transaction else "waiting", flush=True)
        sys.stdin.readline()
"""

KILLED = """
import os, signal, sys
from pathlib import Path
from keyfold.views.sqlite import connections
from keyfold.views.sqlite.file import SqliteFile

reader = connections.reader

class Source:
    def __init__(self, path):
        self.connection, self.close = reader(path), lambda: None

    def backup(self, target):
        def kill(status, left, total):
            if left:
                os.kill(os.getpid(), signal.SIGKILL)
        self.connection.backup(target, pages=1, progress=kill)

connections.reader = Source
SqliteFile(Path(sys.argv[1])).restore_from(Path(sys.argv[2]))
"""


def rows(n: int, keys: int = 100) -> pa.RecordBatch:
    data = {"_op": ["upsert"] * keys, "k": [f"k{i}" for i in range(keys)], "n": [n] * keys}
    return pa.RecordBatch.from_pydict(data, schema=SCHEMA.arrow)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a b?#%" / "views.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path, read_only=False)
    store.create(SCHEMA)
    with store.batch("t", 0, AT) as writer:
        writer.apply(rows(0))
    yield store
    store.close()


def other_process(path: Path, what: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OTHER_PROCESS, str(path), what]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_another_process_reads_while_this_one_writes_and_after_it_stopped(
    store: SqliteStore, path: Path
) -> None:
    with other_process(path, "read") as reader:
        assert ask(reader) == "0 100 {0}"
        with store.batch("t", 1, AT) as writer:
            writer.apply(rows(1))
            assert ask(reader) == "0 100 {0}"
        assert ask(reader) == "1 100 {1}"
        store.close()
        assert ask(reader) == "1 100 {1}"
        assert reader.stdin is not None
        reader.stdin.close()


def test_a_kill_inside_the_transaction_leaves_the_batch_before(store: SqliteStore, path: Path) -> None:
    with other_process(path, "write") as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline().strip() == "writing"
        writer.send_signal(signal.SIGKILL)
    position = store.position("t")
    assert position is not None
    assert position.batch == 0
    assert {row["n"] for row in store.scan("t")} == {0}
    with store.batch("t", 1, AT) as again:
        again.apply(rows(1))
    assert not again.replayed
    assert {row["n"] for row in store.scan("t")} == {1}


def test_a_missing_file_is_not_ready_and_is_not_made(tmp_path: Path) -> None:
    store = views_in(tmp_path / "app" / "views.db").open(read_only=True)
    for read in (
        store.tables,
        lambda: store.position("t"),
        lambda: store.scan("t"),
        lambda: store.get("t", "k"),
    ):
        with pytest.raises(QueryError, match="start the app once") as caught:
            read()
        assert caught.value.reason == "not_ready"
    assert list(tmp_path.iterdir()) == []


def test_a_store_for_reading_refuses_to_write(store: SqliteStore, path: Path) -> None:
    reading = views_in(path).open(read_only=True)
    with pytest.raises(RunError, match="for reading only"):
        reading.create(SCHEMA)
    with pytest.raises(RunError, match="for reading only"), reading.batch("t", 1, AT) as writer:
        writer.apply(rows(1))
    with pytest.raises(RunError, match="for reading only"):
        reading.drop("t")
    assert len(list(reading.scan("t"))) == 100
    reading.close()


def test_a_closed_store_refuses_to_write(store: SqliteStore) -> None:
    store.close()
    with pytest.raises(RunError, match="is closed"):
        store.create(SCHEMA)
    store.close()


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    file = tmp_path / "views.db"
    file.write_bytes(b"no database at all, but long enough for its header" * 100)
    with pytest.raises(QueryError, match="not a database"):
        views_in(file).open(read_only=True).tables()
    with pytest.raises(HomeUnusable, match="not a database"):
        views_in(file).open(read_only=False)


def test_an_empty_file_has_no_views(tmp_path: Path) -> None:
    file = tmp_path / "views.db"
    file.touch()
    store = views_in(file).open(read_only=True)
    assert store.tables() == ()
    with pytest.raises(QueryError) as caught:
        store.schema("t")
    assert caught.value.reason == "not_found"
    store.close()


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HomeUnusable):
        views_in(tmp_path / "file" / "views.db").open(read_only=False)


def test_a_home_that_was_made_again_is_read_anew(store: SqliteStore, path: Path) -> None:
    assert store.tables() == ("t",)
    store.close()
    reading = views_in(path).open(read_only=True)
    assert reading.tables() == ("t",)
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(QueryError):
        reading.tables()
    SqliteStore(path, read_only=False).close()
    assert reading.tables() == ()
    reading.close()


def test_a_locked_file_is_waited_for_and_then_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_BUSY_SECONDS", 0.05)
    store = SqliteStore(path, read_only=False)
    store.create(SCHEMA)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RunError, match="locked") as caught, store.batch("t", 4, AT) as writer:
        writer.apply(rows(1))
    assert (caught.value.table, caught.value.batch) == ("t", 4)
    other.execute("ROLLBACK")
    with store.batch("t", 4, AT) as writer:
        writer.apply(rows(1))
    assert {row["n"] for row in store.scan("t")} == {1}
    other.close()
    store.close()


def test_commits_reach_the_disk_before_they_return(store: SqliteStore) -> None:
    assert store._writer is not None
    assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)


def test_two_stores_on_one_file_share_the_lock(store: SqliteStore, path: Path) -> None:
    other = SqliteStore(path.parent / "." / "views.db", read_only=False)
    assert other._write_lock is store._write_lock
    other.close()


def test_names_differing_in_case_are_refused(store: SqliteStore) -> None:
    with pytest.raises(RunError, match="the view is named t, the table T"):
        store.create(ViewSchema("T", SCHEMA.keys, SCHEMA.columns))
    with pytest.raises(BadName, match="twice"):
        ViewSchema("u", SCHEMA.keys, (Column("K", parse("long")),))


@pytest.mark.parametrize("name", ["_op", "_batch", "_AT", ""])
def test_keyfolds_own_column_names_are_refused(name: str) -> None:
    with pytest.raises(BadName):
        ViewSchema("u", (Column(name, parse("long")),), ())


def test_sqlites_own_table_names_are_refused(store: SqliteStore) -> None:
    for name in ("sqlite_x", "_keyfold_views"):
        with pytest.raises(BadName):
            store.create(ViewSchema(name, SCHEMA.keys, SCHEMA.columns))
    with pytest.raises(BadName, match="at least one key"):
        ViewSchema("u", (), SCHEMA.columns)


def test_a_directory_that_cannot_be_written_can_be_read(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    plain = connections.reader

    def as_in_such_a_directory(path: Path, options: str) -> sqlite3.Connection:
        if "immutable" not in options:
            raise sqlite3.OperationalError("unable to open database file")
        return plain(path, options)

    # Played, since tests may run as root, who may write everywhere.
    monkeypatch.setattr(connections, "reader", as_in_such_a_directory)
    reading = views_in(path).open(read_only=True)
    with pytest.raises(QueryError, match="unable to open"):
        reading.tables()
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert len(list(reading.scan("t"))) == 100
    reading.close()


def test_many_changes_in_any_order_leave_the_last_one_of_each_key(store: SqliteStore) -> None:
    last: dict[str, int | None] = {}
    chance = random.Random(7)
    with store.batch("t", 100, AT) as writer:
        for _ in range(3):
            keys = [f"k{chance.randrange(2000)}" for _ in range(3000)]
            ops = [chance.choice(["upsert", "upsert", "delete"]) for _ in keys]
            numbers = [chance.randrange(10**6) for _ in keys]
            columns = [pa.array(ops), pa.array(keys), pa.array(numbers, SCHEMA.arrow.field(2).type)]
            writer.apply(pa.RecordBatch.from_arrays(columns, schema=SCHEMA.arrow))
            last |= {k: None if op == "delete" else n for k, op, n in zip(keys, ops, numbers, strict=True)}
    found = {row["k"]: row[SCHEMA.columns[0].name] for row in store.scan("t") if row["_batch"] == 100}
    assert found == {k: n for k, n in last.items() if n is not None}


def test_a_damaged_view_is_told_with_a_way_out(path: Path) -> None:
    with_rows = SqliteStore(path, read_only=False)
    with_rows.create(SCHEMA)
    with with_rows.batch("t", 0, AT) as writer:
        writer.apply(rows(1, keys=5000))
    with_rows.close()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    damaged = views_in(path).open(read_only=True)
    with pytest.raises(QueryError, match=r"(?s)malformed.*where: .*views\.db.*try: .*views\.db-wal"):
        list(damaged.scan("t"))
    damaged.close()


def test_nothing_of_an_erased_row_is_left_in_the_files(store: SqliteStore, path: Path) -> None:
    names = {"secret-7", "secret-8"}
    with store.batch("t", 100, AT) as writer:
        data = {"_op": ["upsert"] * 2, "k": sorted(names), "n": [1, 2]}
        writer.apply(pa.RecordBatch.from_pydict(data, schema=SCHEMA.arrow))
    with views_in(path).open(read_only=True) as reading:
        assert reading.get("t", ["secret-7"]) is not None
        store.erase("t", OneOf(SCHEMA.keys[0], tuple(names)), 101)
        found = b"".join(file.read_bytes() for file in path.parent.iterdir())
        assert b"secret" not in found
        assert len(list(reading.scan("t"))) == 100


def test_dropped_rows_stay_in_the_file_until_it_is_purged(store: SqliteStore, path: Path) -> None:
    store.drop("t")
    store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"k42" in path.read_bytes()
    store.purge()
    assert b"k42" not in path.read_bytes()


def test_a_damaged_file_is_replaced_by_a_copy(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    store.copy_to(copy)
    store.close()
    for content in (b"not a database at all" * 100, path.read_bytes()[:5000]):
        path.write_bytes(content)
        views_in(path).restore_from(copy)
        with views_in(path).open(read_only=True) as restored:
            assert len(list(restored.scan("t"))) == 100
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_copy_with_pages_of_another_size_is_restored(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    store.copy_to(copy)
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA page_size = 8192")
        connection.execute("VACUUM")
    store.drop("t")
    store.close()
    views_in(path).restore_from(copy)
    with views_in(path).open(read_only=False) as restored:
        assert len(list(restored.scan("t"))) == 100
        restored.drop("t")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_kill_while_a_copy_is_restored_leaves_the_old_rows(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    store.copy_to(copy)
    with store.batch("t", 100, AT) as writer:
        writer.apply(rows(7, 20_000))
    store.close()
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), str(copy)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    with views_in(path).open(read_only=False) as found:
        assert {row["n"] for row in found.scan("t")} == {7}
        assert found.position("t").batch == 100
    views_in(path).restore_from(copy)
    with views_in(path).open(read_only=True) as found:
        assert len(list(found.scan("t"))) == 100
