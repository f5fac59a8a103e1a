"""A home with tokens: a table with a private column, one out of scope, another app; and what a token may see.

What must not be seen is in words that occur nowhere else, so that a test finds them in any answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from keyfold.engine.internal_columns import OP, PREVIOUS
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.savepoint.manifest import FILE, SavedTable, Savepoint
from keyfold.engine.storage import tokens
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.views.contract import ViewSchema
from tests.cli.conftest import AT, columns, make_app
from tests.late_rows import START, said
from tests.log_files import publish

TOTALS = ViewSchema(
    "totals", columns(region="string"), columns(n="long", mailbox="string"), private=("mailbox",)
)
VAULT = ViewSchema("vault", columns(region="string"), columns(n="long", note="string"))
PRIVATE = "mallory-at-example"
OUTSIDE = "ingot-of-gold"
REASONS = (
    'amount "SECRET" is wrong',
    # The first row of a file without a header.
    "the header of x.csv is eu,SECRET, but the schema has region,mailbox: the whole file is rejected",
    "[USER_RAISED_EXCEPTION] bad SECRET",
    "bad SECRET",
    "key SECRET is null",
)
"""Texts of rejected rows, which may quote a row in any way."""
PATTERN = {
    "steps": "first >> last",
    "skip": "past the match",
    "order": "at",
    "returns": {"n": "count(*)", "mailbox": "last.mail"},
    "graph": {
        "steps": [{"name": "first", "condition": "amount < 1"}],
        "follows": [{"source": None, "target": 0, "words": ""}],
    },
}


@dataclass(frozen=True)
class Holder:
    """A token, and what it must not see."""

    name: str
    role: str
    tables: tuple[str, ...] | None = None

    @property
    def unseen(self) -> tuple[str, ...]:
        """The words that no answer to it may have."""
        private = (PRIVATE, "mailbox") if self.role == "reader" else ()
        outside = () if self.tables is None else (OUTSIDE, "vault", "bank", "ledger")
        return (*private, *outside)


SCOPE = ("shop.totals",)
HOLDERS = tuple(
    Holder(f"{role}-{'some' if tables else 'all'}", role, tables)
    for role in ("reader", "operator", "admin")
    for tables in (None, SCOPE)
)


def fill(home: Path) -> dict[str, str]:
    """Fills the home; returns the texts of the tokens by name."""
    shop = AppHome(home / "shop")
    totals = [("eu", 1, PRIVATE), ("us", 2, PRIVATE)]
    make_app(shop, {TOTALS: [totals], VAULT: [[("eu", 1, OUTSIDE)]]})
    make_app(AppHome(home / "bank"), {ViewSchema("ledger", columns(a="string"), columns(v="string")): []})
    _record(shop)
    for table, secret in (("totals", PRIVATE), ("vault", OUTSIDE)):
        column = "mailbox" if table == "totals" else "note"
        _publish(TableLog(shop.table(table).log), column, secret)
    _save(shop)
    return {
        one.name: tokens.create(home, one.name, one.role, one.tables, timedelta(days=1))[1] for one in HOLDERS
    }


def _record(shop: AppHome) -> None:
    """What the last start declared, and a status of a run that failed with a row's values in its text."""
    tables = [
        {
            "name": "totals",
            "key": {"region": "region"},
            "columns": {"n": "count(*)", "mailbox": "max(mail)"},
            "pattern": PATTERN,
            "private": ["mailbox"],
            "input": [{"stream": "orders"}],
        },
        {
            "name": "vault",
            "key": {"region": "region"},
            "columns": {"n": "count(*)", "note": f"max('{OUTSIDE}')"},
            "pattern": {**PATTERN, "steps": OUTSIDE, "returns": {"note": "last.note"}},
            "private": [],
            "input": [{"stream": "ingots"}, {"changes": {"table": "totals"}}],
        },
    ]
    declared = {"streams": [{"name": "orders"}, {"name": "ingots", "help": OUTSIDE}], "tables": tables}
    read = {
        "totals": StoredTable(streams=("orders",)),
        "vault": StoredTable(streams=("ingots",), tables=("totals",)),
    }
    shop.write_plan(StoredApp(read, declared=declared, app="shop"))
    rejecting = {"batch": 1, "rejected": 1, "share": 1.0, "reason": f"bad {PRIVATE}"}
    failures = [
        {"at": AT.isoformat(), "table": name, "batch": 1, "kind": "QueryFailed", "text": f"row {text}"}
        for name, text in (("totals", PRIVATE), ("vault", OUTSIDE), (None, f"{PRIVATE} {OUTSIDE}"))
    ]
    status = {
        "app": "shop",
        "at": AT.isoformat(),
        "tables": {"totals": {"batch": 0, "rejecting": rejecting}, "vault": {"batch": 0}},
        "streams": {"ingots": {"rows": 1}},
        "failures": failures,
    }
    (shop.path / "status.json").write_text(json.dumps(status))


def _publish(log: TableLog, column: str, secret: str) -> None:
    """A batch with changes, and rows of every kind that quote a secret."""
    fields = [("n", pa.int64()), (column, pa.string())]
    schema = pa.schema([(OP, pa.string()), ("region", pa.string()), *fields, (PREVIOUS, pa.struct(fields))])
    old = {"n": 0, column: secret}
    changes = [{OP: "upsert", "region": "eu", "n": 1, column: secret, PREVIOUS: old}]
    rows: dict[Any, Any] = {
        "change": changes,
        "rejected": [
            {"kind": "rejected", "reason": reason.replace("SECRET", secret), "raw": secret, "cause": secret}
            for reason in REASONS
        ],
        "late": [said(secret, START, None, reason=f"late: '{secret}'")],
        "duplicate": [{"kind": "duplicate", "step": "distinct id", "raw": secret}],
    }
    publish(log, 0, rows, schema=schema, at=AT)


def _save(shop: AppHome) -> None:
    for name, tables in (("both", ("totals", "vault")), (f"only-{OUTSIDE}", ("vault",))):
        saved = {table: SavedTable(0, None, (), 1) for table in tables}
        made = Savepoint(name, "shop", AT, "ann", None, False, "4.1", 1, saved, (), None, True)
        directory = shop.path / "savepoints" / name
        directory.mkdir(parents=True)
        (directory / FILE).write_bytes(made.encode())
