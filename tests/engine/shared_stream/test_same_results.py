"""Tables of a stream with a log have the rows, late rows and order that they have without one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine import start
from keyfold.engine.batch import late_replay
from keyfold.engine.log.retention import count_rows
from keyfold.engine.log.table_log import TableLog
from keyfold.testing import Driver, drive, shared_session

pytestmark = pytest.mark.jvm

SCHEMA = "id bigint, k string, v double, at timestamp"
TEXT = kf.fold(zero={"t": "''"}, update={"t": "concat(state.t, id, ' ')"}, result="state.t")
TABLES = ("sums", "minutes", "order", "latest", "joined", "both", "asof")


def declared(shared: bool | None) -> kf.App:
    app = kf.App("shop")
    source = kf.files("unused", format="json")
    orders = app.stream("orders", source, schema=SCHEMA, time="at", late="30 seconds", shared=shared)
    # Never shared: tables read some streams from a log, and others not.
    other = app.stream("other", source, schema=SCHEMA, time="at", late="30 seconds", shared=False)
    orders.where("v >= 0").by("k").table("sums", n="count(*)", v="sum(v)", bad="sum(1 / (id - 7))")
    minutes = orders.by("k").tumbling("1 minute")
    minutes.table("minutes", n="count(*)", emit="final", keep="1 hour", partitions=3)
    orders.by("k").table("order", t=TEXT)
    names = orders.by("k").latest().table("latest", id="id", v="v")
    orders.distinct("id", within="1 hour").join(other, on="k", within="1 minute").by("k").table(
        "joined", n="count(*)"
    )
    doubled = orders.transform(lambda frame: frame.withColumn("v", frame["v"] * 2))
    doubled.union(other).by("k").table("both", n="count(*)", v="sum(v)")
    other.enrich(names, on="k", as_of="event").by("k").table("asof", ids="collect_list(latest_id)")
    return app


def at(seconds: int) -> str:
    return (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).isoformat()


def row(id: int, k: str | None, v: float, seconds: int) -> dict[str, Any]:
    return {"id": id, "k": k, "v": v, "at": at(seconds)}


def replayed(d: Driver) -> late_replay.Replayed:
    position = d.handle.store.position("minutes")
    assert position is not None
    done = late_replay.replay(d.handle.home.table("minutes"), 3_600_000, position.watermark)
    d.handle.drain()
    return done


def run(d: Driver) -> dict[str, Any]:
    d.push("orders", [row(1, "a", 1, 0), row(2, "a", 2, 0), "{", row(3, None, 3, 1), row(4, "b", -1, 9)])
    d.push("other", [row(1, "a", 10, 5), row(2, "b", 20, 10), "["])
    d.push("orders", [row(5, "a", 4, 70), row(5, "a", 4, 70), row(7, "a", 5, 71), row(8, "c", 7, 200)])
    d.push("other", [row(3, "a", 30, 75), row(4, "a", 40, 201)])
    # Late for its window, and rejected as no time that can be: 200 years ahead.
    d.push("orders", [row(10, "a", 9, 5), row(11, "a", 9, 200 * 366 * 86400)])
    d.crash()
    d.advance("orders", at(1000))
    d.advance("other", at(1000))
    sent = replayed(d)
    rejected = {s: sorted((r["raw"], r["reason"]) for r in d.rejected(s)) for s in ("orders", "other")}
    late = [(r["raw"], r["missed"]) for r in d.late("minutes")]
    return {"rows": {t: d.rows(t) for t in TABLES}, "rejected": rejected, "late": late, "sent": sent}


def test_a_log_changes_no_table_and_has_each_rejected_line_once(tmp_path: Path) -> None:
    with drive(declared(False)) as d:
        direct = run(d)
    with drive(declared(True), home=tmp_path) as d:
        found = run(d)
        home = d.handle.home
        counts = {t: count_rows(TableLog(home.table(t).log_files))["rejected"] for t in ("sums", "order")}
        assert counts == {"sums": 2, "order": 1}, "null keys, and a row on which an expression throws"
        assert count_rows(TableLog(home.stream_home("orders").log_files))["rejected"] == 2
        status = d.handle.status()
        assert status["streams"].keys() == {"orders"}
        assert status["streams"]["orders"]["rejected"] == 2
        assert status["streams"]["orders"]["recorded"] == 10, "one of them only advances event time"
        assert all(table["files_left"] in (0, None) for table in status["tables"].values())
    for table in TABLES:
        assert found["rows"][table] == direct["rows"][table], table
    assert found["rows"]["order"][0]["t"] == "1 2 5 5 7 10 "
    assert found["late"] == direct["late"] != []
    assert found["sent"] == direct["sent"] == late_replay.Replayed(sent=1)
    for stream, line in (("orders", "{"), ("other", "[")):
        rejected = found["rejected"][stream]
        assert [raw for raw, reason in rejected if reason == "does not parse"] == [line]
        assert {reason for _, reason in rejected} == {r for _, r in direct["rejected"][stream]}


def test_rows_arrive_by_file_and_position_whichever_task_read_them(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    numbers = iter(range(100_000))
    # Spark packs large files first, into several tasks, and the smallest wherever there is room.
    for name, rows in (("1", 3), ("2", 40_000), ("3", 5), ("4", 30_000), ("5", 1)):
        lines = (f"{number},a" for _, number in zip(range(rows), numbers, strict=False))
        (inbox / f"{name}.csv").write_text("id,k\n" + "\n".join(lines) + "\n")
    found = []
    for shared in (False, True):
        app = kf.App("files")
        source = kf.files(inbox, format="csv")
        rows = app.stream("rows", source, schema="id bigint, k string", shared=shared)
        rising = {"n": "if(id = state.n + 1, state.n + 1, -9L)"}
        rows.by("k").table("t", n=kf.fold(zero={"n": "-1L"}, update=rising, result="state.n"))
        spark = shared_session()
        before = spark.conf.get("spark.sql.files.maxPartitionBytes")
        spark.conf.set("spark.sql.files.maxPartitionBytes", "100000")
        try:
            with start.start(app.spec(), spark=spark, home=tmp_path / str(shared)) as handle:
                handle.drain()
                found.append(handle.table("t").get("a")["n"])  # type: ignore[index]
                if shared:
                    (manifest,) = handle.hooks["rows"].log.after(-1)
                    assert len(manifest.of_kind("change")) > 4, "several tasks wrote parts, and the driver"
        finally:
            spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))
    assert found == [70_008, 70_008]


def test_a_value_that_does_not_parse_rejects_its_row_though_no_table_reads_it(tmp_path: Path) -> None:
    good, bad = "2026-01-01T00:00:00.5+02:00", "2026-02-30T00:00:00Z"
    texts = {
        "csv": f"k,at\na,{good}\na,{bad}\n",
        "json": f'{{"k": "a", "at": "{good}"}}\n{{"k": "a", "at": "{bad}"}}\n',
    }
    for format, text in texts.items():
        (tmp_path / format).mkdir()
        (tmp_path / format / f"1.{format}").write_text(text)
    for shared in (False, True):
        app = kf.App("unread")
        for format in texts:
            source = kf.files(tmp_path / format, format=format)
            rows = app.stream(f"{format}_rows", source, schema="k string, at timestamp", shared=shared)
            rows.by("k").table(format, n="count(*)")
        with start.start(app.spec(), spark=shared_session(), home=tmp_path / str(shared)) as handle:
            handle.drain()
            for format in texts:
                assert [row["n"] for row in handle.table(format).rows()] == [1]
                (rejected,) = handle.rejected(f"{format}_rows")
                assert rejected["reason"] == f'does not parse: column at: "{bad}" is not a valid timestamp'
