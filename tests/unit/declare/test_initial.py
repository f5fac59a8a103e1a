"""`initial=`: what it takes, where it is refused, and how it is described."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import keyfold as kf
from keyfold.errors import BadOption
from keyfold.plan.initial import InitialRows, InitialState


def orders(app: kf.App, name: str = "orders", **options: Any) -> kf.Stream:
    options = {"time": "t", **options}
    return app.stream(name, kf.kafka("127.0.0.1:9092", topic=name), "id string, t timestamp", **options)


def archive() -> Any:
    return kf.files("archive/*.parquet", format="parquet")


def test_files_a_time_and_a_savepoint_are_plain_data() -> None:
    app = kf.App("shop")
    by = orders(app).by("id")
    by.table("a", n="count(*)", initial=archive())
    by.table("b", n="count(*)", initial=kf.initial(archive(), until="2026-01-01T01:00:00+01:00"))
    by.table("c", n="count(*)", initial=kf.savepoint("then", app="old", home="/srv"))
    a, b, c = (table.initial for table in app.spec().tables)
    assert isinstance(a, InitialRows)
    assert a.until is None
    assert isinstance(b, InitialRows)
    assert b.until == datetime(2026, 1, 1, tzinfo=UTC)
    assert c == InitialState("then", "old", None, "/srv")
    text = app.describe()
    assert "initial     files parquet archive/*.parquet, until 2026-01-01T00:00:00+00:00" in text
    assert "initial     savepoint then of app old, home /srv" in text
    tables = json.loads(app.describe("json"))["tables"]
    assert tables[0]["initial"]["source"]["path"] == "archive/*.parquet"
    assert tables[1]["initial"]["until"] == "2026-01-01T00:00:00+00:00"
    assert tables[2]["initial"]["savepoint"] == "then"


@pytest.mark.parametrize("until", ["yesterday", "2026-01-01", 5, datetime(2026, 1, 1)])
def test_until_is_a_time_with_its_offset(until: Any) -> None:
    with pytest.raises(BadOption, match="until must be a time with its offset from UTC"):
        kf.initial(archive(), until=until)


def test_until_takes_a_datetime_of_any_zone() -> None:
    given = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert kf.initial(archive(), until=given).until == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_source_that_never_ends_has_no_initial_rows() -> None:
    by = orders(kf.App("shop")).by("id")
    with pytest.raises(BadOption, match="initial rows are those of files"):
        by.table("a", n="count(*)", initial=kf.rate())
    with pytest.raises(BadOption, match="initial takes files or a savepoint"):
        by.table("b", n="count(*)", initial="archive")  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="`initial` is an option of table, not a column"):
        by.table("c", n="count(*)", initial="first(id)")  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="the name of a savepoint must be a string"):
        kf.savepoint(3)  # type: ignore[arg-type]


def test_tables_that_have_more_than_one_stream_are_refused_with_the_reason() -> None:
    app = kf.App("shop")
    first, second = orders(app), orders(app, "returns")
    with pytest.raises(BadOption, match=r"reads several streams \(orders, returns\)"):
        first.union(second).by("id").table("both", n="count(*)", initial=archive())
    known = first.by("id").table("known", n="count(*)")
    with pytest.raises(BadOption, match="reads the table known"):
        known.changes().by("id").table("sizes", n="count(*)", initial=archive())
    with pytest.raises(BadOption, match="latency='realtime' reads a topic alone"):
        first.by("id").table("fast", n="count(*)", latency="realtime", initial=archive())


def test_a_stream_whose_messages_delete_rows_cannot_begin_with_files() -> None:
    topic = kf.kafka("localhost:9092", topic="orders", metadata=["key"], tombstones="delete")
    stream = kf.App("shop").stream("orders", topic, schema="id string")
    with pytest.raises(BadOption, match="messages of stream orders delete rows"):
        stream.by("kafka_key").latest().table("known", id="id", initial=archive())


def test_until_needs_event_time() -> None:
    by = orders(kf.App("shop"), time=None).by("id")
    by.table("whole", n="count(*)", initial=archive())
    with pytest.raises(BadOption, match="until needs event time, and stream orders has none"):
        by.table("part", n="count(*)", initial=kf.initial(archive(), until="2026-01-01T00:00:00Z"))


def test_patterns_and_processors_take_it_too() -> None:
    app = kf.App("shop")
    by = orders(app).by("id")
    by.pattern("pairs", kf.step("a") >> kf.step("b"), within="1 hour", initial=archive())

    class Nothing:
        def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:
            return iter(())

    by.process("own", Nothing, output="id string", initial=archive())
    by.process("spark", Nothing, output="id string", initial=lambda spark: spark.range(1))
    assert [table.initial is not None for table in app.spec().tables] == [True, True, False]
