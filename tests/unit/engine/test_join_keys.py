"""Under which columns the sides of a join have the key of the table after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import keyfold as kf
from keyfold.engine.state.join_keys import SIDES, joined_key
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.plan.describe import text as describe
from keyfold.plan.nodes import JoinHow

COLUMNS = {"left": ["id", "person", "at"], "right": ["id", "method", "at"]}


def sides(
    place: Path,
    *columns: str,
    how: JoinHow = "inner",
    on: str = "id",
    select: Sequence[str] = (),
    **named: str,
) -> list[dict[str, str] | None]:
    """The values of a key by the columns of each side: 1, 2, 3 ... as many as it has columns."""
    made = kf.App("shop")
    orders = made.stream("orders", kf.rows([]), schema="id int, person string, at timestamp", time="at")
    payments = made.stream("payments", kf.rows([]), schema="id int, method string, at timestamp", time="at")
    stream = orders.where("id > 0").join(payments, on=on, within="1 hour", how=how)
    if select:
        stream = stream.select(*select, **named)
    stream.where("true").by(*columns).table("paid", n="count(*)")
    stream.join(orders, on="id", within="1 hour").by(*columns).table("twice", n="count(*)")
    home = AppHome(place / "shop")
    home.path.mkdir(parents=True, exist_ok=True)
    home.write_plan(StoredApp(declared=describe.to_dict(made.spec())))
    key = {name: str(i + 1) for i, name in enumerate(columns)}
    assert joined_key(home, "twice", key) is None
    assert joined_key(home, "other", key) is None
    found = joined_key(home, "paid", key)
    return [None if found is None else found.on_side(side, COLUMNS) for side in SIDES]


def test_a_side_has_the_key_under_its_own_names(tmp_path: Path) -> None:
    assert sides(tmp_path, "id") == [{"id": "1"}, {"id": "1"}]
    assert sides(tmp_path, "ID") == [{"id": "1"}, {"id": "1"}]
    assert sides(tmp_path, "person") == [{"person": "1"}, None]
    assert sides(tmp_path, "id", "method") == [None, {"id": "1", "method": "2"}]
    # Both have it, under names that the join makes of those of the streams.
    assert sides(tmp_path, "orders_at") == [{"at": "1"}, None]
    assert sides(tmp_path, "payments_at") == [None, {"at": "1"}]
    condition = "orders.id = payments.id"
    assert sides(tmp_path, "payments_id", on=condition) == [None, {"id": "1"}]


def test_a_key_that_is_computed_is_on_no_side(tmp_path: Path) -> None:
    chosen = ["id", "person as who", "upper(person) as shout"]
    assert sides(tmp_path, "who", select=chosen) == [{"person": "1"}, None]
    assert sides(tmp_path, "shout", select=chosen) == [None, None]
    assert sides(tmp_path, "who", select=["id"], who="person") == [{"person": "1"}, None]
    assert sides(tmp_path, "person", select=["id"], person="method") == [None, {"method": "1"}]
    assert sides(tmp_path, "person", select=["*"], x="upper(person)") == [{"person": "1"}, None]
    assert sides(tmp_path, "x", select=["*"], x="upper(person)") == [None, None]


def test_the_right_side_of_a_semi_join_has_only_the_columns_that_are_equal(tmp_path: Path) -> None:
    kinds: tuple[JoinHow, ...] = ("left_semi", "left_anti")
    for how in kinds:
        assert sides(tmp_path, "id", how=how) == [{"id": "1"}, {"id": "1"}]
        assert sides(tmp_path, "at", how=how) == [{"at": "1"}, None]
