"""Tables that follow two others: by their key, and by a column that names the other's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyfold as kf
from keyfold.testing import Driver, drive
from tests.engine.models.strategies import plans

pytestmark = pytest.mark.jvm

Row = dict[str, Any]
ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def deletable(app: kf.App, name: str, schema: str) -> kf.Table:
    """A table of each key's newest row, which goes when one comes that is null in its last column."""
    rows = app.stream(name, kf.rows([]), schema=schema)
    newest = rows.by("k").latest().table(f"newest_{name}")
    last = schema.split(",")[-1].split()[0]
    return newest.changes().where(f"{last} is not null").by("k").latest().table(f"{name}_rows")


def view(d: Driver, table: str) -> dict[Any, tuple[Any, ...]]:
    return {(row := list(r.values()))[0]: tuple(row[1:]) for r in d.rows(table)}


K20 = """L:null R:null L:A R:a L:B R:b L:null R:null L:C R:c R:null L:null R:null R:d L:D L:null R:null
    R:e L:E L:null R:null L:F R:f"""
RESULTS = {
    "inner": "A-a B-a B-b null C-c null D-d null E-e null F-f",
    "left": "A-null A-a B-a B-b null C-null C-c C-null null D-d null E-e null F-null F-f",
    "full": """A-null A-a B-a B-b null-b null C-null C-c C-null null null-d D-d null-d null null-e E-e null-e
        null F-null F-f""",
}


def test_k20_a_join_of_two_tables_by_their_key() -> None:
    """K20. One row a batch, of one key, the newest by arrival. Kafka's null deletes a row: here the newest
    row of a stream stays, and a table of its changes without nulls loses it. Times of results are left out:
    changes of a table have none.
    """
    app = kf.App("k20")
    left, right = (deletable(app, name, f"k int, {name} string") for name in ("l", "r"))
    for how in RESULTS:
        left.join_table(right, how, how=how)  # type: ignore[arg-type]
    with drive(app) as d:
        for number, word in enumerate(K20.split()):
            side, value = word.lower()[0], word[2:]
            d.push(side, [{"k": 1, side: None if value == "null" else value}])
            if number == 6:
                d.crash()
        for how, results in RESULTS.items():
            found = [
                "null" if c["_op"] == "delete" else f"{c['l'] or 'null'}-{c['r'] or 'null'}"
                for c in d.changes(how)
            ]
            assert found == results.split(), how
            assert view(d, how) == {1: ("F", "f")}


def test_rows_meet_by_a_column_that_names_the_others_key_and_follow_it() -> None:
    app = kf.App("foreign")
    orders = deletable(app, "orders", "k int, customer string, amount int")
    customers = deletable(app, "customers", "k string, city string")
    for how in ("inner", "left"):
        joined = orders.join_table(customers, how, on="customer", how=how)  # type: ignore[arg-type]
    joined.changes().by(city="coalesce(city, 'nowhere')").table("cities", n="count(*)", total="sum(amount)")
    with drive(app) as d:
        d.push(
            "orders",
            [{"k": k, "customer": c, "amount": k} for k, c in ((1, "x"), (2, "x"), (3, "y"), (4, None))],
        )
        assert view(d, "inner") == {}
        assert view(d, "left") == {
            1: ("x", 1, None),
            2: ("x", 2, None),
            3: ("y", 3, None),
            4: (None, 4, None),
        }
        d.push(
            "customers", [{"k": "x", "city": "Rome"}, {"k": "y", "city": "Oslo"}, {"k": "z", "city": "Bonn"}]
        )
        assert view(d, "inner") == {1: ("x", 1, "Rome"), 2: ("x", 2, "Rome"), 3: ("y", 3, "Oslo")}
        assert view(d, "left") == {**view(d, "inner"), 4: (None, 4, None)}
        assert view(d, "cities") == {"Rome": (2, 3), "Oslo": (1, 3), "nowhere": (1, 4)}
        # Orders that move to another customer, or to one that there is not, in one batch; one that goes.
        d.changes("left")
        d.push(
            "orders",
            [{"k": k, "customer": c, "amount": a} for k, c, a in ((1, "y", 1), (2, "n", 2), (3, "y", None))],
        )
        assert view(d, "inner") == {1: ("y", 1, "Oslo")}
        assert view(d, "left") == {1: ("y", 1, "Oslo"), 2: ("n", 2, None), 4: (None, 4, None)}
        assert sorted((c["k"], c["_op"]) for c in d.changes("left")) == [
            (1, "upsert"),
            (2, "upsert"),
            (3, "delete"),
        ]
        assert view(d, "cities") == {"Oslo": (1, 1), "nowhere": (2, 6)}
        d.crash()
        # Customers that come, change and go.
        d.push("customers", [{"k": "n", "city": "Lima"}, {"k": "y", "city": None}, {"k": "z", "city": None}])
        assert view(d, "inner") == {2: ("n", 2, "Lima")}
        assert view(d, "left") == {1: ("y", 1, None), 2: ("n", 2, "Lima"), 4: (None, 4, None)}
        d.push("customers", [{"k": "n", "city": "Cuzco"}])
        assert view(d, "cities") == {"Cuzco": (1, 2), "nowhere": (2, 5)}
        for table in ("inner", "left", "cities"):
            assert d.rejected(table) == [], table


