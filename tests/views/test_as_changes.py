"""Rows that were read from a view make the same view again, whatever their types."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from keyfold.engine.storage.layout import AppHome
from keyfold.views.changes import as_changes
from keyfold.views.contract import Column, Location, ViewSchema
from keyfold.views.stores import views_at, views_in
from keyfold.views.types.parse import parse
from tests.cli.conftest import AT, KINDS, PAIRS, ROWS, TOTALS, make_app


def test_rows_of_every_type_come_back_as_they_were(tmp_path: Path) -> None:
    home = AppHome(tmp_path / "shop")
    make_app(home, ROWS)
    source = home.views.open(read_only=True)
    target = views_in(tmp_path / "copy.db").open(read_only=False)
    for schema in (TOTALS, PAIRS, KINDS):
        target.rebuild(schema.table, schema, as_changes(source.scan(schema.table), schema), 1, AT)
        copied = [{**row, "_batch": 0, "_at": AT} for row in target.scan(schema.table)]
        assert repr(copied) == repr([{**row, "_batch": 0, "_at": AT} for row in source.scan(schema.table)])
    source.close()
    target.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_years_that_python_lacks_are_copied_and_restored(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    array = {"type": "array", "elementType": "timestamp", "containsNull": True}
    schema = ViewSchema(
        "t",
        (Column("day", parse("date")),),
        (Column("at", parse("timestamp")), Column("all", parse(array))),
    )
    days, micros = [0, 3_000_000, -800_000], [0, 2**62, None]
    columns = [
        pa.array(["upsert"] * 3),
        pa.array(days, pa.int32()).cast(pa.date32()),
        pa.array(micros).cast(pa.timestamp("us", "UTC")),
        pa.array([[one, 0] for one in micros]).cast(pa.list_(pa.timestamp("us", "UTC"))),
    ]
    address = request.getfixturevalue("postgres").address() if kind == "postgresql" else kind
    views = views_at(Location(address, "shop", tmp_path.as_uri(), tmp_path / "shop"))
    with views.open(read_only=False) as store:
        store.create(schema)
        with store.batch("t", 0, AT) as writer:
            writer.apply(pa.RecordBatch.from_arrays(columns, schema=schema.arrow))
        before = list(store.scan("t"))
        assert [row["day"] for row in before][-1] == "+10183-09-21"
        store.copy_to(tmp_path / "copy.db")
        store.drop("t")
    views.restore_from(tmp_path / "copy.db")
    with views.open(read_only=False) as store:
        assert list(store.scan("t")) == before
        store.rebuild("t", schema, list(as_changes(before, schema)), 0, AT)
        assert list(store.scan("t")) == before
