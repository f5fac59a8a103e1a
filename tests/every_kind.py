"""An app with tables of every kind, for tests that compare what is stored and shown of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import keyfold as kf

SCHEMA = "id string, k string, s string, x int, at timestamp"


class Processor(StatefulProcessor):
    """Never run."""

    def init(self, handle: Any) -> None:
        """Nothing to prepare."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """No rows."""
        return iter(())

    def close(self) -> None:
        """Nothing to close."""


def every_kind() -> kf.App:
    """Not to be run: its streams have no rows."""
    made = kf.App("kinds")
    rows = made.stream("rows", kf.rows([]), SCHEMA, time="at", late="10 seconds")
    others = made.stream("others", kf.rows([]), SCHEMA, time="at")
    by = rows.by("k")
    fold = kf.fold(zero={"v": "0L"}, update={"v": "state.v + x"}, merge={"v": "state.v + other.v"})
    totals = by.table("totals", n="count(*)", total="sum(x)", f=fold, ttl="1 day", history="7 days")
    made.stream("plain", kf.rows([]), "k string, x int").by("k").table("timeless", m="max(x)")
    by.tumbling("1 minute").table("tumbling", n="count(*)", emit="final", keep="1 day", idle="1 minute")
    by.tumbling("1 day", zone="Europe/Berlin").table("days", n="count(*)")
    by.sliding("1 minute", every="20 seconds", offset="5 seconds").table("sliding", m="avg(x)")
    by.session("30 seconds").table("session", n="count(*)")
    by.session("if(x > 1, interval 1 minute, interval 2 minutes)").table("gaps", n="count(*)", f=fold)
    by.rolling("1 minute").table("rolling", n="count(*)")
    by.rolling("1 hour", every="1 minute").table("panes", m="max(x)")
    by.last(5).table("last", xs="collect_list(x)")
    by.top(3, by="x desc, s").table("top")
    by.top(2, by="x").table("top_named", double="x * 2", s="s", ttl="1 hour")
    latest = by.latest().table("latest")
    by.latest().table("latest_named", x="x", ttl="1 day")
    a, b = kf.step("a", "x < 1", times=2), kf.step("b", "x > a[0].x")
    by.pattern("pattern", a >> b, within="1 minute", returns={"x": "b[0].x"}, ttl="1 day", timeouts=True)
    by.pattern("arrival", a >> b, within="1 hour", skip="next", order="arrival", limit=10)
    by.process("appended", Processor, output="k string, n long", mode="append")
    by.process("updated", Processor, output="k string, n long")
    totals.changes().by(n="n").table("readers", keys="count(*)", most="max(total)")
    rows.enrich(totals, on="k", wait="1 minute").by("s").table("enriched", n="count(n)")
    joined = rows.join(others, on="k", within="1 minute", how="left")
    joined.where("rows_x > 0").select("k", y="rows_x + 1").by("k").table("joined", y="sum(y)")
    rows.distinct("id", within="1 minute").by("k").table("distinct", n="count(*)")
    rows.union(others).by("k").table("united", n="count(*)")
    totals.join_table(latest, "both")
    return made
