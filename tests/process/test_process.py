"""Tables that a PySpark StatefulProcessor fills: keyfold's way of a row around logic of the user's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import keyfold as kf
from keyfold.engine.compile.table import compile_app
from keyfold.errors import BadOption, DeclarationError, HomeUnusable, QueryFailed, StateMismatch
from keyfold.testing import Driver, drive, shared_session
from tests.log_files import empty_logs

pytestmark = pytest.mark.jvm


class Total(StatefulProcessor):
    """A running total; a row without a number ends it."""

    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        held = self.total.get()
        total = held[0] if held else 0
        for row in rows:
            if row.n is None:
                self.total.clear()
                yield Row(k=key[0], total=total, _op="delete")
                return
            total += row.n
            yield Row(k=key[0], total=total, _op="upsert")
        self.total.update((total,))

    def handleInitialState(self, key: Any, initialState: Row, timerValues: Any) -> None:
        self.total.update((initialState.start,))

    def close(self) -> None:
        pass


class Plain(Total):
    """The same without a word on what becomes of rows."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in super().handleInputRows(key, rows, timerValues):
            yield Row(k=row.k, total=row.total)


class Timer(StatefulProcessor):
    """The newest second of each key; five seconds of event time later the key is gone."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.newest = handle.getValueState("newest", "t long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        held = self.newest.get()
        newest = max([int(r.at.timestamp()) for r in rows] + ([held[0]] if held else []))
        self.newest.update((newest,))
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.handle.registerTimer((newest + 5) * 1000)
        yield Row(k=key[0], t=newest)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        self.newest.clear()
        yield Row(k=key[0], t=-1)

    def close(self) -> None:
        pass


def totals(
    processor: Any = Total, output: str = "k string, total long, _op string", **options: Any
) -> kf.App:
    app = kf.App("shop")
    app.stream("s", kf.rows([]), schema="k string, n long").by("k").process(
        "t", processor, output=output, **options
    )
    return app


def rows(d: Driver, table: str = "t") -> dict[str, Any]:
    return {row["k"]: row["total"] for row in d.rows(table)}


def pairs(*given: tuple[str | None, int | None]) -> list[dict[str, Any]]:
    return [{"k": k, "n": n} for k, n in given]


def timers(late: str = "10 seconds", mode: Any = "update") -> kf.App:
    app = kf.App("clock")
    stream = app.stream("s", kf.rows([]), schema="k string, at timestamp", time="at", late=late)
    stream.by("k").process("t", Timer, output="k string, t long", mode=mode)
    return app


def seconds(*given: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"k": k, "at": f"1970-01-01T00:{at // 60:02d}:{at % 60:02d}Z"} for k, at in given]


def told(d: Driver) -> list[tuple[str, int]]:
    return sorted((c["k"], c["t"]) for c in d.changes("t"))


def test_timers_of_event_time_fire_when_the_watermark_has_passed_them() -> None:
    """S17: with ten seconds of lateness the timer of a@15 is due when the watermark is 20 or later.

    Once as it is, and once, forty seconds later and of other keys, with an interruption after each batch; by
    then the timer of b is due too.
    """
    rounds = [("a", "b", 0, [], [""] * 4), ("c", "d", 40, [("b", -1)], ["crash", "restart"] * 2)]
    with drive(timers()) as d:
        for one, other, later, due, interruptions in rounds:
            steps = [
                ([(one, 11), (one, 13), (one, 15)], [*due, (one, 15 + later)]),
                ([(one, 4)], []),
                ([(one, 10)], [(one, 15 + later)]),
                ([(other, 31)], [(one, -1), (other, 31 + later)]),
            ]
            for (given, expected), interruption in zip(steps, interruptions, strict=True):
                d.push("s", seconds(*((k, t + later) for k, t in given)))
                assert told(d) == expected
                if interruption:
                    getattr(d, interruption)()
                    assert told(d) == []
        found = {r["k"]: r["t"] for r in d.rows("t")}
        assert found == {"a": -1, "b": -1, "c": -1, "d": 71}
        late = [json.loads(r["raw"])["at"] for r in d.late("t")]
        assert late == ["1970-01-01T00:00:04.000000Z", "1970-01-01T00:00:44.000000Z"]


def test_late_rows_are_kept_aside_and_the_processor_does_not_see_them() -> None:
    with drive(timers("0 seconds")) as d:
        d.push("s", seconds(("a", 30)))
        d.push("s", seconds(("a", 29), ("b", 30), ("c", 1)))
        assert {json.loads(r["raw"])["k"] for r in d.late("t")} == {"a", "c"}
        assert {r["k"] for r in d.rows("t")} == {"a", "b"}
        assert d.handle.status()["tables"]["t"]["late"] == 2


def test_rejected_rows_go_past_the_processor_and_are_counted_once() -> None:
    with drive(totals()) as d:
        d.push("s", [*pairs(("a", 1), (None, 2)), "{broken", *pairs(("a", 3))])
        assert rows(d) == {"a": 4}
        found = {r["reason"]: r for r in d.rejected("s")}
        assert found.keys() == {"key k is null", "does not parse"}
        assert found["does not parse"]["raw"] == "{broken"
        status = d.handle.status()["tables"]["t"]
        assert (status["rows"], status["rejected"]) == (4, 2)


def test_deletes_take_rows_from_the_view_and_the_last_row_of_a_batch_stays() -> None:
    with drive(totals()) as d:
        d.push("s", pairs(("a", 1), ("b", 2), ("a", 3)))
        assert rows(d) == {"a": 4, "b": 2}
        d.push("s", pairs(("a", None), ("b", 5)))
        assert rows(d) == {"b": 7}
        assert [(c["_op"], c["k"], c["total"]) for c in d.changes("t") if c["k"] == "a"] == [
            ("upsert", "a", 1),
            ("upsert", "a", 4),
            ("delete", "a", 4),
        ]


def test_rows_of_a_key_come_by_event_time_and_then_by_arrival() -> None:
    class Spelt(StatefulProcessor):
        def init(self, handle: Any) -> None:
            pass

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            yield Row(k=key[0], text="".join(r.x for r in rows))

        def close(self) -> None:
            pass

    app = kf.App("shop")
    stream = app.stream("s", kf.rows([]), schema="k string, x string, at timestamp", time="at")
    stream.by("k").process("t", Spelt, output="k string, text string")
    given = [("c", 3), ("a", 1), ("d", 3), ("b", 2), ("e", 3)]

    def rows_of(key: str, minute: int) -> list[dict[str, Any]]:
        return [{"k": key, "x": x, "at": f"2026-01-01T00:0{minute}:0{t}Z"} for x, t in given]

    with drive(app, views="none") as d:
        d.push("s", rows_of("k", 1))
        assert [(c["k"], c["text"]) for c in d.changes("t")] == [("k", "abcde")]
        # The state gets another number of partitions than the session has for its shuffles.
        d.handle.stop()
        checkpoint = str(d.handle.home.table("t").checkpoint)
        shared_session()._streamingCheckpointManager.repartition(checkpoint, 5)
        d.restart()
        keys = [str(n) for n in range(20)]
        d.push("s", [row for key in keys for row in rows_of(key, 2)])
        assert {c["k"]: c["text"] for c in d.changes("t")} == dict.fromkeys(keys, "abcde")


def test_append_keeps_every_row_once_whatever_happens() -> None:
    with drive(totals(Plain, "k string, total long", mode="append")) as d:
        d.push("s", pairs(("a", 1), ("b", 5), ("a", 2)))
        before = d.rows("t")
        assert [(r["k"], r["total"]) for r in before] == [("a", 1), ("a", 3), ("b", 5)]
        d.crash()
        assert d.rows("t") == before
        d.push("s", pairs(("a", 10)))
        d.crash()
        after = d.rows("t")
        assert [(r["k"], r["total"]) for r in after] == [("a", 1), ("a", 3), ("a", 13), ("b", 5)]
        assert len({(r["k"], r["seq"]) for r in after}) == 4
        changes = [(c["k"], c["seq"], c["total"]) for c in d.changes("t")]
        assert sorted(changes) == [(r["k"], r["seq"], r["total"]) for r in after]


def test_append_keeps_rows_of_timers_after_those_of_rows() -> None:
    with drive(timers("0 seconds", "append")) as d:
        d.push("s", seconds(("a", 10)))
        d.push("s", seconds(("a", 12)))
        d.push("s", seconds(("b", 40)))
        d.crash()
        assert [(r["k"], r["t"]) for r in d.rows("t")] == [("a", 10), ("a", 12), ("a", -1), ("b", 40)]


def test_state_lives_on() -> None:
    with drive(totals(Plain, "k string, total long")) as d:
        d.push("s", pairs(("a", 1), ("b", 1)))
        for n, interruption in enumerate(["restart", "crash", "crash"], 2):
            getattr(d, interruption)()
            d.push("s", pairs(("a", n)))
        assert rows(d) == {"a": 10, "b": 1}


def test_initial_state_is_there_at_the_first_start_and_never_again(tmp_path: Path) -> None:
    asked = []

    def initial(spark: Any) -> Any:
        asked.append(1)
        return spark.createDataFrame([("a", 100), ("z", 7)], "k string, start long")

    with drive(totals(Plain, "k string, total long", initial=initial), home=tmp_path) as d:
        d.push("s", pairs(("a", 1), ("b", 2)))
        d.crash()
        assert rows(d) == {"a": 101, "b": 2}
        d.push("s", pairs(("z", 1)))
        d.restart()
        asked.clear()
        d.restart()
        assert asked == []
        d.push("s", pairs(("a", 1)))
        assert rows(d) == {"a": 102, "b": 2, "z": 8}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda spark: spark.range(1), "key k is string in the stream, missing in the initial state"),
        (
            lambda spark: spark.createDataFrame([(1, 1)], "k long, start long"),
            "k is string in the stream, bigint",
        ),
        (lambda spark: 7, "must return a DataFrame"),
    ],
)
def test_initial_state_that_does_not_fit_is_refused(given: Any, said: str) -> None:
    with pytest.raises(BadOption, match=said), drive(totals(initial=given)):
        pass


def test_keys_may_be_expressions_and_several() -> None:
    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            pass

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            yield Row(first=key[0], even=key[1], n=sum(1 for _ in rows))

        def close(self) -> None:
            pass

    app = kf.App("shop")
    stream = app.stream("s", kf.rows([]), schema="k string, n long")
    keyed = stream.by(first="left(k, 1)", even="n % 2 = 0")
    keyed.process("t", Count, output="n long, even boolean, first string")
    with drive(app) as d:
        d.push("s", pairs(("ax", 1), ("ay", 3), ("b", 2), (None, 1), ("c", None)))
        assert d.rows("t") == [
            {"first": "a", "even": False, "n": 2},
            {"first": "b", "even": True, "n": 1},
        ]
        assert sorted(r["reason"] for r in d.rejected("t")) == ["key even is null", "key first is null"]


class Wrong(Plain):
    """Raises what its rows say."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        what = next(rows).n
        if what == 1:
            raise ValueError("one is a number that I do not like")
        if what == 2:
            yield Row(k="other", total=0)
        elif what == 3:
            yield Row(k=key[0], amount=0)
        else:
            yield Row(k=key[0], total="much")


