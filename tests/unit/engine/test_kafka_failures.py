"""What is said of a table that stops because of Kafka: its topics, or its sink."""

from __future__ import annotations

from pathlib import Path

from keyfold.engine.recovery.query_failure import explain_failure
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import RunError

# As Spark's Kafka source has it, within the error of the query.
LOST = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Some data may have been lost \
because they are not available in Kafka any more;
either the data was aged out by Kafka or the topic may have been deleted before all the data in the
topic was processed.
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: Partitions Set(orders-2, orders-3) have been deleted. SQLSTATE: XXKST
=== Streaming Query ===
Identifier: shop.totals"""
GONE = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic"


def test_lost_messages_are_named_and_not_said_to_come_back(tmp_path: Path) -> None:
    text = str(explain_failure("shop", "totals", 3, RuntimeError(LOST), AppHome(tmp_path)))
    assert text.startswith("messages were deleted from Kafka before shop.totals had read them")
    assert "given: Partitions Set(orders-2, orders-3) have been deleted.\n" in text
    assert "on_data_loss='warn'" in text
    assert "nothing is lost" not in text


def test_a_topic_that_is_gone_is_told_with_what_to_do_if_it_is_made_again(tmp_path: Path) -> None:
    text = str(explain_failure("shop", "totals", 3, RuntimeError(GONE), AppHome(tmp_path)))
    assert text.startswith("a topic that shop.totals reads is no longer there")
    assert "`keyfold reset shop.totals`" in text


def test_the_error_of_a_sink_has_one_place_and_one_advice(tmp_path: Path) -> None:
    error = RunError(
        "a change is larger than topic totals accepts", given="too large", hint="raise the limit"
    )
    found = explain_failure("shop", "totals", 3, error, AppHome(tmp_path))
    assert (found.table, found.batch) == ("totals", 3)
    assert str(found) == (
        "a change is larger than topic totals accepts\n"
        "  where: shop.totals, batch 3\n"
        "  given: too large\n"
        "  try: raise the limit"
    )
