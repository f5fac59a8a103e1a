"""Whole rows per key: the newest, and the first ones in an order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import Driver, drive
from tests.log_files import empty_logs

pytestmark = pytest.mark.jvm

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SCHEMA = "k string, x int, s string, t timestamp"


def app_of(name: str, **options: Any) -> tuple[kf.App, Any]:
    app = kf.App(name)
    return app, app.stream("rows", kf.rows([]), schema=SCHEMA, time="t", **options)


def push(d: Driver, *rows: tuple[str, int | None, str | None, float]) -> None:
    """Rows (key, x, s, time in seconds) as one batch."""
    d.push("rows", [{"k": k, "x": x, "s": s, "t": ZERO + t * SECOND} for k, x, s, t in rows])


def view(d: Driver, table: str, *columns: str) -> dict[str, Any]:
    """The rows of each key by rank; of a table without ranks the only one."""
    found: dict[str, Any] = {}
    for r in d.rows(table):
        shown = tuple(r[c] for c in columns)
        if "rank" in r:
            found.setdefault(r["k"], []).append(shown)
            assert r["rank"] == len(found[r["k"]])
        else:
            found[r["k"]] = shown
    return found


def changes(d: Driver, table: str, *columns: str) -> list[tuple[Any, ...]]:
    shown = ("_op", "k", "rank", *columns)
    return sorted(tuple(c[n] for n in shown if n in c) for c in d.changes(table))


def test_the_newest_row_of_a_key_is_by_time_and_then_by_arrival() -> None:
    app, rows = app_of("newest")
    plain = app.stream("plain", kf.rows([]), schema="k string, x int")
    rows.by("k").latest().table("whole")
    rows.by("k").latest().table("parts", double="x * 2", s="s")
    rows.where("x is not null").by(k="upper(k)").latest().table("spelled")
    plain.by("k").latest().table("arrived")
    with drive(app) as d:
        # Of equal times the one that came last counts, also if it is in the same batch.
        push(d, ("a", 1, "p", 5), ("a", 2, "q", 5), ("a", 3, "r", 4), ("b", None, None, 1))
        assert list(d.rows("whole")[0]) == ["k", "x", "s", "t"]
        assert view(d, "whole", "x", "s") == {"a": (2, "q"), "b": (None, None)}
        assert d.rows("whole")[0]["t"] == ZERO + 5 * SECOND
        assert view(d, "parts", "double", "s") == {"a": (4, "q"), "b": (None, None)}
        assert view(d, "spelled", "k", "s") == {"A": ("A", "q")}
        d.changes("whole")
        d.crash()
        push(d, ("a", 9, "old", 4.999))
        assert view(d, "whole", "x") == {"a": (2,), "b": (None,)}
        assert d.late("whole") == [], "nothing is too late to be older"
        push(d, ("a", None, None, 5), ("b", 7, None, 0))
        assert view(d, "whole", "x", "s") == {"a": (None, None), "b": (None, None)}, "nulls count as well"
        push(d, ("a", 8, "z", 6), ("a", 9, "y", 5.5))
        assert view(d, "whole", "x", "s") == {"a": (8, "z"), "b": (None, None)}
        for batch in ([("a", 1), ("b", 1), ("a", 2)], [("b", 3)]):
            d.push("plain", [{"k": k, "x": x} for k, x in batch])
        assert view(d, "arrived", "x") == {"a": (2,), "b": (3,)}


def test_the_first_rows_of_a_key_have_ranks_and_ties_are_by_time_and_then_by_arrival() -> None:
    app, rows = app_of("first")
    rows.by("k").top(3, by="x desc").table("most")
    rows.by("k").top(2, by="x asc nulls last, s desc").table("least", x="x", s="s")
    rows.by("k").top(2, by="x").table("nulls_first", x="x")
    rows.by("k").top(1, by="length(s) desc, abs(x)").table("longest", name="upper(s)", twice="x + x")
    with drive(app) as d:
        push(
            d,
            ("a", 5, "first", 2),
            ("a", 5, "second", 2),
            ("a", 5, "earlier", 1),
            ("a", 4, "no", 0),
            ("b", None, "n", 0),
        )
        assert list(d.rows("most")[0]) == ["k", "rank", "x", "s", "t"]
        assert view(d, "most", "s") == {"a": [("earlier",), ("first",), ("second",)], "b": [("n",)]}
        assert view(d, "least", "x", "s") == {"a": [(4, "no"), (5, "second")], "b": [(None, "n")]}
        assert view(d, "nulls_first", "x") == {"a": [(4,), (5,)], "b": [(None,)]}
        assert view(d, "longest", "name", "twice") == {"a": [("EARLIER", 10)], "b": [("N", None)]}
        d.changes("most"), d.changes("least")
        # One that is not among the first changes nothing, however late or early it is.
        push(d, ("a", 5, "third", 2), ("a", 4, "none", -100))
        assert changes(d, "most", "s") == []
        # Those behind it move down; the one before it is not repeated.
        push(d, ("a", 5, "between", 1.5))
        assert changes(d, "most", "s") == [("upsert", "a", 2, "between"), ("upsert", "a", 3, "first")]
        d.crash()
        assert view(d, "most", "s")["a"] == [("earlier",), ("between",), ("first",)]
        push(d, ("a", 9, "best", 50), ("b", 1, "known", 51), ("b", None, "m", 52), ("b", None, "late", -7))
        assert view(d, "most", "s") == {
            "a": [("best",), ("earlier",), ("between",)],
            "b": [("known",), ("late",), ("n",)],
        }
        assert view(d, "least", "x", "s")["b"] == [(1, "known"), (None, "n")]
        assert view(d, "nulls_first", "x")["b"] == [(None,), (None,)]
        assert [d.late(t) for t in ("most", "least", "nulls_first", "longest")] == [[]] * 4


def test_ranks_go_when_their_key_is_forgotten() -> None:
    app, rows = app_of("forgotten")
    rows.by("k").top(2, by="x").table("first", x="x", ttl="10 seconds")
    rows.by("k").latest().table("newest", x="x", ttl="10 seconds")
    with drive(app) as d:
        push(d, ("a", 1, None, 0), ("a", 2, None, 1), ("a", 3, None, 4), ("b", 1, None, 0))
        push(d, ("b", 5, None, 9))
        d.advance("rows", ZERO + 13.999 * SECOND)
        assert view(d, "first", "x") == {"a": [(1,), (2,)], "b": [(1,), (5,)]}
        d.changes("first"), d.changes("newest")
        d.advance("rows", ZERO + 14 * SECOND)
        # The row that counted was not among the first.
        assert changes(d, "first", "x") == [("delete", "a", 1, None), ("delete", "a", 2, None)]
        assert changes(d, "newest", "x") == [("delete", "a", None)]
        d.restart()
        push(d, ("a", 7, None, 15), ("b", 6, None, 16))
        assert view(d, "first", "x") == {"a": [(7,)], "b": [(1,), (5,)]}
        assert view(d, "newest", "x") == {"a": (7,), "b": (6,)}
        # Forgotten and begun again in one batch: the old row is deleted all the same.
        push(d, ("c", 1, None, 40), ("c", 2, None, 41))
        assert view(d, "first", "x") == {"c": [(1,), (2,)]}


def test_the_first_rows_of_a_tables_changes_move_up_when_one_leaves() -> None:
    app, rows = app_of("up")
    items = rows.by("s").latest().table("items")
    items.changes().by("k").top(2, by="x desc").table("whole")
    items.changes().by("k").top(2, by="x desc, s").table("names", s="s")
    items.changes().by("k").latest().table("newest", s="s", x="x")
    items.changes().where("x > 1").by("k").top(1, by="x").table("least", s="s", x="x")
    with drive(app) as d:
        push(d, ("a", 1, "p", 0), ("a", 3, "q", 0), ("a", 2, "r", 0), ("b", 3, "s", 0))
        assert list(d.rows("whole")[0]) == ["k", "rank", "s", "x", "t"]
        assert view(d, "names", "s") == {"a": [("q",), ("r",)], "b": [("s",)]}
        assert view(d, "least", "s") == {"a": [("r",)], "b": [("s",)]}
        for table in ("whole", "names"):
            d.changes(table)
        # The first one leaves: both below it move up, one of them from outside.
        push(d, ("b", 4, "q", 1))
        assert changes(d, "names", "s") == [
            ("upsert", "a", 1, "r"),
            ("upsert", "a", 2, "p"),
            ("upsert", "b", 1, "q"),
            ("upsert", "b", 2, "s"),
        ]
        assert view(d, "whole", "s", "x") == {"a": [("r", 2), ("p", 1)], "b": [("q", 4), ("s", 3)]}
        d.crash()
        push(d, ("b", 0, "r", 2))
        assert view(d, "names", "s") == {"a": [("p",)], "b": [("q",), ("s",)]}
        assert [c for c in changes(d, "names", "s") if c[1] == "a"] == [
            ("delete", "a", 2, None),
            ("upsert", "a", 1, "p"),
        ]
        assert view(d, "least", "s", "x") == {"b": [("s", 3)]}
        d.restart()
        push(d, ("c", 1, "p", 3))
        assert view(d, "names", "s") == {"b": [("q",), ("s",)], "c": [("p",)]}
        assert view(d, "newest", "s", "x")["c"] == ("p", 1)
        assert set(view(d, "newest", "s")) == {"b", "c"}
        for table in ("whole", "names", "newest", "least"):
            assert d.rejected(table) == [], table


def test_ranks_are_read_from_the_state_when_there_was_no_view(tmp_path: Path) -> None:
    app, rows = app_of("rebuilt")
    first = rows.by("k").top(2, by="x desc, s").table("first")
    newest = rows.by("k").latest().table("newest", s="s", ttl="1 hour")
    first.changes().by("s").top(1, by="rank").table("places", rank_was="rank", k="k")
    newest.changes().by(one="1").table("all", names="array_sort(collect_list(s))", n="count(*)")
    with drive(app, home=tmp_path, views="none") as d:
        push(d, ("a", 1, "p", 0), ("a", 3, "q", 0), ("a", 2, "r", 0), ("b", 3, "q", 1))
        push(d, ("b", 4, "t", 2))
    empty_logs(tmp_path / "rebuilt")
    with drive(app, home=tmp_path) as d:
        assert view(d, "first", "x", "s") == {"a": [(3, "q"), (2, "r")], "b": [(4, "t"), (3, "q")]}
        assert view(d, "newest", "s") == {"a": ("r",), "b": ("t",)}
        assert [(r["s"], r["rank"], r["rank_was"], r["k"]) for r in d.rows("places")] == [
            ("q", 1, 1, "a"),
            ("r", 1, 2, "a"),
            ("t", 1, 1, "b"),
        ]
        assert [(r["names"], r["n"]) for r in d.rows("all")] == [(["r", "t"], 2)]
        push(d, ("a", 9, "u", 3))
        assert view(d, "first", "x", "s")["a"] == [(9, "u"), (3, "q")]
        assert [(r["s"], r["rank_was"], r["k"]) for r in d.rows("places")] == [
            # Of equal ones the one that came first.
            ("q", 2, "b"),
            ("t", 1, "b"),
            ("u", 1, "a"),
        ]
        assert [(r["names"], r["n"]) for r in d.rows("all")] == [(["t", "u"], 2)]
