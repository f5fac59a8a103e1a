"""Rows that were read from a view make the same view again, whatever their types."""

from __future__ import annotations

from pathlib import Path

from keyfold.engine.storage.layout import AppHome
from keyfold.views.changes import as_changes
from keyfold.views.stores import views_in
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
