"""Files cut off, without columns or with others: what can be read is, the rest is kept or waited for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keyfold as kf
from keyfold.engine import start
from keyfold.engine.storage.layout import local_app_home
from keyfold.errors import QueryFailed
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm

SCHEMA = "id string, region string, amount double"


def started(app: kf.App, home: Path) -> start.Handle:
    return start.start(app.spec(), spark=shared_session(), home=home)


def counting(source: kf.Source | object) -> kf.App:
    app = kf.App("shop")
    orders = app.stream("orders", source, schema=SCHEMA)  # type: ignore[arg-type]
    orders.by("region").table("totals", n="count(*)", total="sum(amount)")
    return app


def totals(handle: start.Handle) -> list[tuple[str, int, float]]:
    return [(r["region"], r["n"], r["total"]) for r in handle.table("totals").rows()]


def test_json_that_is_cut_off_or_of_another_shape_is_kept_line_by_line(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    lines = [
        '{"id": "1", "region": "eu", "amount": 1}',
        '{"id": "2", "region": "eu", "amount": "much"}',
        '{"id": 3, "region": "eu", "amount": 2.5, "more": [1]}',
        "",
        "42",
        '{"id": "4", "region": "eu", "amou',
    ]
    (inbox / "1.json").write_text("\n".join(lines))
    with started(counting(kf.files(inbox)), tmp_path / "home") as handle:
        handle.drain()
        assert totals(handle) == [("eu", 2, 3.5)]
        found = handle.rejected("orders")
        assert {r["line"]: r["raw"] for r in found} == {2: lines[1], 5: lines[4], 6: lines[5]}
        assert {r["file"] for r in found} == {str(inbox / "1.json")}
        reasons = {r["line"]: r["reason"] for r in found}
        assert reasons[2] == 'does not parse: column amount: "much" is not a valid double'
        assert reasons[5] == reasons[6] == "does not parse"
        causes = {r["line"]: r.get("cause", "") for r in found}
        assert (causes[2], causes[5]) == ("", "not a JSON object: 42")
        assert re.fullmatch(r"malformed JSON: Unexpected end-of-input.* at character \d+", causes[6])


def test_csv_with_missing_or_more_columns_and_with_another_header(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    good = "id,region,amount\n1,eu,1\n"
    (inbox / "good.csv").write_text(good + "2,eu\n3,eu,2,extra\n\n4,eu,many\n5,us,2\n")
    (inbox / "swapped.csv").write_text("region,id,amount\neu,6,4\nus,7,8\n")
    (inbox / "short.csv").write_text("id,region\n8,eu\n")
    (inbox / "Case.csv").write_text(" ID , Region,AMOUNT\n9,us,16\n")
    with started(counting(kf.files(inbox, format="csv")), tmp_path / "home") as handle:
        handle.drain()
        assert totals(handle) == [("eu", 1, 1.0), ("us", 2, 18.0)]
        found = [r for r in handle.rejected("orders") if r["file"] == str(inbox / "good.csv")]
        assert sorted((r["line"], r["raw"], r["reason"]) for r in found) == [
            (3, "2,eu", "does not parse: 2 columns, the schema has 3"),
            (4, "3,eu,2,extra", "does not parse: 4 columns, the schema has 3"),
            (6, "4,eu,many", 'does not parse: column amount: "many" is not a valid double'),
        ]
        assert len(handle.rejected("orders")) == 5

    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "1.csv").write_text("1;eu;1\n2;eu;2\n")
    source = kf.files(bare, format="csv", header=False, sep=";")
    with started(counting(source), tmp_path / "other") as handle:
        handle.drain()
        assert totals(handle) == [("eu", 2, 3.0)]
        assert handle.rejected("orders") == []


def test_a_file_whose_header_is_wrong_is_rejected_once_however_it_is_read(tmp_path: Path) -> None:
    """In several partitions, in a batch that runs again, and with a single line, which Spark takes for it."""
    inbox, home = tmp_path / "in", tmp_path / "home"
    inbox.mkdir()
    lines = [f"{n},eu,{n}" for n in range(5000)]
    (inbox / "bare.csv").write_text("\n".join(lines) + "\n")
    (inbox / "one.csv").write_text("1,eu,5")
    (inbox / "empty.csv").write_text("")
    (inbox / "named.csv").write_text("id,region,amount\n")
    good = "".join(["id,region,amount\n", *(f"{n},us,1\n" for n in range(3000)), "late,us,many\n"])
    (inbox / "good.csv").write_text(good)
    app = counting(kf.files(inbox, format="csv"))
    small = {"spark": {"spark.sql.files.maxPartitionBytes": "10000", "spark.sql.files.openCostInBytes": "1"}}

    def check(again: bool) -> None:
        with start.start(app.spec(), spark=shared_session(), home=home, settings=small) as handle:
            handle.drain()
            assert totals(handle) == [("us", 3000, 3000.0)]
            bare, line, one = sorted(handle.rejected("orders"), key=lambda r: r["file"])
            # By its byte where counting lines would mean reading the file from the start.
            assert (line["raw"], line["byte"]) == ("late,us,many", good.index("late"))
            assert bare["reason"] == (
                "the header of bare.csv is 0,eu,0, but the schema has id,region,amount: the whole file is "
                "rejected; if it has no header, set header=False"
            )
            assert (bare["file"], bare["rows"]) == (str(inbox / "bare.csv"), 4999)
            assert bare["raw"] == "\n".join(lines[:5])
            assert (one["file"], one["rows"], one["raw"]) == (str(inbox / "one.csv"), 0, "1,eu,5")
            table = handle.status()["tables"]["totals"]
            assert table["rejected"] == 3
            assert not table["all_rejected"]
            assert table["rejecting"] is None, "rows of other files of the batch were folded"

    check(again=False)
    local_app_home(home, "shop").table("totals").spark.uncommit_last()
    check(again=True)


def test_a_wrong_header_moves_no_time_closes_no_window_and_stops_a_strict_table(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    (inbox / "bare.csv").write_text("a,2026-01-01T09:00:00Z\nb,2026-01-01T09:00:01Z\n")
    (inbox / "good.csv").write_text("k,at\na,2026-01-01T08:00:00Z\n,2026-01-01T08:00:01Z\n")

    def app(name: str, **options: Any) -> kf.App:
        app = kf.App(name)
        source = kf.files(inbox, format="csv")
        rows = app.stream("rows", source, schema="k string, at timestamp", time="at")
        rows.by("k").tumbling("1 minute").table("t", n="count(*)", **options)
        return app

    with started(app("lenient", keep="1 hour", idle="1 hour"), tmp_path / "home") as handle:
        handle.drain()
        assert [(r["k"], r["n"]) for r in handle.table("t").rows()] == [("a", 1)]
        found = sorted(handle.rejected("rows"), key=lambda r: r["file"])
        assert [(r["file"], r.get("rows")) for r in found] == [
            (str(inbox / "bare.csv"), 1),
            (str(inbox / "good.csv"), None),
        ]
        assert found[1]["reason"] == "key k is null"
        watermark = handle.status()["tables"]["t"]["watermark"]
        assert watermark.isoformat() == "2026-01-01T08:00:01+00:00"
    (inbox / "good.csv").unlink()
    strict = started(app("strict", on_error="fail"), tmp_path / "home")
    with strict, pytest.raises(QueryFailed, match=r"header of bare\.csv is a,2026.*set header=False"):
        strict.drain()


def test_a_half_written_parquet_file_stops_the_query_by_name_until_it_is_whole(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    schema = pa.schema([("id", pa.string()), ("region", pa.string()), ("amount", pa.float64())])
    rows = [{"id": str(n), "region": "eu", "amount": 1.0} for n in range(1000)]
    pq.write_table(pa.Table.from_pylist(rows, schema), inbox / "0-good.parquet")
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "whole.parquet")
    # Without a column: its values are null.
    lacking = pa.table({"region": ["eu"]})
    pq.write_table(lacking, inbox / "1-lacking.parquet")
    app = counting(kf.files(inbox, format="parquet"))
    with started(app, tmp_path / "home") as handle:
        handle.drain()
        assert totals(handle) == [("eu", 1001, 1000.0)]
        content = (tmp_path / "whole.parquet").read_bytes()
        (inbox / "2-half.parquet").write_bytes(content[: len(content) // 2])
        pq.write_table(lacking, inbox / "3-good.parquet")
        with pytest.raises(QueryFailed) as stopped:
            handle.drain()
        assert "2-half.parquet" in str(stopped.value)
        assert "replace it with a readable file of the same name" in str(stopped.value)
        assert "org.apache" not in str(stopped.value)
        assert stopped.value.table == "totals"
        assert totals(handle) == [("eu", 1001, 1000.0)]

    # Still half: stops again, at the same batch.
    with started(app, tmp_path / "home") as handle:
        with pytest.raises(QueryFailed) as again:
            handle.drain()
        assert again.value.batch == stopped.value.batch

    (inbox / "2-half.parquet").write_bytes(content)
    with started(app, tmp_path / "home") as handle:
        handle.drain()
        assert totals(handle) == [("eu", 2002, 2000.0)]
        assert handle.rejected("orders") == []


def test_rows_of_another_type_in_parquet_stop_by_name_and_lose_nothing(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    other = pa.table({"id": ["1"], "region": ["eu"], "amount": ["text"]})
    pq.write_table(other, inbox / "text.parquet")
    app = counting(kf.files(inbox, format="parquet"))
    with started(app, tmp_path / "home") as handle:
        with pytest.raises(QueryFailed, match=r"text\.parquet") as stopped:
            handle.drain()
        assert "amount" in str(stopped.value)
    pq.write_table(pa.table({"id": ["1"], "region": ["eu"], "amount": [1.0]}), inbox / "text.parquet")
    with started(app, tmp_path / "home") as handle:
        handle.drain()
        assert totals(handle) == [("eu", 1, 1.0)]


def test_csv_bytes_that_are_no_text_are_rejected_and_make_no_key(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_bytes(b"k,x\ncaf\xe9,1\ncaf\xe8,2\ncaf\xc3\xa9,3\n")
    app = kf.App("bytes")
    rows = app.stream("rows", kf.files(tmp_path / "in", format="csv"), schema="k string, x int")
    rows.by("k").table("t", total="sum(x)")
    with start.start(app.spec(), spark=shared_session(), home=tmp_path / "home") as handle:
        handle.drain()
        assert [(r["k"], r["total"]) for r in handle.table("t").rows()] == [("café", 3)]
        reasons = [r["reason"] for r in handle.rejected("rows")]
        assert reasons == ["bytes that are invalid in the file's encoding"] * 2


def test_relative_paths_are_meant_from_where_python_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = shared_session()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"k": "a"}\n')
    monkeypatch.chdir(tmp_path)
    app = kf.App("relative")
    app.stream("rows", kf.files("in"), schema="k string").by("k").table("t", n="count(*)")
    with start.start(app.spec(), spark=spark, home="home") as handle:
        handle.drain()
        assert handle.table("t").get("a")["n"] == 1
