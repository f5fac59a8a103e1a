"""What a request shows for itself, and what a token may read."""

from __future__ import annotations

import pytest

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
