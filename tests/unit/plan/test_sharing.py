"""Which streams have a log of their own unless the declaration says so, and that the choice stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.log import shared_streams
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.errors import StateMismatch
from keyfold.plan import sharing
from keyfold.plan.nodes import AppSpec, Connector

SCHEMA = "k string, v double"


def declared(source: Connector, *tables: str, **options: Any) -> AppSpec:
    app = kf.App("shop")
    rows = app.stream("rows", source, schema=SCHEMA, **options)
    for table in tables:
        rows.by("k").table(table, n="count(*)")
    return app.spec()


def shared(spec: AppSpec) -> bool:
    return sharing.is_shared(spec, spec.streams[0])


def decided(home: AppHome, spec: AppSpec, **stored: Any) -> set[str]:
    """The tables that read the log of the stream."""
    found = shared_streams.decide(spec, StoredApp.from_json({"tables": {}, **stored}), home)
    return {table.name for table in spec.tables if found.of(table)}


def begin(home: AppHome, *tables: str) -> None:
    for table in tables:
        offsets = home.path / "tables" / table / "checkpoint" / "offsets"
        offsets.mkdir(parents=True)
        (offsets / "0").write_text("v1\n{}\n")


def recorded(is_shared: bool, *tables: str) -> dict[str, Any]:
    """What app.json has of a stream and of tables that read its log, or the source."""
    entry = {"streams": ["rows"], "shared": ["rows"] if is_shared else []}
    return {"streams": {"rows": {"shared": is_shared}}, "tables": dict.fromkeys(tables, entry)}


@pytest.mark.parametrize(
    "text",
    [
        kf.files("data", format="csv"),
        kf.files("data", format="json"),
        kf.kafka("127.0.0.1:9092", topic="t", format="json"),
    ],
    ids=repr,
)
def test_text_and_messages_that_two_tables_read_are_parsed_once(text: Connector) -> None:
    assert not shared(declared(text, "one"))
    assert shared(declared(text, "one", "two"))
    assert not shared(declared(text, "one", "two", shared=False))
    assert shared(declared(text, "one", shared=True))
    assert shared(declared(text, "one", history="1 day"))


def test_what_need_not_be_parsed_is_read_directly() -> None:
    for source in (kf.files("data", format="parquet"), kf.rows([{"k": "a"}]), kf.spark("delta", path="d")):
        assert not shared(declared(source, "one", "two"))
        assert shared(declared(source, "one", "two", shared=True))


def two_streams(time: str | None, **options: Any) -> tuple[kf.App, Any, Any]:
    """Two streams of text, each of which has two tables of its own."""
    app = kf.App("shop")
    source = kf.files("data", format="json")
    found = []
    for name in ("rows", "other"):
        stream = app.stream(name, source, schema="k string, at timestamp", time=time, **options)
        for table in (f"{name}_one", f"{name}_two"):
            stream.by("k").table(table, n="count(*)")
        found.append(stream)
    return app, *found


def shared_streams_of(app: kf.App) -> list[bool]:
    spec = app.spec()
    return [sharing.is_shared(spec, stream) for stream in spec.streams]


def test_streams_whose_event_times_meet_in_a_table_are_read_in_step() -> None:
    assert shared_streams_of(two_streams("at")[0]) == [True, True]
    joined, rows, other = two_streams("at")
    rows.join(other, on="k", within="1 minute").by("k").table("both", n="count(*)")
    assert shared_streams_of(joined) == [False, False]
    united, rows, other = two_streams("at")
    rows.union(other).by("k").table("both", n="count(*)")
    assert shared_streams_of(united) == [False, False]
    asked, rows, other = two_streams("at", shared=True)
    rows.union(other).by("k").table("both", n="count(*)")
    assert shared_streams_of(asked) == [True, True]
    # Without event time no row is late, however far one stream is ahead.
    timeless, rows, other = two_streams(None)
    rows.union(other).by("k").table("both", n="count(*)")
    assert shared_streams_of(timeless) == [True, True]


def test_a_table_that_follows_another_as_of_event_time_reads_its_stream_too() -> None:
    app, rows, other = two_streams("at")
    names = rows.by("k").latest().table("names", at="at")
    other.enrich(names, on="k", as_of="event").by("k").table("both", n="count(*)")
    assert shared_streams_of(app) == [False, False]
    arrival, rows, other = two_streams("at")
    names = rows.by("k").latest().table("names", at="at")
    other.enrich(names, on="k").by("k").table("both", n="count(*)")
    assert shared_streams_of(arrival) == [True, True]


def test_the_choice_of_the_first_start_stays(tmp_path: Path) -> None:
    text, home = kf.files("data", format="csv"), AppHome(tmp_path / "shop")
    assert decided(home, declared(text, "one")) == set()
    assert decided(home, declared(text, "one", "two")) == {"one", "two"}
    begin(home, "one")
    # A second table on a stream that is read directly.
    direct = recorded(False, "one")
    assert decided(home, declared(text, "one", "two"), **direct) == set()
    with pytest.raises(
        StateMismatch, match=r"shared=True does not match the state: .* read its source; nothing was changed"
    ):
        decided(home, declared(text, "one", "two", shared=True), **direct)
    # A table that is left on a stream with a log, or added to it.
    logged = recorded(True, "one")
    assert decided(home, declared(text, "one"), **logged) == {"one"}
    assert decided(home, declared(text, "one", "three"), **logged) == {"one", "three"}


def test_a_table_that_is_left_out_for_a_while_counts(tmp_path: Path) -> None:
    text, home = kf.files("data", format="csv"), AppHome(tmp_path / "shop")
    begin(home, "gone")
    assert decided(home, declared(text, "one", "two"), **recorded(False, "gone")) == set()
    assert decided(home, declared(text, "one"), **recorded(True, "gone")) == {"one"}
    with pytest.raises(StateMismatch, match=r"keyfold reset shop\.gone"):
        decided(home, declared(text, "one", shared=False), **recorded(True, "gone"))
    # Once it is reset the choice is free again.
    (home.path / "tables/gone/checkpoint/offsets/0").unlink()
    assert decided(home, declared(text, "one", "two"), **recorded(False, "gone")) == {"one", "two"}


def test_tables_in_real_time_mode_read_the_topic_itself(tmp_path: Path) -> None:
    def spec(latency: Any) -> AppSpec:
        app = kf.App("shop")
        rows = app.stream("rows", kf.kafka("127.0.0.1:9092", topic="t"), schema=SCHEMA)
        for name in ("a", "b"):
            rows.by("k").table(name, n="count(*)", latency=latency)
        return app.spec()

    home = AppHome(tmp_path / "shop")
    assert not shared(spec("realtime"))
    assert decided(home, spec("realtime")) == set()
    begin(home, "a", "b")
    assert decided(home, spec(None), **recorded(False, "a", "b")) == set()
    assert decided(home, spec(None), **recorded(True, "a", "b")) == {"a", "b"}
    with pytest.raises(StateMismatch, match="has read the log of stream rows since it began"):
        decided(home, spec("realtime"), **recorded(True, "a", "b"))
