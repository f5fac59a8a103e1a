"""Declarations of tables with `latency="realtime"`: what can't run in real-time mode is refused with why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.app.loader import load
from keyfold.engine.realtime import slots
from keyfold.engine.realtime.query import batch_ms
from keyfold.engine.realtime.slots import Need
from keyfold.engine.recovery.query_failure import explain_failure
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption, RunError
from keyfold.plan.validate.latency import check_app

SCHEMA = "region string, amount double, at timestamp"


def orders(app: kf.App, name: str = "orders", **options: Any) -> Any:
    return app.stream(name, kf.kafka("localhost:9092", topic=name, **options), SCHEMA, time="at")


def sink(**options: Any) -> Any:
    return kf.kafka("localhost:9092", **{"topic": "totals", "delivery": "at_least_once", **options})


def fast(keyed: Any, name: str = "totals", **options: Any) -> kf.Table:
    return keyed.table(name, n="count(*)", latency="realtime", **options)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "another source than kf.kafka": lambda app: fast(app.stream("r", kf.rows([]), SCHEMA).by("region")),
    "a stream's own log": lambda app: fast(
        app.stream("s", kf.kafka("localhost:9092", topic="s"), SCHEMA, shared=True).by("region")
    ),
    "a join of streams": lambda app: fast(
        orders(app).join(orders(app, "b"), on="region", within="1 minute").by("region")
    ),
    "a union": lambda app: fast(orders(app).union(orders(app, "b")).by("region")),
    "transform": lambda app: fast(orders(app).transform(lambda frame: frame).by("region")),
    "distinct": lambda app: fast(orders(app).distinct("region", within="1 minute").by("region")),
    "a table of a table's changes": lambda app: fast(
        orders(app).by("region", "amount").table("each", n="count(*)").changes().by("region")
    ),
    "session windows": lambda app: fast(orders(app).by("region").session("1 minute")),
    "rolling windows": lambda app: fast(orders(app).by("region").rolling("1 minute")),
    "last windows": lambda app: fast(orders(app).by("region").last(3)),
    "top and latest": lambda app: orders(app).by("region").latest().table("t", latency="realtime"),
    "the fold 'f'": lambda app: fast(
        orders(app).by("region"), f=kf.fold(zero={"c": "0"}, update={"c": "c + 1"}, result="c")
    ),
    "idle": lambda app: fast(orders(app).by("region").tumbling("1 minute"), idle="1 minute"),
    "keep": lambda app: fast(orders(app).by("region").tumbling("1 minute"), keep="1 minute"),
    "a history topic": lambda app: fast(orders(app).by("region"), history=sink()),
    "option maxOffsetsPerTrigger": lambda app: fast(
        orders(app, options={"maxOffsetsPerTrigger": "10"}).by("region")
    ),
    "a sink with exactly_once": lambda app: fast(orders(app).by("region")).to(sink(delivery="exactly_once")),
    "a sink of files": lambda app: fast(orders(app).by("region")).to(kf.files("out", format="parquet")),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_can_not_run_in_real_time_mode_is_refused(what: str) -> None:
    with pytest.raises(BadOption, match=f"{what}.* can't be in a table with latency='realtime': .{{20}}"):
        REFUSED[what](kf.App("shop"))


def test_another_latency_is_refused() -> None:
    with pytest.raises(BadOption, match="latency"):
        orders(kf.App("shop")).by("region").table("t", n="count(*)", latency="fast")


def test_a_table_is_described_with_its_latency() -> None:
    app = kf.App("shop")
    fast(orders(app).where("amount > 0").select("region", "at").by("region"), ttl="1 hour").to(sink())
    check_app(app.spec())
    assert "latency     realtime" in app.describe()
    assert json.loads(app.describe("json"))["tables"][0]["latency"] == "realtime"


def test_a_table_without_a_sink_is_refused() -> None:
    app = kf.App("shop")
    fast(orders(app).by("region"))
    with pytest.raises(BadOption, match=r"needs a sink.*\n.*shop\.totals"):
        check_app(app.spec())


def test_other_tables_in_the_app_are_refused() -> None:
    app = kf.App("shop")
    stream = orders(app)
    fast(stream.by("region")).to(sink())
    stream.by("region").table("slow", n="count(*)")
    with pytest.raises(BadOption, match="need an app of their own"):
        check_app(app.spec())


def test_the_length_of_a_batch_follows_from_windows_and_ttl() -> None:
    app, own = kf.App("shop"), kf.App("own", every="20 seconds")
    by = orders(app).by("region")
    lengths = {
        "plain": fast(by, "plain"),
        "window": fast(by.tumbling("30 seconds"), "window"),
        "sliding": fast(by.sliding("1 hour", every="40 seconds"), "sliding"),
        "ttl": fast(by, "ttl", ttl="5 seconds"),
    }
    found = {name: batch_ms(app.spec(), table.spec) for name, table in lengths.items()}
    assert found == {"plain": 5_000, "window": 3_000, "sliding": 4_000, "ttl": 2_000}
    assert batch_ms(own.spec(), lengths["window"].spec) == 20_000


def test_too_few_slots_are_an_error_that_says_how_many_are_needed() -> None:
    assert slots.state_partitions({"a": 2}, {}, 8) == {"a": 6}
    assert slots.state_partitions({"a": 2, "b": 1}, {}, 2) == {"a": 1, "b": 1}
    needs = [Need("totals", 3, 2), Need("hourly", 3, 1)]
    slots.check("shop", needs, 9)
    with pytest.raises(RunError, match=r"need 9 task slots at the same time, and there are 8") as error:
        slots.check("shop", needs, 8)
    assert "local[9]" in str(error.value)


def test_slots_that_are_gone_while_the_table_runs_are_explained(tmp_path: Path) -> None:
    text = "[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT] Cannot run the pipelined stage group: it needs 3 slots"
    error = explain_failure(
        "shop", "totals", 3, Exception(f"{text}\nSQLSTATE: 53000"), AppHome(tmp_path / "shop")
    )
    assert "task slots" in error.what
    assert "it needs 3 slots" in str(error.given)


def test_a_file_whose_app_can_not_run_is_refused_by_every_command(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "import keyfold as kf\n"
        "app = kf.App('shop')\n"
        "rows = app.stream('rows', kf.kafka('localhost:9092', topic='rows'), 'k string')\n"
        "rows.by('k').table('totals', n='count(*)', latency='realtime')\n"
    )
    with pytest.raises(BadOption, match="needs a sink"):
        load(str(file))
