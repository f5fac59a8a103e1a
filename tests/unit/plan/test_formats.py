"""The formats that declarations know, beside those that the engine has."""

from __future__ import annotations

import pytest

import keyfold as kf
from keyfold.engine.sources.connectors import never_ends
from keyfold.engine.sources.formats import FORMATS
from keyfold.plan import formats


def test_kf_files_takes_formats_that_the_engine_has() -> None:
    assert set(formats.FILES) <= set(FORMATS)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_format_whose_schema_the_engine_hands_to_spark_needs_one(name: str) -> None:
    assert formats.find_format(name).needs_schema
    assert formats.find_format(name.upper()).needs_schema
    assert not formats.find_format(name).only_streamed


@pytest.mark.parametrize(
    ("name", "endless", "only_streamed"),
    [
        ("rate", True, True),
        ("Rate-Micro-Batch", True, True),
        ("socket", False, True),
        ("delta", False, False),
    ],
)
def test_what_never_ends_can_only_be_streamed(name: str, endless: bool, only_streamed: bool) -> None:
    assert (formats.find_format(name).endless, formats.find_format(name).only_streamed) == (
        endless,
        only_streamed,
    )


def test_kf_rate_never_ends() -> None:
    assert never_ends(kf.rate(5))