@pytest.mark.parametrize(
    ("n", "said"),
    [
        (1, "ValueError: one is a number that I do not like"),
        (2, r"a row of key \['other'\] was emitted for key \['a'\]"),
        (3, "columns that are not in output: amount"),
        (4, "much"),
    ],
)
def test_what_the_processor_does_wrong_stops_the_query_with_its_words(n: int, said: str) -> None:
    with drive(totals(Wrong, "k string, total long")) as d, pytest.raises(QueryFailed, match=said):
        d.push("s", pairs(("a", n)))


def test_an_output_of_a_type_that_spark_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="lung") as caught:
        compile_app(shared_session(), totals(output="k string, total lung").spec(), {"s": tmp_path})
    assert "test_process.py:" in str(caught.value)


def test_a_class_that_is_no_processor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="not a StatefulProcessor"):
        compile_app(shared_session(), totals(dict).spec(), {"s": tmp_path})


def test_another_processor_output_or_mode_does_not_go_on_from_old_state(tmp_path: Path) -> None:
    with drive(totals(), home=tmp_path) as d:
        d.push("s", pairs(("a", 1)))
    for other in (totals(Plain), totals(output="k string, total int, _op string")):
        with pytest.raises(StateMismatch), drive(other, home=tmp_path):
            pass
    with drive(totals(), home=tmp_path) as d:
        assert rows(d) == {"a": 1}


