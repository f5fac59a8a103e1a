"""What other engines' test suites settled about windows: cases K, S and F of `shared/oracles/semantics.md`.

Every case is one that Kafka Streams (K), Spark (S) or Flink (F) tests; each docstring says how it was
translated. All times count from the start of 2026. A Kafka case pushes one row per batch, since there time
moves with each record; a push returns when the windows that it made due are closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import Driver, drive

pytestmark = pytest.mark.jvm

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SECOND, MILLISECOND = timedelta(seconds=1), timedelta(milliseconds=1)
G = 300_000
SCHEMA = "k string, v string, t timestamp"


def rows_of(app: kf.App, late: str | int = 0, schema: str = SCHEMA) -> Any:
    return app.stream("rows", kf.rows([]), schema=schema, time="t", late=late)


def push(d: Driver, *found: tuple[Any, int], unit: timedelta = SECOND) -> None:
    """Rows (key, time) or ((key, value), time) as one batch."""
    rows = []
    for key, t in found:
        k, v = key if isinstance(key, tuple) else (key, None)
        rows.append({"k": k, "v": v, "t": ZERO + t * unit})
    d.push("rows", rows)


def shown(row: dict[str, Any], unit: timedelta = SECOND) -> tuple[Any, ...]:
    """(op, if it is a change,) key, start, end, n."""
    op = (row["_op"],) if "_op" in row else ()
    n = () if op == ("delete",) else (row["n"],)
    return *op, row["k"], (row["window_start"] - ZERO) / unit, (row["window_end"] - ZERO) / unit, *n


def view(d: Driver, table: str, unit: timedelta = SECOND) -> list[tuple[Any, ...]]:
    return sorted(shown(r, unit) for r in d.rows(table))


def changes(d: Driver, table: str, unit: timedelta = SECOND) -> list[tuple[Any, ...]]:
    return [shown(c, unit) for c in d.changes(table)]


def late(d: Driver, table: str) -> list[tuple[float, list[tuple[float, float]]]]:
    """Late rows: their time, and the windows they missed."""
    return [
        (
            (r["time"] - ZERO) / SECOND,
            [((w["window_start"] - ZERO) / SECOND, (w["window_end"] - ZERO) / SECOND) for w in r["windows"]],
        )
        for r in d.late(table)
    ]


def words(line: str, t: int) -> Iterable[tuple[str, int]]:
    return ((word, t) for word in line.split())


def test_k1_hopping_windows_and_rows_out_of_order() -> None:
    """K1. Milliseconds are seconds; grace 100 is `late`. Strings that Kafka concatenates are compared as
    multisets, by collect_list and by a fold with merge. Kafka has no window before 0; keyfold has [-5, 5).
    """
    app = kf.App("k1")
    rows = rows_of(app, late="100 seconds")
    concat = kf.fold(
        zero={"s": "'0'"},
        update={"s": "concat(state.s, '+', v)"},
        merge={"s": "concat(state.s, substring(other.s, 2))"},
    )
    hop = rows.by("k").sliding("10 seconds", every="5 seconds")
    hop.table("changes", n="count(*)", items="collect_list(v)", joined=concat)
    hop.table("finals", n="count(*)", emit="final")
    given = "A1@0 B2@1 C3@2 D4@3 A1@4 A1@5 B2@6 D4@7 B2@8 C3@9 A1@10 B2@11 D4@12 B2@13 C3@14 B1@3 B2@2 B3@9"
    expected = {
        ("A", 0): "111",
        ("A", 5): "11",
        ("A", 10): "1",
        ("B", 0): "222123",
        ("B", 5): "22223",
        ("B", 10): "22",
        ("C", 0): "33",
        ("C", 5): "33",
        ("C", 10): "3",
        ("D", 0): "44",
        ("D", 5): "44",
        ("D", 10): "4",
        # What Kafka does not have: the rows before 5.
        ("A", -5): "11",
        ("B", -5): "212",
        ("C", -5): "3",
        ("D", -5): "4",
    }
    steps = {
        "B1@3": {("B", 0): "2221", ("B", -5): "21"},
        "B2@2": {("B", 0): "22212", ("B", -5): "212"},
        "B3@9": {("B", 0): "222123", ("B", 5): "22223"},
    }
    with drive(app) as d:
        emitted: Counter[bool] = Counter()
        for text in given.split():
            pair, t = text.split("@")
            push(d, ((pair[0], pair[1]), int(t)))
            found = d.changes("changes")
            assert {c["_op"] for c in found} == {"upsert"}
            emitted.update(c["window_start"] >= ZERO for c in found)
            if text in steps:
                assert _items(found) == {p: sorted(v) for p, v in steps[text].items()}
        assert emitted == {True: 29, False: 7}
        last = d.rows("changes")
        assert _items(last) == {place: sorted(v) for place, v in expected.items()}
        assert all(r["joined"].startswith("0+") for r in last)
        assert all(sorted(r["joined"][2:].split("+")) == sorted(r["items"]) for r in last)
        assert all(r["window_end"] - r["window_start"] == 10 * SECOND for r in last)
        assert d.rows("finals") == d.changes("finals") == []
        assert d.late("changes") == d.late("finals") == []


def _items(found: list[dict[str, Any]]) -> dict[tuple[str, float], list[str]]:
    return {(r["k"], (r["window_start"] - ZERO) / SECOND): sorted(r["items"]) for r in found}


def tumbling_twice(late: str) -> kf.App:
    app = kf.App("twice")
    two = rows_of(app, late=late).by("k").tumbling("2 seconds")
    two.table("raw", n="count(*)")
    two.table("final", n="count(*)", emit="final")
    return app


def test_k3_updates_and_finals_of_tumbling_windows() -> None:
    """K3. Milliseconds are seconds, grace 1 is `late`; one row per batch. Live tables emit finals too."""
    with drive(tumbling_twice("1 second")) as d:
        for t in (0, 1, 2, 1, 0):
            push(d, ("k1", t))
        assert changes(d, "final") == []
        push(d, ("k1", 5))
        push(d, ("k1", 0))
        raw = changes(d, "raw")
        assert [c[2:] for c in raw if c[0] == "upsert"] == [
            (0, 2, 1),
            (0, 2, 2),
            (2, 4, 1),
            (0, 2, 3),
            (0, 2, 4),
            (4, 6, 1),
        ]
        finals = [("final", "k1", 0, 2, 4), ("final", "k1", 2, 4, 1)]
        assert sorted(c for c in raw if c[0] != "upsert") == finals
        assert sorted(changes(d, "final")) == finals
        assert view(d, "raw") == [("k1", 0, 2, 4), ("k1", 2, 4, 1), ("k1", 4, 6, 1)]
        assert view(d, "final") == [("k1", 0, 2, 4), ("k1", 2, 4, 1)]
        for table in ("raw", "final"):
            assert late(d, table) == [(0, [(0, 2)])]


def test_k4_a_large_jump_closes_all_that_is_open() -> None:
    """K4. Milliseconds are seconds, grace 2 is `late`; one row per batch."""
    with drive(tumbling_twice("2 seconds")) as d:
        for t in (0, 1, 2, 0, 3, 0, 4):
            push(d, ("k1", t))
        assert changes(d, "final") == [("final", "k1", 0, 2, 4)]
        push(d, ("k1", 0))
        assert changes(d, "final") == []
        push(d, ("k1", 30))
        raw = [c for c in changes(d, "raw") if c[0] == "upsert"]
        assert [c[2:] for c in raw] == [
            (0, 2, 1),
            (0, 2, 2),
            (2, 4, 1),
            (0, 2, 3),
            (2, 4, 2),
            (0, 2, 4),
            (4, 6, 1),
            (30, 32, 1),
        ]
        assert sorted(changes(d, "final")) == [("final", "k1", 2, 4, 2), ("final", "k1", 4, 6, 1)]
        assert view(d, "final") == [("k1", 0, 2, 4), ("k1", 2, 4, 2), ("k1", 4, 6, 1)]
        assert late(d, "raw") == late(d, "final") == [(0, [(0, 2)])]


def sessions_of(app: kf.App, gap: str, late: str | int = 0) -> None:
    found = rows_of(app, late=late).by("k").session(gap)
    found.table("raw", n="count(*)")
    found.table("final", n="count(*)", emit="final")


def test_k9_a_row_between_two_sessions_makes_them_one() -> None:
    """K9. Kafka's [first, last] is [first, last + gap); `late` is the gap, so that the first one is open."""
    app = kf.App("k9")
    sessions_of(app, "5 minutes", "5 minutes")
    with drive(app) as d:
        push(d, ("mel", 0), unit=MILLISECOND)
        push(d, ("mel", G + 1), unit=MILLISECOND)
        apart = [("mel", 0, G, 1), ("mel", G + 1, 2 * G + 1, 1)]
        assert view(d, "raw", MILLISECOND) == apart
        d.changes("raw")
        push(d, ("mel", G // 2), unit=MILLISECOND)
        assert view(d, "raw", MILLISECOND) == [("mel", 0, 2 * G + 1, 3)]
        assert sorted(changes(d, "raw", MILLISECOND)) == [
            *(("delete", *row[:-1]) for row in apart),
            ("upsert", "mel", 0, 2 * G + 1, 3),
        ]
        assert d.changes("final") == []


def test_k11_sessions_of_several_keys() -> None:
    """K11. Bounds as in K9; no grace, one row per batch. What Kafka emits as final is closed here too."""
    app = kf.App("k11")
    sessions_of(app, "5 minutes")
    half = G + 1 + G // 2
    given = [("a", 0), ("b", 0), ("c", 0), ("d", 0), ("d", G // 2)]
    given += [("a", G + 1), ("b", G + 1), ("a", half), ("c", half)]
    with drive(app) as d:
        for row in given:
            push(d, row, unit=MILLISECOND)
        finals = [("a", 0, G, 1), ("b", 0, G, 1), ("c", 0, G, 1), ("d", 0, G // 2 + G, 2)]
        still_open = [("a", G + 1, half + G, 2), ("b", G + 1, 2 * G + 1, 1), ("c", half, half + G, 1)]
        assert view(d, "raw", MILLISECOND) == sorted(finals + still_open)
        assert view(d, "final", MILLISECOND) == finals
        assert sorted(changes(d, "final", MILLISECOND)) == [("final", *row) for row in finals]
        assert d.late("raw") == d.late("final") == []


def test_k12_new_bounds_retract_the_old_ones() -> None:
    """K12. Kafka's tombstone is a delete; bounds as in K9."""
    app = kf.App("k12")
    sessions_of(app, "5 minutes")
    with drive(app) as d:
        push(d, ("a", 0), unit=MILLISECOND)
        assert changes(d, "raw", MILLISECOND) == [("upsert", "a", 0, G, 1)]
        push(d, ("a", 5), unit=MILLISECOND)
        assert changes(d, "raw", MILLISECOND) == [("delete", "a", 0, G), ("upsert", "a", 0, G + 5, 2)]
        assert view(d, "raw", MILLISECOND) == [("a", 0, G + 5, 2)]
        # Kafka retracts here too; bounds that stay are overwritten, which readers of a view can't tell apart.
        push(d, ("a", 3), unit=MILLISECOND)
        assert changes(d, "raw", MILLISECOND) == [("upsert", "a", 0, G + 5, 3)]


def test_k13_finals_of_sessions() -> None:
    """K13. Milliseconds are seconds; bounds [first, last + 5). Where Kafka retracts a row and sends it again
    with the same bounds, keyfold sends it once.
    """
    app = kf.App("k13")
    sessions_of(app, "5 seconds")
    with drive(app) as d:
        push(d, ("k1", 0))
        push(d, ("k1", 5))
        push(d, ("k1", 1))
        assert changes(d, "raw") == [
            ("upsert", "k1", 0, 5, 1),
            ("delete", "k1", 0, 5),
            ("upsert", "k1", 0, 10, 2),
            ("upsert", "k1", 0, 10, 3),
        ]
        assert changes(d, "final") == []
        push(d, ("k2", 11))
        push(d, ("k1", 5))
        push(d, ("k1", 30))
        assert changes(d, "raw") == [
            ("upsert", "k2", 11, 16, 1),
            ("final", "k1", 0, 10, 3),
            ("upsert", "k1", 30, 35, 1),
            ("final", "k2", 11, 16, 1),
        ]
        assert changes(d, "final") == [("final", "k1", 0, 10, 3), ("final", "k2", 11, 16, 1)]
        assert view(d, "final") == [("k1", 0, 10, 3), ("k2", 11, 16, 1)]
        assert late(d, "raw") == late(d, "final") == [(5, [(5, 10)])]


FIRST = [
    ("hello", 40, 51, 2),
    ("spark", 40, 50, 1),
    ("streaming", 40, 51, 2),
    ("structured", 41, 51, 1),
    ("world", 40, 51, 2),
]


def test_s1_sessions_while_they_are_open() -> None:
    """S1. The words of a line are rows; Spark's complete mode is the view of a live table."""
    app = kf.App("s1")
    sessions_of(app, "10 seconds", "30 seconds")
    with drive(app) as d:
        push(
            d,
            *words("hello world spark streaming", 40),
            *words("world hello structured streaming", 41),
        )
        assert view(d, "raw") == FIRST
        push(d, *words("spark streaming", 25))
        expected = sorted([*FIRST, ("spark", 25, 35, 1), ("streaming", 25, 35, 1)])
        assert view(d, "raw") == expected
        push(d, *words("spark streaming", 30))
        rest = [row for row in FIRST if row[0] not in ("spark", "streaming")]
        expected = sorted([*rest, ("spark", 25, 50, 3), ("streaming", 25, 51, 4)])
        assert view(d, "raw") == expected
        push(d, *words("hello apache spark", 60))
        expected = sorted([*expected, *((word, 60, 70, 1) for word in ("hello", "apache", "spark"))])
        assert view(d, "raw") == expected
        push(d, *words("structured streaming", 90))
        expected = sorted([*expected, ("structured", 90, 100, 1), ("streaming", 90, 100, 1)])
        assert view(d, "raw") == expected
        assert d.late("raw") == []


def test_s2_sessions_when_they_close() -> None:
    """S2. Spark's append mode is emit="final"; rows that Spark drops are recorded."""
    app = kf.App("s2")
    sessions_of(app, "10 seconds", "30 seconds")
    with drive(app) as d:
        push(
            d,
            *words("hello world spark streaming", 40),
            *words("world hello structured streaming", 41),
        )
        for t in (25, 0, 30):
            push(d, *words("spark streaming", t))
        push(d, *words("hello apache spark", 60))
        assert changes(d, "final") == []
        assert late(d, "final") == [(0, [(0, 10)])] * 2
        push(d, *words("structured streaming", 90))
        closed = [("hello", 40, 51, 2), ("spark", 25, 50, 3), ("streaming", 25, 51, 4)]
        closed += [("structured", 41, 51, 1), ("world", 40, 51, 2)]
        assert view(d, "final") == closed
        assert sorted(changes(d, "final")) == [("final", *row) for row in closed]
        assert sorted(c for c in changes(d, "raw") if c[0] == "final") == [("final", *row) for row in closed]


def fives() -> kf.App:
    app = kf.App("fives")
    five = rows_of(app, late="10 seconds").by(k="'all'").tumbling("5 seconds")
    five.table("raw", n="count(*)")
    five.table("final", n="count(*)", emit="final")
    return app


def counted(d: Driver, table: str, op: str) -> list[tuple[float, int]]:
    return sorted((c[2], c[4]) for c in changes(d, table) if c[0] == op)


def test_s4_append_mode() -> None:
    """S4. Spark has no key here: one for all rows. The two windows that stay in its state are open here."""
    with drive(fives()) as d:
        push(d, *(("x", t) for t in range(10, 16)))
        assert d.changes("final") == []
        push(d, ("x", 25))
        assert counted(d, "final", "final") == [(10, 5)]
        push(d, ("x", 10))
        assert d.changes("final") == []
        assert late(d, "final") == [(10, [(10, 15)])]
        assert d.handle.status()["tables"]["final"]["late"] == 1
        d.advance("rows", ZERO + 100 * SECOND)
        assert counted(d, "final", "final") == [(15, 1), (25, 1)]


def test_s5_update_mode() -> None:
    """S5. Upserts of a live table; its finals, which Spark's update mode lacks, are left out."""
    with drive(fives()) as d:
        push(d, *(("x", t) for t in range(10, 16)))
        assert counted(d, "raw", "upsert") == [(10, 5), (15, 1)]
        push(d, ("x", 25))
        assert counted(d, "raw", "upsert") == [(25, 1)]
        push(d, ("x", 10), ("x", 25))
        assert counted(d, "raw", "upsert") == [(25, 2)]
        assert len(d.late("raw")) == 1
        push(d, ("x", 10))
        assert changes(d, "raw") == []
        assert len(d.late("raw")) == 2


def test_s6_recovery() -> None:
    """S6. To stop and purge the last commit is a crash; the view is the sink, and has the batch once."""
    with drive(fives()) as d:
        push(d, *(("x", t) for t in range(10, 16)))
        push(d, ("x", 25))
        d.crash()
        assert counted(d, "final", "final") == [(10, 5)]
        push(d, ("x", 10), ("x", 27), ("x", 30))
        assert counted(d, "final", "final") == [(15, 1)]
        d.restart()
        push(d, ("x", 17))
        assert changes(d, "final") == []
        push(d, ("x", 40))
        assert counted(d, "final", "final") == [(25, 2)]
        assert view(d, "final") == [("all", 10, 15, 5), ("all", 15, 20, 1), ("all", 25, 30, 2)]
        assert late(d, "final") == [(10, [(10, 15)]), (17, [(15, 20)])]


# Row time, amount, text, name.
FLINK: list[tuple[int, str | None, str | None, str | None]] = [
    (1, "1.11", "Hi", "a"),
    (2, "2.22", "C#1", "a"),
    (3, "2.22", "C#1", "a"),
    (4, "5.55", None, "a"),
    (7, None, "Hello", "b"),
    (6, "6.66", "Hi", "b"),
    (8, "3.33", "C#2", "a"),
    (4, "5.55", "Hi", "a"),
    (16, "4.44", "Hi", "b"),
    (32, "7.77", None, None),
    (34, "3.33", "C#3", "b"),
]


def test_f18_and_f19_tumbling_windows_and_sessions() -> None:
    """F18 (tumble) and F19. One row per batch, watermark 1 s is `late`. A null name is a group in SQL;
    keyfold rejects null keys, so it is spelled 'null'. At the end event time advances until all is closed.
    """
    app = kf.App("flink")
    schema = "t timestamp, d decimal(10,2), s string, name string"
    rows = rows_of(app, late="1 second", schema=schema).by(k="coalesce(name, 'null')")
    columns = {"n": "count(*)", "total": "sum(d)", "texts": "count(distinct s)"}
    rows.tumbling("5 seconds").table("tumble", columns, emit="final")
    rows.session("5 seconds").table("sessions", columns, emit="final")
    with drive(app) as d:
        for t, amount, text, name in FLINK:
            d.push("rows", [{"t": ZERO + t * SECOND, "d": amount, "s": text, "name": name}])
        d.advance("rows", ZERO + 100 * SECOND)
        found = sorted((*shown(r), r["total"], r["texts"]) for r in d.rows("tumble"))
        assert found == [
            ("a", 0, 5, 4, Decimal("11.10"), 2),
            ("a", 5, 10, 1, Decimal("3.33"), 1),
            ("b", 5, 10, 2, Decimal("6.66"), 2),
            ("b", 15, 20, 1, Decimal("4.44"), 1),
            ("b", 30, 35, 1, Decimal("3.33"), 1),
            ("null", 30, 35, 1, Decimal("7.77"), 0),
        ]
        assert late(d, "tumble") == [(4, [(0, 5)])]
        found = sorted((*shown(r), r["total"]) for r in d.rows("sessions"))
        assert found == [
            ("a", 1, 13, 6, Decimal("19.98")),
            ("b", 6, 12, 2, Decimal("6.66")),
            ("b", 16, 21, 1, Decimal("4.44")),
            ("b", 34, 39, 1, Decimal("3.33")),
            ("null", 32, 37, 1, Decimal("7.77")),
        ]
        assert late(d, "sessions") == []


def test_f21_aggregates_over_the_rows_before() -> None:
    """F21. ROWS 2 PRECEDING is last(3): this row and the two before it. One row per batch, since SQL has an
    answer for each row and a table one for each batch; Flink's source that fails is a crash. A row behind is
    ignored there; here it is recorded as late once all kept rows are newer.
    """
    app = kf.App("f21")
    rows = rows_of(app, schema="c string, a bigint, t timestamp")
    rows.by("c").last(3).table("over", n="count(*)", total="sum(a)")
    values = (1, 1, 1, 2, 2, 2, 3, 4, 5, 6)
    with drive(app) as d:
        for t, a in enumerate(values):
            d.push("rows", [{"c": "Hello", "a": a, "t": ZERO + t * SECOND}])
            if t == 5:
                d.crash()
        assert [(c["_op"], c["n"], c["total"]) for c in d.changes("over")] == [
            ("upsert", n, total)
            for n, total in zip((1, 2, 3, 3, 3, 3, 3, 3, 3, 3), (1, 2, 3, 4, 5, 6, 7, 9, 12, 15), strict=True)
        ]
        d.push("rows", [{"c": "Hello", "a": 100, "t": ZERO + 2 * SECOND}])
        assert d.rows("over") == [{"c": "Hello", "n": 3, "total": 15}]
        assert [(r["time"] - ZERO) / SECOND for r in d.late("over")] == [2]
