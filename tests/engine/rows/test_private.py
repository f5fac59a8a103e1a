"""Private columns: what was declared last is stored with the rows, for several kinds of tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import keyfold as kf
from keyfold.errors import BadName
from keyfold.read import open_home
from keyfold.testing import drive

pytestmark = pytest.mark.jvm

ROWS = [{"region": "eu", "email": "a@b"}]


def shop(*private: str, latest: str = "email") -> kf.App:
    app = kf.App("shop")
    orders = app.stream("orders", kf.rows([]), "region string, email string").by("region")
    orders.table("totals", n="count(*)", email="max(email)", private=private)
    orders.latest().table("newest", private=[latest])
    return app


def private(home: Path, table: str) -> tuple[str, ...]:
    with open_home(home) as reader:
        return reader.table(table).schema.private


def test_private_columns_are_those_of_the_last_start(tmp_path: Path) -> None:
    for given in ((), ("email", "n"), ("n",)):
        with drive(shop(*given), home=tmp_path) as d:
            d.push("orders", ROWS)
        assert private(tmp_path, "shop.totals") == given
        assert private(tmp_path, "shop.newest") == ("email",)


def test_a_private_column_that_is_none_is_refused_at_the_start(tmp_path: Path) -> None:
    with (
        pytest.raises(BadName, match="no column 'emial' to be private"),
        drive(shop(latest="emial"), home=tmp_path),
    ):
        pass
