"""What a request shows for itself, and what a token may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyfold.engine.storage import tokens
from keyfold.server.auth.access import of_token
from keyfold.server.auth.credentials import Shown, shown


@pytest.mark.parametrize(
    "other", ["a[b]=1", 'j={"a":1}', "flag", "expires=1", "", "=", "ä=ö", "keyfold_token"]
)
@pytest.mark.parametrize("cookie", ["{other}; keyfold_token=kf_x", "keyfold_token=kf_x;{other}x"])
def test_the_cookie_is_found_beside_those_of_other_servers(cookie: str, other: str) -> None:
    header = cookie.replace("{other}", other).encode()
    assert shown({"headers": [(b"cookie", header)]}) == Shown("kf_x", by_cookie=True)


@pytest.mark.parametrize(
    "header", [b"", b"keyfold_token", b"keyfold_token=", b"x_keyfold_token=kf_x", b";=;"]
)
def test_without_the_cookie_nothing_is_shown(header: bytes) -> None:
    assert shown({"headers": [(b"cookie", header)]}) is None


def test_a_token_reads_tables_of_its_app_alone_also_of_apps_that_differ_in_case(tmp_path: Path) -> None:
    access = of_token(tokens.create(tmp_path, "ann", "reader", ("Shop.Totals",), None)[0])
    assert (access.reads("Shop", "totals"), access.reads("Shop", "TOTALS"), access.reads_app("Shop")) == (
        True,
        True,
        True,
    )
    for other in ("shop", "SHOP", "Sho"):
        assert (access.reads(other, "Totals"), access.reads_app(other)) == (False, False)
    assert access.only_app == "Shop"
