"""Waiting for positions: messages by topic, partition and offset, and batches of tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.errors import QueryError
from keyfold.read import AppReader, open_home
from keyfold.read.wanted import BehindPosition
from keyfold.views.contract import ViewSchema
from tests.cli.conftest import columns
from tests.log_files import publish

TABLES = ("direct", "shared", "above", "both", "files")
CHANGE: dict[str, Any] = {"counts": {"change": 1}}


class Shop:
    """An app with tables that read a topic in several ways; its batches are committed one by one.

    `direct` reads the topic, `shared` the log of stream orders, `above` the table shared, `both` the table
    direct and the topic itself, `files` no topic.
    """

    def __init__(self, home: Path) -> None:
        self.home = AppHome(home / "shop")
        self.home.path.mkdir(parents=True)
        self.views = self.home.views.open(read_only=False)
        for name in TABLES:
            self.views.create(ViewSchema(name, columns(k="string"), columns(n="long")))
        source = {"kind": "kafka", "topics": ["orders"]}
        streams = [{"name": "orders", "source": source}, {"name": "disk", "source": {"kind": "files"}}]
        tables = {
            "direct": StoredTable(streams=("orders",)),
            "shared": StoredTable(streams=("orders",), shared=("orders",)),
            "above": StoredTable(tables=("shared",)),
            "both": StoredTable(streams=("orders",), tables=("direct",)),
            "files": StoredTable(streams=("disk",)),
        }
        self.home.write_plan(StoredApp(tables, declared={"streams": streams}, app="shop"))
        (self.home.path / "streams/orders/checkpoint").mkdir(parents=True)
        self.use("shared", "0-orders", 0)
        self.use("above", "0-shared", 0)
        self.use("both", "0-direct", 1)

    def use(self, reader: str, directory: str, position: int) -> None:
        document = json.dumps({"layout": 1, "positions": [position]}).encode()
        self.home.table(reader).storage.put(f"inputs/{directory}/use.json", document)

    def of(self, name: str) -> TableHome:
        return self.home.stream_home(name) if name == "orders" else self.home.table(name)

    def plan(self, name: str, batch: int, *offsets: Any) -> None:
        """Writes the offset log's entry of a batch, as Spark does."""
        lines = [
            "v1",
            '{"batchWatermarkMs":0}',
            *("-" if one is None else json.dumps(one) for one in offsets),
        ]
        self.of(name).storage.put(f"checkpoint/offsets/{batch}", "\n".join(lines).encode())

    def commit(self, name: str, batch: int, *offsets: Any, **counts: Any) -> None:
        """A batch of a table or stream, which has read up to these offsets."""
        self.plan(name, batch, *offsets)
        publish(TableLog(self.of(name).log_files), batch, previous=batch - 1 if batch else None, **counts)
        if name != "orders":
            self.show(name, batch)

    def show(self, name: str, batch: int) -> None:
        with self.views.batch(name, batch, datetime.now(UTC)):
            pass


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    found = Shop(tmp_path / "home")
    yield found
    found.views.close()


@pytest.fixture
def reader(shop: Shop) -> Iterator[AppReader]:
    with open_home(shop.home.path.parent) as home:
        yield home.app("shop")


def upto(offset: int, partition: int = 3) -> dict[str, dict[str, int]]:
    """A source's offset of topic orders: the next message of a partition."""
    return {"orders": {"0": 7, str(partition): offset}}


def present(reader: AppReader, table: str, after: str) -> dict[str, str | None]:
    with pytest.raises(BehindPosition) as caught:
        reader.wait(table, after)
    assert (caught.value.reason, caught.value.where) == ("behind_bound", f"shop.{table.lower()}")
    return dict(caught.value.present)


