"""After every operation, tables of every kind of source read on where they were, and count every row once."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine import session
from keyfold.engine.kafka.broker import Broker
from keyfold.settings import load
from tests.kafka.cluster import FAST, Cluster
from tests.operations import sources
from tests.operations.operations import FIRST, LATE, NEW, OPERATIONS, Stopped, id_of
from tests.operations.sources import CASES, FOLLOWED, FOLLOWER, SECONDS, WINDOWED, Row, World

pytestmark = pytest.mark.jvm
LONG = bool(os.environ.get("KEYFOLD_TEST_LONG"))
SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """The app before the operation, whose home each test copies."""
    root = tmp_path_factory.mktemp("operations")
    settings = load(master="local[2]", driver_memory="1g", home=root / "session")
    with Broker(root / "kafka", settings, java_options=FAST) as broker:
        cluster = Cluster(broker.address)
        topics = {name: cluster.topic(name) for name, case in CASES.items() if case.kind == "kafka"}
        world = World(root / "input", cluster, topics)
        for name in CASES:
            world.files(name).mkdir(parents=True)
        spark = session.own_session(settings, SMALL)
        app, read = Stopped(world, root / "home", spark), list[Row]()
        for rows in (FIRST[:4], FIRST[4:], LATE):
            sources.add(world, rows)
            read += rows
            app.started(read).stop()
        sources.add(world, NEW)
        yield app
        spark.stop()


@pytest.mark.parametrize("name", [name for name, one in OPERATIONS.items() if one.quick or LONG], ids=id_of)
def test_after_an_operation_every_source_is_read_on_and_every_row_counts_once(
    base: Stopped, tmp_path: Path, name: str
) -> None:
    operation = OPERATIONS[name]
    home = Path(shutil.copytree(base.home, tmp_path / "home"))
    app = Stopped(base.world, home, base.spark)
    operation.act(app)
    app.started([*FIRST, *LATE, *NEW]).stop()
    # Once more: from now on the checkpoint also has the position in what the operation left to be read.
    with app.started([*FIRST, *LATE, *NEW]) as handle:
        found = {table: windows(handle.table(table).rows(), "total") for table in WINDOWED}
        assert found == dict.fromkeys(WINDOWED, folded(operation.rows))
        follower = {row["odd"]: (row["windows"], row["total"]) for row in handle.table(FOLLOWER).rows()}
        assert follower == followed(found[FOLLOWED])
        if operation.added:
            added = {table: windows(handle.table(table).rows(), "more") for table in WINDOWED}
            new = {at: n for at, (n, _) in folded(NEW).items()}
            for rows in added.values():
                assert {at: more for at, (_, more) in rows.items() if more} == new
    app("verify", "APP")


def windows(rows: list[dict[str, Any]], column: str) -> dict[tuple[str, datetime], tuple[int, int]]:
    """The number of rows of each window, and another column."""
    return {(row["k"], row["window_start"]): (row["n"], row[column]) for row in rows}


def folded(rows: list[Row]) -> dict[tuple[str, datetime], tuple[int, int]]:
    """The same, counted by hand."""
    found: dict[tuple[str, datetime], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in rows:
        time = datetime.fromisoformat(row["t"])
        at = row["k"], time.replace(second=time.second // SECONDS * SECONDS)
        found[at] = found[at][0] + 1, found[at][1] + row["x"]
    return dict(found)


def followed(found: dict[tuple[str, datetime], tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """The table of its changes: windows and their total, by whether they have an odd number of rows."""
    odd: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for n, total in found.values():
        odd[n % 2] = odd[n % 2][0] + 1, odd[n % 2][1] + total
    return dict(odd)
