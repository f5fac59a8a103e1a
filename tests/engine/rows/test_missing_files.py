"""Files that a batch was planned with are read, or missed by name, or left out on the record."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keyfold as kf
from keyfold.engine import start
from keyfold.errors import HomeUnusable, QueryFailed
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm


def counting(inbox: Path, home: Path, schema: str = "k string", **settings: Any) -> start.Handle:
    app = kf.App("shop")
    source = kf.files(inbox, format="parquet" if any(inbox.glob("*.parquet")) else "json")
    app.stream("rows", source, schema=schema).by("k").table("counts", n="count(*)")
    return start.start(app.spec(), spark=shared_session(), home=home, settings=settings)


def counts(handle: start.Handle) -> dict[str, int]:
    handle.drain()
    return {row["k"]: row["n"] for row in handle.table("counts").rows()}


def uncommitted(home: Path) -> None:
    (home / "shop" / "tables" / "counts" / "checkpoint" / "commits" / "0").unlink()


def packed(file: Path, *keys: str) -> None:
    file.write_bytes(gzip.compress("".join(f'{{"k": "{k}"}}\n' for k in keys).encode()))


def test_a_planned_file_that_is_gone_is_missed_by_name_until_it_is_back(tmp_path: Path) -> None:
    inbox, home, away = tmp_path / "in", tmp_path / "home", tmp_path / "away"
    inbox.mkdir()
    for number in range(3):
        packed(inbox / f"{number}.json.gz", "a")
    with counting(inbox, home) as handle:
        assert counts(handle) == {"a": 3}
    # What was read may go.
    (inbox / "0.json.gz").rename(away)
    with counting(inbox, home) as handle:
        assert counts(handle) == {"a": 3}
    # What is to be read again may not.
    uncommitted(home)
    with counting(inbox, home) as handle, pytest.raises(QueryFailed, match=r"0\.json\.gz") as stopped:
        handle.drain()
    assert "missing_files=skip" in str(stopped.value)
    assert "1.json.gz" not in str(stopped.value)
    # Nor can it be left out: the view and other tables already count it.
    with pytest.raises(HomeUnusable, match=r"already in the view") as refused:
        counting(inbox, home, missing_files="skip")
    assert "0.json.gz" in str(refused.value)
    away.rename(inbox / "0.json.gz")
    with counting(inbox, home) as handle:
        assert counts(handle) == {"a": 3}


def test_a_bad_file_is_named_and_may_be_replaced_or_left_out(tmp_path: Path) -> None:
    inbox, home = tmp_path / "in", tmp_path / "home"
    inbox.mkdir()
    packed(inbox / "good.json.gz", "a")
    packed(inbox / "bad.json.gz", *(["b"] * 1000))
    whole = (inbox / "bad.json.gz").read_bytes()
    for content in (b"no gzip at all", whole[:30]):
        (inbox / "bad.json.gz").write_bytes(content)
        with counting(inbox, home) as handle, pytest.raises(QueryFailed, match=r"bad\.json\.gz") as stopped:
            handle.drain()
        assert "replace" in str(stopped.value)
        assert "good.json.gz" not in str(stopped.value)
    (inbox / "bad.json.gz").unlink()
    with counting(inbox, home) as handle, pytest.raises(QueryFailed, match=r"bad\.json\.gz"):
        handle.drain()
    with counting(inbox, home, missing_files="skip") as handle:
        assert counts(handle) == {"a": 1}
        (left,) = handle.rejected("rows")
        assert (left["reason"], left["raw"]) == ("the file is missing", str(inbox / "bad.json.gz"))
    # Now it stays out: it was said to be.
    (inbox / "bad.json.gz").write_bytes(whole)
    packed(inbox / "more.json.gz", "a")
    uncommitted(home)
    with counting(inbox, home) as handle:
        assert counts(handle) == {"a": 2}
        assert len(handle.rejected("rows")) == 1


def test_a_bad_parquet_file_is_named_whatever_the_session_says_of_bad_files(tmp_path: Path) -> None:
    inbox, home = tmp_path / "in", tmp_path / "home"
    inbox.mkdir()
    pq.write_table(pa.table({"k": ["a"]}), inbox / "good.parquet")
    (inbox / "bad.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    spark, names = shared_session(), ("ignoreCorruptFiles", "ignoreMissingFiles")
    try:
        for name in names:
            spark.conf.set(f"spark.sql.files.{name}", "true")
        with counting(inbox, home) as handle, pytest.raises(QueryFailed, match=r"bad\.parquet") as stopped:
            handle.drain()
        assert "replace" in str(stopped.value)
        (inbox / "bad.parquet").unlink()
        with counting(inbox, home) as handle, pytest.raises(QueryFailed, match=r"bad\.parquet"):
            handle.drain()
    finally:
        for name in names:
            spark.conf.unset(f"spark.sql.files.{name}")
    pq.write_table(pa.table({"k": ["b"]}), inbox / "bad.parquet")
    with counting(inbox, home) as handle:
        assert counts(handle) == {"a": 1, "b": 1}


def test_directories_named_like_columns_fill_those_that_are_declared_and_no_others(tmp_path: Path) -> None:
    inbox, home = tmp_path / "in", tmp_path / "home"
    inbox.mkdir()
    (inbox / "0.json").write_text('{"k": "a", "n": 1}\n')

    def put(name: str, text: str) -> None:
        (inbox / name).parent.mkdir(parents=True, exist_ok=True)
        (inbox / name).write_text(text + "\n")

    app = kf.App("shop")
    rows = app.stream("rows", kf.files(inbox), schema="k string, day int, n int")
    rows.by("k", "day").table("sums", n="sum(n)")
    plain = app.stream("plain", kf.files(inbox), schema="k string, n int")
    plain.by("k").table("all", n="sum(n)")

    def sums() -> tuple[list[Any], list[Any]]:
        with start.start(app.spec(), spark=shared_session(), home=home) as handle:
            handle.drain()
            by_day = sorted((r["k"], r["day"] or 0, r["n"]) for r in handle.table("sums").rows())
            return by_day, [(r["k"], r["n"]) for r in handle.table("all").rows()]

    put("day=1/1.json", '{"k": "a", "n": 10}')
    by_day, everything = sums()
    assert by_day == [("a", 1, 10)], "the row without a day has a null key"
    assert everything == [("a", 11)]
    put("day=2/of=x/2.json", '{"k": "a", "n": 100}')
    put("3.json", '{"k": "a", "day": 3, "n": 1000}')
    by_day, everything = sums()
    assert by_day == [("a", 1, 10), ("a", 2, 100), ("a", 3, 1000)]
    assert everything == [("a", 1111)]


def test_columns_of_directories_are_not_looked_for_in_the_header_of_a_csv_file(tmp_path: Path) -> None:
    inbox = tmp_path / "n=0" / "in"
    (inbox / "Day=1").mkdir(parents=True)
    (inbox / "Day=1" / "1.csv").write_text("k,n\na,1\n")
    (inbox / "2.csv").write_text("k,day,n\na,2,10\n")
    app = kf.App("shop")
    rows = app.stream("rows", kf.files(inbox, format="csv"), schema="k string, day int, n int")
    rows.by("k", "day").table("sums", n="sum(n)")
    with start.start(app.spec(), spark=shared_session(), home=tmp_path / "home") as handle:
        handle.drain()
        assert sorted((r["day"], r["n"]) for r in handle.table("sums").rows()) == [(1, 1), (2, 10)]
        assert handle.rejected("rows") == []