def test_a_message_is_shown_once_the_batch_has_read_beyond_it(shop: Shop, reader: AppReader) -> None:
    shop.commit("direct", 0, upto(100))
    at = reader.wait("direct", "orders/3@99")
    assert at is not None
    assert at.batch == 0
    assert present(reader, "direct", "orders/3@100") == {"orders/3": "orders/3@99"}
    assert present(reader, "direct", "orders/3@99,orders/0@7") == {"orders/0": "orders/0@6"}
    assert present(reader, "DIRECT", "orders/9@0") == {"orders/9": None}
    with pytest.raises(QueryError, match="the view is at batch 0, which is at orders/3@99") as caught:
        reader.wait("direct", "orders/3@100")
    assert caught.value.given == "after=orders/3@100"


def test_before_the_first_batch_nothing_is_shown(reader: AppReader) -> None:
    assert present(reader, "direct", "orders/0@0") == {"orders/0": None}
    assert reader.wait("direct", "shop.direct@0") is None
    with pytest.raises(BehindPosition, match="the view has no batch yet"):
        reader.wait("above", "shop.above@1")


def test_only_what_the_view_shows_counts(shop: Shop, reader: AppReader) -> None:
    """The query is ahead of the view."""
    shop.commit("direct", 0, upto(100))
    shop.plan("direct", 1, upto(200))
    assert present(reader, "direct", "orders/3@150") == {"orders/3": "orders/3@99"}
    shop.show("direct", 1)
    assert reader.wait("direct", "orders/3@199") == shop.views.position("direct")


def test_without_the_checkpoint_a_manifest_tells(shop: Shop, reader: AppReader) -> None:
    log = TableLog(shop.home.table("direct").log_files)
    made = publish(log, 4, **CHANGE)
    shop.show("direct", 4)
    with pytest.raises(QueryError, match="what batch 4 of direct has read is not recorded") as caught:
        reader.wait("direct", "orders/3@5")
    assert (caught.value.reason, caught.value.where) == ("not_ready", "shop.direct")
    log.file(4).put(replace(made, offsets=(upto(6),)).encode())
    assert reader.wait("direct", "orders/3@5") is not None


def test_a_source_that_was_replaced_has_shown_nothing(shop: Shop, reader: AppReader) -> None:
    """Its positions are those of other messages: only the checkpoint forgets them."""
    shop.commit("direct", 0, upto(100))
    log = TableLog(shop.home.table("direct").log_files)
    made = log.find(0)
    assert made is not None
    log.file(0).put(replace(made, offsets=(upto(100),)).encode())
    shop.home.table("direct").spark.forget_sources()
    assert present(reader, "direct", "orders/3@5") == {"orders/3": None}


def test_a_shared_stream_tells_by_the_batch_of_its_log(shop: Shop, reader: AppReader) -> None:
    shop.commit("orders", 0, upto(10), **CHANGE)
    shop.commit("orders", 1, upto(20), **CHANGE)
    shop.commit("shared", 0, 0)
    assert present(reader, "shared", "orders/3@10") == {"orders/3": "orders/3@9"}
    shop.commit("shared", 1, 1)
    assert reader.wait("shared", "orders/3@19") is not None


def test_a_table_of_a_table_of_a_shared_stream(shop: Shop, reader: AppReader) -> None:
    shop.commit("orders", 0, upto(10), **CHANGE)
    shop.commit("shared", 0, 0, **CHANGE)
    assert present(reader, "above", "orders/3@9") == {"orders/3": None}
    shop.commit("above", 0, 0)
    assert reader.wait("above", "orders/3@9") is not None
    shop.commit("orders", 1, upto(20), **CHANGE)
    shop.commit("shared", 1, 1, **CHANGE)
    assert present(reader, "above", "orders/3@19,shop.shared@2") == {
        "orders/3": "orders/3@9",
        "shop.shared": "shop.shared@1",
    }
    assert reader.wait("above", "shop.shared@1,shop.orders@1,shop.above@1") is not None