def test_a_view_that_was_off_for_a_time_cannot_be_made_again_and_that_is_said(tmp_path: Path) -> None:
    with drive(totals(), home=tmp_path, views="none") as d:
        d.push("s", pairs(("a", 1)))
    empty_logs(tmp_path / "shop")
    with (
        pytest.raises(HomeUnusable, match="only its processor can interpret"),
        drive(totals(), home=tmp_path),
    ):
        pass
    with drive(totals(), home=tmp_path, views="none") as d:
        d.push("s", pairs(("a", 1)))
        assert [c["total"] for c in d.changes("t")][-1] == 2


def test_tables_fold_the_changes_of_a_processors_table() -> None:
    app = kf.App("shop")
    stream = app.stream("s", kf.rows([]), schema="k string, n long")
    table = stream.by("k").process("t", Total, output="k string, total long, _op string")
    table.changes().by(all="'all'").table("sums", n="count(*)", total="sum(total)")
    with drive(app) as d:
        d.push("s", pairs(("a", 1), ("b", 2), ("a", 3)))
        assert d.rows("sums") == [{"all": "all", "n": 2, "total": 6}]
        d.crash()
        d.push("s", pairs(("a", None), ("b", 5)))
        d.crash()
        assert d.rows("sums") == [{"all": "all", "n": 1, "total": 7}]