def test_tables_of_windows_and_of_several_keys_meet_by_all_of_them() -> None:
    app = kf.App("composite")
    rows = app.stream("rows", kf.rows([]), schema="a string, b int, x int, t timestamp", time="t")
    keyed = rows.by("a", "b")
    sums = keyed.table("sums", x="sum(x)")
    keyed.table("counts", x="count(*)").join_table(sums, "both")
    rows.by("a", other="b + 1").table("shifted", n="count(*)").join_table(sums, "by_other", on=["a", "other"])
    per_window = [
        where.by("a").tumbling("10 seconds").table(name, {name: "sum(x)"}, keep="5 seconds")
        for name, where in (("big", rows.where("x > 10")), ("small", rows.where("x <= 10")))
    ]
    per_window[0].join_table(per_window[1], "windows", how="full")
    with drive(app) as d:
        given = [("p", 1, 20, 0), ("p", 1, 5, 1), ("p", 2, 7, 12), ("q", 1, 30, 13)]
        d.push("rows", [{"a": a, "b": b, "x": x, "t": ZERO + t * SECOND} for a, b, x, t in given])
        assert [tuple(r.values()) for r in d.rows("both")] == [
            ("p", 1, 2, 25),
            ("p", 2, 1, 7),
            ("q", 1, 1, 30),
        ]
        assert list(d.rows("both")[0]) == ["a", "b", "x", "sums_x"]
        assert [tuple(r.values()) for r in d.rows("by_other")] == [("p", 2, 2, 7)]
        shown = [
            (r["a"], (r["window_start"] - ZERO) / SECOND, r["big"], r["small"]) for r in d.rows("windows")
        ]
        assert shown == [("p", 0, 20, 5), ("p", 10, None, 7), ("q", 10, 30, None)]
        d.advance("rows", ZERO + 30 * SECOND)
        assert d.rows("windows") == [], "both sides went"


# By table: how the other is met, and by which column.
JOINS = {
    "inner_join": ("inner", "k"),
    "left_join": ("left", "k"),
    "right_join": ("right", "k"),
    "full_join": ("full", "k"),
    "by_fk": ("inner", "fk"),
    "left_by_fk": ("left", "fk"),
}


class Case:
    """Two tables as dicts, and what their joins should be."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.left: dict[int, tuple[str | None, int]] = {}
        self.right: dict[str, int] = {}

    def batch(self, side: str) -> list[Row]:
        """Rows of which some replace others of the same batch, and some are null, which deletes."""
        chance, found = self.chance, []
        for _ in range(chance.randrange(1, 7)):
            v = chance.choice([None, None, *range(5)])
            if side == "r":
                k = chance.choice("1234")
                found.append({"k": k, "w": v})
                self.right.pop(k, None) if v is None else self.right.update({k: v})
            else:
                n, fk = chance.randrange(1, 5), chance.choice([None, *"12345"])
                found.append({"k": str(n), "fk": fk, "v": v})
                self.left.pop(n, None) if v is None else self.left.update({n: (fk, v)})
        return found

    def joined(self, how: str, on: str) -> dict[str, tuple[Any, ...]]:
        left = {str(k): row for k, row in self.left.items()}
        if on == "fk":
            met = {k: (fk, v, self.right.get(fk or "")) for k, (fk, v) in left.items()}
            return {k: row for k, row in met.items() if how == "left" or row[2] is not None}
        keys = {
            "inner": left.keys() & self.right.keys(),
            "left": left.keys(),
            "right": self.right.keys(),
            "full": left.keys() | self.right.keys(),
        }
        return {k: (*left.get(k, (None, None)), self.right.get(k)) for k in keys[how]}


@plans(2)
@given(seed=st.integers(0, 2**32))
def test_random_changes_of_both_tables_equal_brute_force(seed: int) -> None:
    app, case = kf.App("random"), Case(seed)
    left = deletable(app, "l", "k string, fk string, v int")
    right = deletable(app, "r", "k string, w int")
    for name, (how, on) in JOINS.items():
        left.join_table(right, name, on=on, how=how)  # type: ignore[arg-type]
    with drive(app) as d:
        # A start of ten queries costs more than all the rest.
        for then in ["", *case.chance.sample(["", "", "restart", "crash"], k=4)]:
            side = case.chance.choice("lr")
            d.push(side, case.batch(side))
            {"restart": d.restart, "crash": d.crash}.get(then, lambda: None)()
            for name, (how, on) in JOINS.items():
                assert view(d, name) == case.joined(how, on), name
            assert not [r for table in app.spec().tables for r in d.rejected(table.name)]