def test_batches_without_changes_have_nothing_to_wait_for(shop: Shop, reader: AppReader) -> None:
    """A reader stays behind them: a message that a condition drops would never be shown otherwise."""
    shop.commit("orders", 0, upto(10), **CHANGE)
    shop.commit("shared", 0, 0, **CHANGE)
    shop.commit("above", 0, 0)
    shop.commit("orders", 1, upto(20), **CHANGE)
    shop.commit("shared", 1, 1)
    assert reader.wait("above", "orders/3@19,shop.shared@2") is not None
    shop.commit("orders", 2, upto(30))
    assert reader.wait("above", "orders/3@29") is not None
    shop.commit("orders", 3, upto(40), **CHANGE)
    assert present(reader, "above", "orders/3@39") == {"orders/3": "orders/3@29"}


def test_of_several_readings_of_a_topic_the_slowest_counts(shop: Shop, reader: AppReader) -> None:
    shop.commit("direct", 0, upto(10), **CHANGE)
    shop.commit("both", 0, upto(20), 0)
    assert present(reader, "both", "orders/3@15") == {"orders/3": "orders/3@9"}
    shop.commit("direct", 1, upto(30), **CHANGE)
    shop.commit("both", 1, upto(20), 1)
    assert reader.wait("both", "orders/3@19") is not None
    assert present(reader, "both", "orders/3@20") == {"orders/3": "orders/3@19"}


def test_a_reader_that_began_with_a_snapshot_has_what_is_in_it(shop: Shop, reader: AppReader) -> None:
    for batch in range(3):
        shop.commit("direct", batch, upto(10 * batch + 10), **CHANGE)
    use = shop.home.table("both").storage
    use.put("inputs/0-direct/snapshot.json", json.dumps({"layout": 1, "batch": 1, "parts": []}).encode())
    shop.commit("both", 0, upto(50), None)
    assert reader.wait("both", "orders/3@19") is not None
    assert present(reader, "both", "orders/3@20") == {"orders/3": "orders/3@19"}


def test_what_a_table_can_never_show_is_another_error(shop: Shop, reader: AppReader) -> None:
    shop.commit("direct", 0, upto(10))
    shop.commit("files", 0, {"logOffset": 3})
    for table, after, what, hint in (
        ("direct", "order/3@1", "the table does not read topic order", "did you mean 'orders'?"),
        ("files", "orders/3@1", "the table does not read topic orders", "reads no topic"),
        ("direct", "shop.files@1", "of a table that this one does not read", "shop.direct"),
        ("direct", "bank.direct@1", "of a table that this one does not read", "shop.direct"),
    ):
        with pytest.raises(QueryError, match=what) as caught:
            reader.wait(table, after)
        assert (caught.value.reason, hint in (caught.value.hint or "")) == ("bad_request", True)


@pytest.mark.parametrize(
    "after", ["", "orders", "orders/3", "orders/x@1", "orders/3@-1", "a b/3@1", "t@x", "@1"]
)
def test_a_text_that_is_no_position_is_refused(shop: Shop, reader: AppReader, after: str) -> None:
    with pytest.raises(QueryError, match="not a position") as caught:
        reader.wait("direct", after)
    assert (caught.value.reason, caught.value.given) == ("bad_request", f"after={after}")


def test_a_position_before_a_restore_is_gone(shop: Shop, reader: AppReader) -> None:
    shop.commit("direct", 0, upto(10))
    shop.commit("direct", 1, upto(10))
    assert reader.wait("direct", "shop.direct@2e1") is not None
    with pytest.raises(QueryError, match="other batches since") as caught:
        reader.wait("direct", "shop.direct@2e7")
    assert caught.value.reason == "gone"


def test_a_reader_waits_for_the_batch(shop: Shop, reader: AppReader) -> None:
    shop.commit("direct", 0, upto(10))
    polled = threading.Event()
    views = reader.views
    position = views.position

    def told(table: str) -> Any:
        polled.set()
        return position(table)

    views.position = told  # type: ignore[method-assign]
    found: list[Any] = []
    waits = threading.Thread(target=lambda: found.append(reader.wait("direct", "orders/3@19", wait="20s")))
    waits.start()
    assert polled.wait(20)
    shop.commit("direct", 1, upto(20))
    waits.join()
    assert [at.batch for at in found] == [1]
