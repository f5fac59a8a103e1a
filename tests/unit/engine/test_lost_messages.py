"""Messages that are gone, and topics that have been replaced, by stream: several may read one name."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.recovery import lost_messages
from keyfold.engine.sources.kafka import TopicOffsets
from keyfold.engine.storage.layout import TableHome
from keyfold.errors import QueryFailed
from keyfold.plan.nodes import Source

FIRST, SECOND = "A" * 21 + "1", "A" * 21 + "2"
"""The ids of a topic in two clusters."""
Topics = Mapping[str, TopicOffsets]


def streams(*names: str, on_data_loss: Any = "fail") -> list[Source]:
    """Streams of a topic that has the same name in the cluster of each."""
    app = kf.App("shop")
    for name in names:
        connector = kf.kafka(f"{name}:9092", topic="orders", on_data_loss=on_data_loss)
        app.stream(name, connector, schema="k string")
    return list(app.spec().streams)


EU, US = streams("eu", "us")


def offsets(id_: str, last: int, first: int = 0) -> TopicOffsets:
    ids = {"orders": id_} if id_ else {}
    return TopicOffsets({"orders": {"0": first}}, {"orders": {"0": last}}, ids)


BOTH = {"eu": offsets(FIRST, 5), "us": offsets(SECOND, 2)}


@pytest.fixture
def home(tmp_path: Path) -> TableHome:
    return TableHome(tmp_path / "shop" / "tables" / "totals")


def batch(home: TableHome, number: int, *sources: Any, committed: bool = True) -> None:
    """Writes a batch into Spark's logs, with the offset of each source."""
    lines = ["v1", "{}", *("-" if source is None else json.dumps(source) for source in sources)]
    home.storage.put(f"checkpoint/offsets/{number}", "\n".join(lines).encode())
    if committed:
        home.storage.put(f"checkpoint/commits/{number}", b"v1\n{}")


def upto(offset: int) -> dict[str, Any]:
    return {"orders": {"0": offset}}


def check(home: TableHome, sources: Sequence[Source | None], topics: Topics) -> None:
    lost_messages.check("shop", "totals", sources, home, topics)


def recorded(home: TableHome) -> Any:
    return json.loads(home.storage.read("topics.json"))


def test_topics_of_one_name_in_two_clusters_are_told_apart(home: TableHome) -> None:
    lost_messages.record([EU, US], home, BOTH)
    batch(home, 0, upto(5), upto(2))
    check(home, [EU, US], BOTH)
    lost_messages.record([EU, US], home, BOTH)
    assert recorded(home) == {"eu": {"orders": FIRST}, "us": {"orders": SECOND}}
    check(home, [EU, US], BOTH)

    with pytest.raises(QueryFailed, match=r"(?s)stream us .*orders-0: offsets 2 to 3 of 2 messages"):
        check(home, [EU, US], BOTH | {"us": offsets(SECOND, 9, first=4)})
    with pytest.raises(
        QueryFailed, match=r"(?s)stream eu .*it ends at offset 4, and was read up to offset 5"
    ):
        check(home, [EU, US], BOTH | {"eu": offsets(FIRST, 4)})
    with pytest.raises(QueryFailed, match=r"(?s)stream us .*offset 2 of a topic with another id"):
        check(home, [EU, US], BOTH | {"us": offsets("other", 9)})
    with pytest.raises(QueryFailed, match=r"(?s)stream eu .*offset 5 of a topic with another id"):
        check(home, [EU, US], {"eu": BOTH["us"], "us": BOTH["eu"]})


def test_each_position_belongs_to_the_source_at_its_place(home: TableHome) -> None:
    """Also beside replayed rows, which are files, and messages of `kf.spark`, which are of no stream."""
    ids = {"eu": offsets("", 5), "us": offsets("", 2)}
    batch(home, 0, {"logOffset": 0}, upto(2), None, upto(5), upto(99))
    check(home, [None, US, None, EU, None], ids)
    with pytest.raises(QueryFailed, match="orders-0: it ends at offset 2, and was read up to offset 5"):
        check(home, [None, EU, None, US, None], ids)
    # A stream that a plan reads twice, as `transform` does, has two positions.
    batch(home, 1, upto(5), upto(5), upto(2))
    with pytest.raises(QueryFailed) as found:
        check(home, [EU, EU, US], ids | {"eu": offsets("", 5, first=7)})
    assert str(found.value).count("offsets 5 to 6") == 1


def test_replayed_rows_beside_messages_are_passed_over(home: TableHome) -> None:
    batch(home, 0, upto(2), {"logOffset": 0})
    topics = {"eu": offsets(FIRST, 2)}
    check(home, [EU, None], topics)
    with pytest.raises(QueryFailed, match="offsets 2 to 2 of 1 messages"):
        check(home, [EU, None], {"eu": offsets(FIRST, 5, first=3)})


def test_a_batch_with_another_number_of_sources_is_compared_by_the_names_of_topics(home: TableHome) -> None:
    batch(home, 0, upto(2))
    check(home, [EU, None], {"eu": offsets(FIRST, 2)})
    with pytest.raises(QueryFailed, match="offsets 2 to 2 of 1 messages"):
        check(home, [EU, None], {"eu": offsets(FIRST, 5, first=3)})


def test_ids_that_an_earlier_version_recorded_count_for_all_streams(home: TableHome) -> None:
    batch(home, 0, upto(5), upto(2))
    # Of the last stream that reads a topic of the name.
    home.storage.put("topics.json", json.dumps({"orders": SECOND}).encode())
    check(home, [EU, US], BOTH)
    with pytest.raises(QueryFailed, match="of a topic with another id"):
        check(home, [EU, US], BOTH | {"us": offsets("other", 9)})
    lost_messages.record([EU, US], home, BOTH)
    assert recorded(home) == {"eu": {"orders": FIRST}, "us": {"orders": SECOND}}


def test_a_stream_under_a_new_name_keeps_the_ids_of_its_topics(home: TableHome) -> None:
    """So does the table of another app that begins with a savepoint."""
    lost_messages.record([EU], home, BOTH)
    batch(home, 0, upto(2))
    with pytest.raises(QueryFailed, match="of a topic with another id"):
        check(home, [US], BOTH)
    check(home, [US], {"us": offsets(FIRST, 2)})


def test_what_is_recorded_stays_while_topics_are_not_read(home: TableHome) -> None:
    """As when rows of a directory are read in their place."""
    lost_messages.record([EU], home, BOTH)
    batch(home, 0, upto(2))
    lost_messages.record([None], home, {})
    assert recorded(home) == {"eu": {"orders": FIRST}}


def test_lost_messages_are_a_warning_if_the_stream_says_so(
    home: TableHome, caplog: pytest.LogCaptureFixture
) -> None:
    batch(home, 0, upto(2))
    with caplog.at_level(logging.WARNING, "keyfold"):
        check(home, streams("eu", on_data_loss="warn"), {"eu": offsets(FIRST, 5, first=3)})
    assert "shop.totals: messages of stream eu are lost: orders-0: offsets 2 to 2" in caplog.text
