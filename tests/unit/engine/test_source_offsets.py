"""What the lines of Spark's offset log say, by the kind of their source."""

from __future__ import annotations

from typing import Any

import pytest

from keyfold.engine.storage.source_offsets import (
    BatchOffset,
    FilesOffset,
    MessagesOffset,
    OtherOffset,
    SourceOffset,
    parse_offset,
)


@pytest.mark.parametrize(
    ("document", "offset"),
    [
        (None, OtherOffset(None)),
        (7, BatchOffset(7)),
        ({"logOffset": 0}, FilesOffset(0)),
        (
            {"orders": {"0": 5, "11": 0}, "other": {}},
            MessagesOffset({"orders": {"0": 5, "11": 0}, "other": {}}),
        ),
        ({"logOffset": {"0": 5}}, MessagesOffset({"logOffset": {"0": 5}})),  # a topic of that name
        ({}, OtherOffset({})),
        ({"0": {"value": 3, "runTimeMs": 40}}, OtherOffset({"0": {"value": 3, "runTimeMs": 40}})),
        ({"offset": 3, "timestamp": 40}, OtherOffset({"offset": 3, "timestamp": 40})),
    ],
)
def test_the_kind_of_a_source_shows_in_its_offset(document: Any, offset: SourceOffset) -> None:
    assert parse_offset(document) == offset
