"""What the clients of Kafka say about their arguments, before any broker is asked."""

from __future__ import annotations

import ctypes
import os
import re
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold import kafka_names
from keyfold.engine.kafka import listening
from keyfold.engine.kafka.topics import parse_topic
from keyfold.errors import BadOption, RunError


@pytest.mark.parametrize(
    ("servers", "topic", "options", "words"),
    [
        ("localhost", "t", None, "a host and a port"),
        ("kafka://a:1", "t", None, "a host and a port"),
        ("a:1", None, None, "the name of a topic"),
        ("a:1", "t t", None, "the name of a topic"),
        ("a:1", "t", ["x"], "options must be a dict"),
    ],
)
def test_arguments_of_a_reader_are_checked_at_the_call(
    servers: Any, topic: Any, options: Any, words: str
) -> None:
    with pytest.raises(BadOption, match=words) as refused:
        kf.read_changes(servers, topic, options=options)
    assert "test_kafka_clients.py" in str(refused.value)
    with pytest.raises(BadOption, match=words):
        kf.read_table(servers, topic, options=options)


def test_a_setting_that_the_client_does_not_have_is_named() -> None:
    with pytest.raises(RunError, match="to read topic t") as refused:
        list(kf.read_changes("127.0.0.1:9", "t", options={"secruity.protocol": "SSL"}))
    assert "secruity.protocol" in str(refused.value)
    assert "options=" in str(refused.value)


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ("127.0.0.1:9", "127.0.0.1:9: connection refused"),
        ("nowhere.invalid:9092", "nowhere.invalid:9092: the name is not known"),
        ("127.0.0.1:9,[::1]:9", "127.0.0.1:9: connection refused, [::1]:9: "),
    ],
)
def test_servers_that_nobody_listens_at_are_told_within_five_seconds_without_spark(
    servers: str, words: str, tmp_path: Path
) -> None:
    app = kf.App("away")
    stream = app.stream("orders", kf.kafka(servers, topic="t", wait="1 second"), "id string")
    stream.by("id").table("totals", n="count(*)")
    sinking = kf.App("sinking")
    stream = sinking.stream("orders", kf.rows([{"id": "a"}]), "id string")
    stream.by("id").table("totals", n="count(*)").to(kf.kafka(servers, topic="out", wait=0))

    begun = time.monotonic()
    with pytest.raises(RunError, match="brokers of topic t do not answer") as reading:
        list(kf.read_changes(servers, "t"))
    assert time.monotonic() - begun < 5
    begun = time.monotonic()
    with pytest.raises(RunError, match="brokers of stream orders could not be reached") as starting:
        app.start(home=tmp_path)
    assert time.monotonic() - begun < 5
    with pytest.raises(RunError, match="brokers of topic out could not be reached") as writing:
        sinking.start(home=tmp_path)
    for refused in (reading, starting, writing):
        assert words in str(refused.value)


def test_one_server_that_listens_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_port:
        here = f"127.0.0.1:{open_port.getsockname()[1]}"
        assert listening.problem(f"127.0.0.1:9,nowhere.invalid:1,{here}") is None


def test_the_known_names_of_librdkafka_are_those_that_it_takes_as_text() -> None:
    found = re.findall(r"^(\S+) +\| +[*CP] +\|(?!.*see dedicated API)", _librdkafka_table(), re.MULTILINE)
    assert sorted(kafka_names.LIBRDKAFKA) == sorted(set(found))


def _librdkafka_table() -> str:
    """What librdkafka says of its settings: a table in Markdown."""
    import confluent_kafka.cimpl  # loads the library, which the next line finds by its name

    place = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    library, libc = ctypes.CDLL(str(next(place.glob("librdkafka*")))), ctypes.CDLL(None)
    libc.fdopen.restype = ctypes.c_void_p
    with tempfile.TemporaryFile() as file:
        stream = ctypes.c_void_p(libc.fdopen(os.dup(file.fileno()), b"w"))
        library.rd_kafka_conf_properties_show(stream)
        libc.fclose(stream)
        file.seek(0)
        return file.read().decode()


def test_a_topic_on_the_command_line_is_a_name_and_a_number_of_partitions() -> None:
    assert (parse_topic("orders"), parse_topic("orders:4")) == (("orders", 1), ("orders", 4))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the name of a topic"),
        ("or ders", "the name of a topic"),
        ("orders:x", "number of partitions"),
        ("orders:", "number of partitions"),
        ("orders:0", "number of partitions"),
    ],
)
def test_a_topic_that_kafka_would_not_accept_is_refused(text: str, words: str) -> None:
    with pytest.raises(BadOption, match=words):
        parse_topic(text)
