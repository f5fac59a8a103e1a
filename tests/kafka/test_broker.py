"""`keyfold dev kafka` and `keyfold dev load`, and the broker behind them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from keyfold.cli.main import main
from keyfold.engine.kafka.broker import Broker
from keyfold.engine.polling import wait_until
from keyfold.errors import BrokerFailed
from keyfold.settings import load
from tests.kafka.cluster import FAST, Cluster

KEYFOLD = (sys.executable, "-m", "keyfold")


def started(*words: str, log: Path) -> tuple[subprocess.Popen[bytes], dict[str, object]]:
    """A `keyfold dev kafka --json` in the background, and the document that it prints once it is up."""
    with log.open("wb") as output, log.with_suffix(".err").open("wb") as errors:
        process = subprocess.Popen([*KEYFOLD, "dev", "kafka", "--json", *words], stdout=output, stderr=errors)
    wait_until(lambda: process.poll() is not None or log.read_bytes().endswith(b"}\n"), 120)
    assert process.poll() is None, log.with_suffix(".err").read_text()
    return process, json.loads(log.read_text())


def test_a_broker_is_up_with_its_topics_keeps_them_and_ends_in_order(tmp_path: Path) -> None:
    place, log = tmp_path / "data", tmp_path / "out"
    process, found = started("--dir", str(place), "--topic", "orders:3", log=log)
    cluster = Cluster(str(found["address"]))
    cluster.produce("orders", [{"value": "one", "partition": 2}])
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert not psutil.pid_exists(int(str(found["pid"])))

    port = cluster.address.split(":")[1]
    process, again = started("--dir", str(place), "--port", port, log=log)
    assert again["address"] == cluster.address
    [message] = cluster.consume("orders")
    assert (message.value(), message.partition()) == (b"one", 2)
    process.terminate()
    assert process.wait(30) == 0


def test_a_broker_ends_when_its_command_is_killed_and_its_files_go_with_the_next(tmp_path: Path) -> None:
    process, found = started(log=tmp_path / "out")
    left, broker = Path(str(found["directory"])), psutil.Process(int(str(found["pid"])))
    process.kill()
    process.wait()
    assert wait_until(lambda: not broker.is_running(), 30)
    assert left.is_dir()
    process, found = started("--for", "1ms", log=tmp_path / "next")
    assert process.wait(30) == 0
    assert not left.exists()
    assert not Path(str(found["directory"])).exists()


def test_a_port_that_is_taken_is_an_error_with_the_broker_s_reason(cluster: Cluster, tmp_path: Path) -> None:
    taken = int(cluster.address.split(":")[1])
    with pytest.raises(BrokerFailed, match="ended while it started") as error:
        Broker(tmp_path, load(), port=taken, java_options=FAST).start()
    assert str(tmp_path) in str(error.value)


def test_load_has_the_asked_number_skew_and_share_of_bad_messages(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        "--rate",
        "0",
        "--count",
        "4000",
        "--bad",
        "0.1",
        "--late",
        "0.2",
        "--keys",
        "50",
        "--seed",
        "7",
    ]
    assert main(["dev", "load", cluster.address, "--topic", "load:2", *options, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["good"] + told["late"] + told["bad"] == 4000
    messages = cluster.consume("load")
    assert len(messages) == 4000
    assert {m.partition() for m in messages} == {0, 1}
    keys = [m.key() for m in messages]
    assert keys.count(b"c0") > 5 * keys.count(b"c30")

    def parses(value: bytes) -> bool:
        try:
            return isinstance(json.loads(value)["amount"], float)
        except ValueError:
            return False

    assert sum(not parses(m.value()) for m in messages) == told["bad"]
    assert 300 < told["bad"] < 500
    assert 700 < told["late"] < 900


def test_load_without_a_broker_says_within_five_seconds_where_it_looked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun = time.monotonic()
    assert main(["dev", "load", "127.0.0.1:9", "--count", "1"]) == 1
    assert time.monotonic() - begun < 5
    told = capsys.readouterr().err
    assert "127.0.0.1:9: connection refused" in told
    assert "is a Kafka broker at 127.0.0.1:9?" in told
    assert os.environ.get("KEYFOLD_HOME") is None
