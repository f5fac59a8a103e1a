"""A second source, format and sink plug in by an entry in one table each, and rows run through them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keyfold as kf
from keyfold.engine.followers.sink import SINKS
from keyfold.engine.internal_columns import RAW
from keyfold.engine.sources.connectors import SOURCES, declared_schema, load
from keyfold.engine.sources.contract import RowOrigin
from keyfold.engine.sources.file_names import name_files
from keyfold.engine.sources.formats import FORMATS
from keyfold.engine.start import start
from keyfold.errors import BadOption
from keyfold.plan.nodes import Connector, Source
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm

SCHEMA = "name string, amount int"


class PipedLines:
    """Lines such as `ann|3`."""

    name = "piped"
    text = True
    columnar = False
    defaults: Mapping[str, str] = MappingProxyType({})

    def configure(self, reader: Any, schema: Any) -> Any:
        return reader.format("text")

    def rows(self, frame: DataFrame, source: Source, *, reject: bool) -> DataFrame:
        parts = F.split("value", r"\|")
        amount = F.expr("try_cast(split(value, '[|]')[1] as int)")
        raw = F.when(amount.isNull(), F.col("value"))
        return frame.select(parts[0].alias("name"), amount.alias("amount"), raw.alias(RAW))


class Drops:
    """A source of its own kind: a directory of JSON files that a program drops there, newest offset last."""

    endless = False

    def open(self, spark: SparkSession, source: Source, *, reject: bool) -> DataFrame:
        schema = declared_schema(source).add(RAW, "string")
        reader = spark.readStream.format("json").schema(schema).option("columnNameOfCorruptRecord", RAW)
        return name_files(load(reader, source, source.connector.path), stream=source.name)

    def origin(self, source: Source) -> RowOrigin:
        return RowOrigin("json", files=True)

    def available(self, connector: Connector) -> int | None:
        return 7


@dataclass
class Remembering:
    """A sink in this process that keeps the changes of each batch once."""

    batches: dict[int, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))

    def write(self, changes: DataFrame, batch: int) -> None:
        self.batches[batch] = [tuple(row) for row in changes.orderBy("name").collect()]


def plugged(kind: str, format: str, path: Path) -> Connector:
    return Connector(cast(Any, kind), format, str(path))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def own_columns(row: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (row or {}).items() if not name.startswith("_")}


def totals(source: Connector) -> tuple[kf.App, kf.Table]:
    app = kf.App("shop")
    orders = app.stream("orders", source, SCHEMA)
    return app, orders.by("name").table("totals", total="sum(amount)", last="last(amount)")


def test_a_second_format_reads_rows_and_keeps_the_text_of_bad_ones(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FORMATS, "piped", PipedLines())
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("ann|3\nbob|x\nann|4\n")
    app, _ = totals(plugged("files", "piped", tmp_path / "in"))
    with start(app.spec(), spark=shared_session(), home=home) as handle:
        handle.drain()
        assert own_columns(handle.table("totals").get("ann")) == {"name": "ann", "total": 7, "last": 4}
        (bad,) = handle.rejected("orders")
        assert (bad["raw"], bad["reason"]) == ("bob|x", "does not parse")
        assert handle.status()["tables"]["totals"]["files_left"] == 0


def test_a_second_kind_of_source_is_opened_counted_and_taken_up_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOURCES, "drops", Drops())
    (tmp_path / "in").mkdir()
    lines = ['{"name": "ann", "amount": 1}', '{"name": "ann", "amount": 2}', "{"]
    (tmp_path / "in" / "a.json").write_text("\n".join(lines))
    app, _ = totals(plugged("drops", "json", tmp_path / "in"))
    with start(app.spec(), spark=shared_session(), home=home) as handle:
        handle.drain()
        assert handle.status()["tables"]["totals"]["files_left"] == 6
        assert [row["raw"] for row in handle.rejected("orders")] == ["{"]
    (tmp_path / "in" / "b.json").write_text('{"name": "ann", "amount": 5}\n')
    with start(app.spec(), spark=shared_session(), home=home) as handle:
        handle.drain()
        assert own_columns(handle.table("totals").get("ann")) == {"name": "ann", "total": 8, "last": 5}


def test_an_endless_source_is_not_drained(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = Drops()
    endless.endless = True
    monkeypatch.setitem(SOURCES, "drops", endless)
    (tmp_path / "in").mkdir()
    app, _ = totals(plugged("drops", "json", tmp_path / "in"))
    with (
        start(app.spec(), spark=shared_session(), home=home) as handle,
        pytest.raises(BadOption, match="orders never ends"),
    ):
        handle.drain()


def test_a_second_kind_of_sink_gets_each_batch_beside_the_first(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Remembering()
    monkeypatch.setitem(SINKS, "remembering", lambda connector: sink)
    app, table = totals(kf.rows([{"name": "ann", "amount": 3}, {"name": "bob", "amount": 4}]))
    table.to(plugged("remembering", "none", tmp_path)).to(kf.files(tmp_path / "out", format="parquet"))
    with start(app.spec(), spark=shared_session(), home=home) as handle:
        handle.drain()
    changes = [("upsert", "ann", 3, 3, 0), ("upsert", "bob", 4, 4, 0)]
    assert sink.batches == {0: changes}
    written = shared_session().read.parquet(str(tmp_path / "out"))
    assert [tuple(row) for row in written.orderBy("name").collect()] == changes
