"""Private columns after a restart, a restore and a migration, for readers that were there before."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine.savepoint import restoration
from keyfold.engine.savepoint.manifest import FILE, SavedTable, Savepoint
from keyfold.engine.savepoint.savepoints import FILES, VIEW
from keyfold.engine.storage.layout import AppHome
from keyfold.read import open_home
from keyfold.read.changes import LogPosition, TableChanges
from keyfold.server.auth.access import Access
from keyfold.server.granted.app import GrantedApp
from keyfold.views.contract import ViewSchema
from tests.cli.conftest import AT, columns
from tests.server.guarded_home import OUTSIDE, PRIVATE, TOTALS, VAULT, fill


@pytest.fixture
def shop(tmp_path: Path) -> AppHome:
    fill(tmp_path / "home")
    return AppHome(tmp_path / "home/shop")


def reading(shop: AppHome, check: Callable[[GrantedApp], None]) -> None:
    with open_home(shop.path.parent) as reader:
        check(GrantedApp(reader.app("shop"), Access("reader")))


def make_view(shop: AppHome, schema: ViewSchema) -> None:
    """What a start does to the view of a table whose columns are others now."""
    store = shop.views.open(read_only=False)
    store.drop(schema.table)
    store.create(schema)
    store.close()


def declare(shop: AppHome, table: str, private: list[str]) -> None:
    plan = shop.read_plan()
    tables = plan.declared_tables
    shop.write_plan(plan.with_declared({**tables, table: {**tables[table], "private": private}}))


def sent(changes: TableChanges) -> str:
    return repr([list(found) for _, found in changes.batches(LogPosition(0))])


def test_an_open_feed_does_not_send_a_column_that_became_private(shop: AppHome) -> None:
    def check(app: GrantedApp) -> None:
        feed = app.changes("vault")
        assert OUTSIDE in sent(feed)
        make_view(shop, replace(VAULT, private=("note",)))
        assert OUTSIDE not in sent(feed)
        assert "'n': 1" in sent(feed)

    reading(shop, check)


def test_a_private_column_that_the_table_no_longer_has_stays_hidden_in_the_log(shop: AppHome) -> None:
    def check(app: GrantedApp) -> None:
        make_view(shop, ViewSchema("totals", columns(region="string"), columns(n="long")))
        (change,) = app.history("totals", ["eu"])
        assert (change.row["n"], PRIVATE in repr(change)) == (1, False)
        assert PRIVATE not in sent(app.changes("totals"))

    reading(shop, check)


def test_a_restored_view_does_not_show_what_became_private_since(shop: AppHome, tmp_path: Path) -> None:
    entry = save(shop, tmp_path)
    make_view(shop, replace(VAULT, private=("note",)))
    declare(shop, "vault", ["Note"])

    def check(app: GrantedApp) -> None:
        assert "note" not in repr(app.views.schema("vault"))
        restoration.carry_out(shop, entry)
        (row,) = app.table("vault").rows()
        assert (row["n"], OUTSIDE in repr(row)) == (1, False)
        assert "note" not in repr(app.views.schema("vault"))
        assert OUTSIDE not in repr(app.views.get("vault", ("eu",)))
        declare(shop, "vault", [])
        assert OUTSIDE in repr(app.views.get("vault", ("eu",)))

    reading(shop, check)


def save(shop: AppHome, tmp_path: Path) -> dict[str, Any]:
    """A savepoint of the app as it is, and the entry of a restore from it."""
    directory = shop.path / "savepoints/before"
    (directory / FILES).mkdir(parents=True)
    (directory / FILES / "app.json").write_bytes(shop.plan.read_bytes())
    store = shop.views.open(read_only=True)
    assert store.copy_to(directory / VIEW)
    store.close()
    saved = {"vault": SavedTable(0, None, (), 1)}
    made = Savepoint("before", "shop", AT, "ann", None, False, "4.1", 1, saved, (), None, True)
    document = json.loads(made.encode())
    view = {"path": VIEW, "bytes": (directory / VIEW).stat().st_size, "sha256": ""}
    (directory / FILE).write_text(json.dumps({**document, "view": view}))
    return {"savepoint": "before", "removed": [], "tables": [], "whole": True}


def test_a_table_without_a_view_takes_the_status_from_nobody(shop: AppHome) -> None:
    store = shop.views.open(read_only=False)
    store.drop(TOTALS.table)
    store.close()
    status = json.loads(shop.status.read_text())
    status["tables"]["totals"]["since"] = {"mailbox": {"at": AT.isoformat(), "batch": 0}}
    shop.status.write_text(json.dumps(status))

    def check(app: GrantedApp) -> None:
        found = app.status()
        assert set(found.tables) == {"totals", "vault"}
        assert "mailbox" not in repr(found)

    reading(shop, check)
