"""What the clients of Kafka say about their arguments, before any broker is asked."""

from __future__ import annotations

import ctypes
import os
import re
import socket
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold import kafka_names
from keyfold.cli.main import main
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


def test_a_port_that_accepts_and_stays_silent_is_told_in_seconds_not_in_half_a_minute(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor() as threads:
        address = f"127.0.0.1:{silent.getsockname()[1]}"

        def start(protocol: str) -> None:
            app = kf.App(protocol.lower())
            source = kf.kafka(address, topic="t", options={"kafka.security.protocol": protocol})
            app.stream("orders", source, "id string").by("id").table("totals", n="count(*)")
            app.start(home=tmp_path)

        def read(protocol: str) -> None:
            list(kf.read_changes(address, "t", options={"security.protocol": protocol}))

        began = time.monotonic()
        calls = [threads.submit(call, name) for call in (start, read) for name in ("PLAINTEXT", "SSL")]
        assert main(["dev", "load", address, "--count", "1"]) == 1
        told = [str(call.exception()) for call in calls]
        assert time.monotonic() - began < 8, "four and what a busy machine adds"
    for text, what in zip(told, ["stream orders"] * 2 + ["topic t"] * 2, strict=True):
        assert text.startswith(f"the brokers of {what} "), text
        assert f"{address}: no answer within" in text
    assert f"{address}: no answer within" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "what answers there is not a Kafka broker"),
        (b"", "the connection is closed without an answer"),
    ],
)
def test_what_is_no_broker_is_told_by_its_answer(answer: bytes, words: str) -> None:
    with answering(lambda request: answer) as address:
        assert listening.problem(address) == f"{address}: {words}"
        # With TLS the client itself says what is wrong.
        assert listening.problem(address, "SSL") is None


def test_one_broker_that_answers_is_enough() -> None:
    with answering(lambda request: b"\0\0\0\x04" + request[8:12]) as address:
        assert listening.problem(f"127.0.0.1:9,nowhere.invalid:1,{address}") is None


@contextmanager
def answering(answer: Callable[[bytes], bytes]) -> Iterator[str]:
    """The address of a server that answers each connection's first request, and closes it."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(answer(self.request.recv(1_000)))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            serving.join()


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
