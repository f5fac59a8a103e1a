"""Which runs count as short, from an app's declaration and the files on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

import keyfold as kf
from keyfold.engine.jvm import short_run


def spec_of(source, **options):
    app = kf.App("shop")
    stream = app.stream("orders", source, schema="k string", **options)
    stream.by("k").table("totals", n="count(*)")
    return app.spec()


def sized(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_rows_of_the_declaration_are_little():
    assert short_run.drains_little(spec_of(kf.rows([{"k": "a"}])))


@pytest.mark.parametrize("pattern", ["", "*.csv", "day=*"])
def test_files_count_together_wherever_they_are_below_the_path(tmp_path, pattern):
    sized(tmp_path / "data/one.csv", short_run.MOST_BYTES // 2)
    sized(tmp_path / "data/day=1/two.csv", short_run.MOST_BYTES // 2)
    spec = spec_of(kf.files(str(tmp_path / "data" / pattern), format="csv"))
    assert short_run.drains_little(spec)
    sized(tmp_path / "data/three.csv", short_run.MOST_BYTES)
    sized(tmp_path / "data/day=2/four.csv", short_run.MOST_BYTES)
    assert not short_run.drains_little(spec)


def test_many_small_files_are_not_little(tmp_path):
    for name in "ab":
        sized(tmp_path / name, 1)
    assert short_run.is_small([tmp_path], most_files=2)
    sized(tmp_path / "c", 1)
    assert not short_run.is_small([tmp_path], most_files=2)


def test_a_path_that_is_not_there_is_little(tmp_path):
    assert short_run.is_small([tmp_path / "none"])


@pytest.mark.parametrize(
    "source",
    [
        kf.kafka("localhost:9092", topic="orders", format="json"),
        kf.files("s3a://bucket/orders", format="csv"),
        kf.rate(5),
    ],
)
def test_input_that_cannot_be_measured_is_not_little(source):
    app = kf.App("shop")
    schema = {} if source.kind == "rate" else {"schema": "k string"}
    app.stream("orders", source, **schema)
    assert not short_run.drains_little(app.spec())


def test_lookups_count_too(tmp_path):
    large = sized(tmp_path / "names.csv", short_run.MOST_BYTES + 1)
    app = kf.App("shop")
    names = kf.lookup("names", kf.files(str(large), format="csv"), schema="k string, name string")
    orders = app.stream("orders", kf.rows([{"k": "a"}]), schema="k string")
    orders.enrich(names, on="k").by("name").table("totals", n="count(*)")
    assert not short_run.drains_little(app.spec())


def test_what_tables_begin_with_counts_too(tmp_path):
    large = sized(tmp_path / "old.csv", short_run.MOST_BYTES + 1)
    small = sized(tmp_path / "new.csv", 1)

    def begun_with(initial):
        app = kf.App("shop")
        orders = app.stream("orders", kf.rows([{"k": "a"}]), schema="k string")
        orders.by("k").table("totals", n="count(*)", initial=initial)
        return app.spec()

    assert short_run.drains_little(begun_with(kf.files(str(small), format="csv")))
    assert not short_run.drains_little(begun_with(kf.files(str(large), format="csv")))
    assert not short_run.drains_little(begun_with(kf.savepoint("before")))