class Many(StatefulProcessor):
    """A value of many types, made of the newest number."""

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for n in (row.n for row in rows):
            at = datetime(2026, 1, 1, 12, 0, n)
            inner = Row(x=n, at=at)
            yield Row(
                k=key[0], at=at, day=date(2026, 1, n), price=Decimal(n) / 4, all=[inner], by={"n": inner}
            )

    def close(self) -> None:
        pass


def test_what_a_row_was_before_is_exact_whatever_its_types() -> None:
    app = kf.App("types")
    rows = app.stream("rows", kf.rows([]), "k string, n int")
    inner = "struct<x: int, at: timestamp>"
    output = (
        f"k string, at timestamp, day date, price decimal(9, 2), all array<{inner}>, by map<string, {inner}>"
    )
    table = rows.by("k").process("many", Many, output=output)
    # What is retracted from these must be what was added, or nothing would be left of it.
    seen = "concat_ws(' ', at, day, price, all[0].at, all[0].x, by['n'].at)"
    table.changes().by(seen=seen).table("counts", n="count(*)")
    with drive(app) as d:
        for n in (1, 2, 3):
            d.push("rows", [{"k": "a", "n": n}, {"k": "b", "n": n}])
        d.restart()
        d.push("rows", [{"k": "a", "n": 4}])
        found = {r["seen"]: r["n"] for r in d.rows("counts")}
        assert sorted(found.values()) == [1, 1]
        assert {seen.split()[2] for seen in found} == {"2026-01-03", "2026-01-04"}


def test_a_row_that_can_not_be_kept_is_refused_where_it_must_be() -> None:
    app = kf.App("types")
    rows = app.stream("rows", kf.rows([]), "k string, n int")
    table = rows.by("k").process("spans", Many, output="k string, span interval day to second")
    table.changes().by("k").table("counts", n="count(*)")
    with pytest.raises(DeclarationError, match="span can't be kept in state"), drive(app):
        pass


def test_a_query_is_started_again_if_python_does_not_connect_in_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = shared_session().sparkContext
    python, wrapper, tried = context.pythonExec, tmp_path / "python", tmp_path / "tried"
    # Spark waits ten seconds for a process that never says a word, as for one that is too slow.
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *driver_worker*) [ -e {tried} ] || {{ touch {tried}; exit; }};; esac\n'
        f'exec {python} "$@"\n'
    )
    wrapper.chmod(0o755)
    app = kf.App("slow")
    rows = app.stream("rows", kf.rows([]), "k string, n long")
    rows.by("k").process("totals", Plain, output="k string, total long")
    context.pythonExec = str(wrapper)
    try:
        with drive(app) as d:
            d.push("rows", [{"k": "a", "n": 1}, {"k": "a", "n": 2}])
            assert [(r["k"], r["total"]) for r in d.rows("totals")] == [("a", 3)]
            assert "slow.totals: Python took more than ten seconds to start" in caplog.text
            d.push("rows", [{"k": "a", "n": 4}])
            assert [(r["k"], r["total"]) for r in d.rows("totals")] == [("a", 7)]
            assert d.handle.status()["tables"]["totals"]["running"]
    finally:
        context.pythonExec = python
