"""Whether brokers answer at their addresses: a first request tells it in seconds.

Kafka's own clients wait for half a minute and more where something else listens and stays silent.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread
from typing import Final

from keyfold.engine.kafka import client
from keyfold.engine.kafka.failures import unreachable
from keyfold.errors import RunError
from keyfold.masking import mask
from keyfold.plan import durations
from keyfold.plan.call_site import location
from keyfold.plan.nodes import AppSpec, Connector

# How long one answer may take: TCP asks again after one second and after three.
_SECONDS: Final = 4.0
_SHORTEST_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.2
_LOG: Final = logging.getLogger("keyfold")
# ApiVersions of Kafka, version 0, which brokers answer before a login: api, version, correlation, no client.
_CORRELATION: Final = 0x6B66
_ASKED: Final = struct.pack(">hhih", 18, 0, _CORRELATION, -1)
_LARGEST_ANSWER: Final = 1 << 16


def require(servers: str, topic: str, hint: str, protocol: str | None = None) -> None:
    """Refuses servers none of which answers."""
    reason = problem(servers, protocol)
    if reason is not None:
        raise unreachable(topic, reason, hint)


def wait_for_brokers(spec: AppSpec, replaced: Collection[str] = ()) -> None:
    """Waits until brokers of each source and sink answer, for as long as it declares."""
    for what, where, connector in _connectors(spec, replaced):
        assert connector.kafka is not None
        left, told = connector.kafka.connection_wait_ms / 1000, False
        deadline = time.monotonic() + left
        servers, protocol = client.servers(connector), client.protocol(connector)
        while (reason := problem(servers, protocol, _within(left))) is not None:
            left = deadline - time.monotonic() - _PAUSE_SECONDS
            if left < 0:
                raise RunError(
                    f"the brokers of {what} could not be reached "
                    f"within {durations.text(connector.kafka.connection_wait_ms)}",
                    where=where,
                    app=spec.name,
                    given=reason,
                    hint="start the brokers, correct the servers, or let a start wait longer: "
                    "wait='10 minutes'",
                )
            if not told:
                told = True
                _LOG.warning("%s: waiting for Kafka: %s", spec.name, reason)
            time.sleep(_PAUSE_SECONDS)


def _within(left: float) -> float:
    """How long the next answer may take, of the time that is left."""
    return max(_SHORTEST_SECONDS, min(_SECONDS, left))


def problem(servers: str, protocol: str | None = None, seconds: float = _SECONDS) -> str | None:
    """Why no server answers, one by one; None as soon as one does.

    `protocol`: Kafka's `security.protocol`, if it is set.
    """
    given = (server.strip() for server in servers.split(","))
    reasons = dict.fromkeys(filter(None, given), f"no answer within {seconds:g} s")
    answers: Queue[tuple[str, str | None]] = Queue()
    deadline = time.monotonic() + seconds
    for server in reasons:
        # At once, since one that does not answer must not use up the time of the others.
        Thread(
            target=lambda one: answers.put((one, _refusal(one, protocol or "", seconds))),
            args=(server,),
            daemon=True,
        ).start()
    with suppress(Empty):
        for _ in range(len(reasons)):
            server, reason = answers.get(timeout=max(0.0, deadline - time.monotonic()))
            if reason is None:
                return None
            reasons[server] = reason
    return mask(", ".join(f"{server}: {reason}" for server, reason in reasons.items()))


def _refusal(server: str, protocol: str, seconds: float) -> str | None:
    """Why a server does not answer; of an address in a form that only Kafka's client knows: nothing."""
    host, _, port = server.rpartition("://")[2].rpartition(":")
    if not port.isdecimal():
        return None
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=seconds) as connection:
            if not protocol.upper().endswith("SSL"):
                return _misfit(connection)
            _shake_hands(connection)
            return None
    except OverflowError:
        return f"{port} is not a port"
    except socket.gaierror as error:
        return f"the name is not known ({error.strerror})"
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except OSError as error:
        return (error.strerror or str(error)).lower()


def _misfit(connection: socket.socket) -> str | None:
    """Why what listens is not a broker, by its answer to a request."""
    connection.sendall(struct.pack(">i", len(_ASKED)) + _ASKED)
    found = connection.recv(8, socket.MSG_WAITALL)
    if not found:
        return "the connection is closed without an answer"
    size, correlation = struct.unpack(">iI", found.ljust(8, b"\xff"))
    if not 4 <= size <= _LARGEST_ANSWER or correlation != _CORRELATION:
        return "what answers there is not a Kafka broker"
    return None


def _shake_hands(connection: socket.socket) -> None:
    """Waits for the answer to a handshake; what is wrong with it, such as a certificate, the client tells."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with suppress(ssl.SSLError), context.wrap_socket(connection):
        pass


def _connectors(spec: AppSpec, replaced: Collection[str]) -> Iterator[tuple[str, str | None, Connector]]:
    """What an app reads and writes in Kafka: in words, where it is declared, and the connector."""
    for stream in spec.streams:
        if stream.connector.kafka is not None and stream.name not in replaced:
            where = location(f"{spec.name}.{stream.name}", stream.site)
            yield f"stream {stream.name}", where, stream.connector
    for table in spec.tables:
        sinks = [sink for _, sink in table.sinks]
        for sink in (*sinks, *filter(None, (table.history_topic,))):
            if sink.kafka is not None:
                where = location(f"{spec.name}.{table.name}", table.site)
                yield f"topic {sink.kafka.subject}", where, sink
