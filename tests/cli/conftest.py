"""A home as a run leaves it, made through the real store of views, and a way to call the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.cli.main import main
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.views.contract import Column, ViewSchema
from keyfold.views.types.parse import parse
from tests.log_files import publish

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Result:
    """What a command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout; NaN and the like, which JSON lacks, are refused."""

        def refuse(word: str) -> None:
            raise AssertionError(f"{word} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


Cli = Callable[..., Result]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Calls the command line in this process."""
    monkeypatch.delenv("KEYFOLD_HOME", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*words: object) -> Result:
        capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return call


def columns(**types: Any) -> tuple[Column, ...]:
    return tuple(Column(name, parse(kind)) for name, kind in types.items())


TOTALS = ViewSchema("totals", columns(region="string"), columns(n="long", revenue="double"))
PAIRS = ViewSchema("pairs", columns(a="long", b="double"), columns(v="string"))
KINDS = ViewSchema(
    "kinds",
    columns(id="string"),
    columns(
        at="timestamp",
        local="timestamp_ntz",
        day="date",
        price="decimal(20,2)",
        raw="binary",
        ratio="double",
        tags={"type": "array", "elementType": "double", "containsNull": True},
        counts={"type": "map", "keyType": "integer", "valueType": "long", "valueContainsNull": True},
        took="interval day to second",
    ),
)
ROWS: dict[ViewSchema, list[list[tuple[Any, ...]]]] = {
    TOTALS: [[("eu", 1, 2.5), ("us", 2, float("nan"))], [("eu", 3, 7.5), ("ä[b]", 1, None)]],
    PAIRS: [[(-5, 1.5, "minus"), (5, -2.0, "plus\x1b[31m\nred")]],
    KINDS: [
        [
            (
                "x",
                AT,
                AT.replace(tzinfo=None),
                AT.date(),
                1234,
                b"\x00\xff",
                float("-inf"),
                [1.0, float("nan"), None],
                [(1, 2), (3, None)],
                timedelta(hours=1, milliseconds=500),
            )
        ]
    ],
}


def make_app(
    home: AppHome, tables: dict[ViewSchema, list[list[tuple[Any, ...]]]], keep: dict[str, str] | None = None
) -> None:
    """An app that ran in the home: its views, one batch after the other, and its app.json.

    `keep`: how long which tables keep closed windows; their watermark is `AT`.
    """
    home.path.mkdir(parents=True)
    store = home.views.open(read_only=False)
    for schema, batches in tables.items():
        store.create(schema)
        for number, rows in enumerate(batches):
            watermark = AT if keep is not None else None
            with store.batch(schema.table, number, AT + timedelta(seconds=number), watermark) as writer:
                writer.apply(_changes(schema, rows))
    store.close()
    read = {schema.table: StoredTable(streams=("orders",)) for schema in tables}
    declared = {
        "streams": [{"name": "orders"}, {"name": "unread"}],
        "tables": [{"name": s.table, "keep": (keep or {}).get(s.table)} for s in tables],
    }
    home.write_plan(StoredApp(read, declared=declared, app=home.path.name))


def _changes(schema: ViewSchema, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    ops = ("upsert",) * len(rows)
    values = [ops, *([row[i] for row in rows] for i in range(len(schema.arrow) - 1))]
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema.arrow, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the app shop: three tables, and rejected rows in two batches."""
    home = tmp_path_factory.mktemp("reading") / "home"
    app_home = AppHome(home / "shop")
    make_app(app_home, ROWS)
    first, second = {"reason": "does not parse", "raw": '{"a'}, {"reason": "key a is null", "raw": "{}"}
    for table, batch, row in (("totals", 0, first), ("totals", 2, second), ("pairs", 0, first)):
        publish(TableLog(app_home.table(table).log), batch, {"rejected": [{"kind": "rejected", **row}]})
    return home


@pytest.fixture(scope="session")
def two_apps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two apps that have a table of the same name."""
    home = tmp_path_factory.mktemp("two") / "home"
    for app in ("shop", "bank"):
        make_app(AppHome(home / app), {TOTALS: ROWS[TOTALS]})
    return home


SHOP = """
import keyfold as kf

app = kf.App("shop", help="Orders of the shop")
orders = app.stream("orders", kf.files("data"), schema="region string, amount double")
orders.by("region").table("totals", n="count(*)", revenue="sum(amount)")
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """An app's file."""
    return write(tmp_path / "shop.py", SHOP)


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path
