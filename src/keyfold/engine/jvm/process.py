"""The JVM of this process: whether it is still there and, if not, why it ended.

When it ends, whatever is being asked of it fails: a refused connection, an empty answer, a broken stream of
rows. `reporting_java_end` raises one error in place of all those, with the exit status and the end of Java's
logs.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from keyfold.engine.polling import wait_until
from keyfold.errors import JavaEnded

# Sockets close a moment before the system has the exit status.
END_SECONDS: Final = 10.0
_CLOSING_SECONDS: Final = 2.0
# With -XX:+ExitOnOutOfMemoryError, and Spark's own code for it.
_OUT_OF_MEMORY: Final = (3, 52)
_ERROR_LINE: Final = re.compile(
    r"^.*(?:OutOfMemoryError|insufficient memory|fatal error|SIG[A-Z]+ \().*$", re.M
)
_TAIL_BYTES: Final = 1 << 20
_KILLED: Final = (
    "if nobody killed it, the system ran out of memory and did; `dmesg` shows that. Give Java less memory "
    "(driver_memory), or the machine more"
)
_RETRIED: Final = "the next start retries the batch that was running; nothing is lost or counted twice"


@dataclass(frozen=True)
class Launched:
    """What is known of a JVM that keyfold started: its heap, and its logs with their length before it."""

    memory: str
    logs: tuple[tuple[Path, int], ...]

    @classmethod
    def now(cls, memory: str, *logs: Path) -> Launched:
        """Of one that is about to start."""
        return cls(memory, tuple((log, log.stat().st_size if log.exists() else 0) for log in logs))

    def last_errors(self) -> list[str]:
        """The lines of its logs that show why it ended."""
        return [line for log, begun in self.logs for line in error_lines(log, begun)]


_launched: Launched | None = None


def remember(launched: Launched) -> None:
    """Called with the JVM that was just started."""
    global _launched
    _launched = launched


def error_lines(log: Path, begun: int = 0) -> list[str]:
    """The lines of a log that show why a JVM ended, each once."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            # A log that is shorter than it was has been rolled over.
            file.seek(max(begun if begun <= size else 0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return list(dict.fromkeys(line.strip()[:300] for line in _ERROR_LINE.findall(text)))[-3:]


def has_ended() -> bool:
    """Whether there was a JVM and it has ended."""
    gateway = _gateway()
    if gateway is None:
        return False
    process = getattr(gateway, "proc", None)
    if process is not None and process.poll() is not None:
        return True
    if _answers(gateway):
        return False
    if process is not None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
    return True


def end_error(app: str | None = None) -> JavaEnded:
    """The error to raise when the JVM has ended."""
    status = getattr(getattr(_gateway(), "proc", None), "returncode", None)
    lines = _launched.last_errors() if _launched else []
    memory = [line for line in lines if "OutOfMemoryError" in line]
    if status in _OUT_OF_MEMORY or (status is None and memory):
        return _out_of_memory(app, memory)
    hint = _RETRIED + _logs()
    if _signal(status) == signal.SIGKILL:
        lines, hint = [], f"{_KILLED}; {_RETRIED}"
    return JavaEnded(f"Java ended: {how(status)}", app=app, given="\n".join(lines), hint=hint)


def _out_of_memory(app: str | None, lines: list[str]) -> JavaEnded:
    kind = re.search(r"OutOfMemoryError: ([^\n]+)", lines[-1]) if lines else None
    error = f"java.lang.OutOfMemoryError: {kind[1].strip()}" if kind else "java.lang.OutOfMemoryError"
    given = f"driver_memory={_launched.memory}" if _launched else None
    hint = f"more memory: --set driver_memory=8g, or KEYFOLD_DRIVER_MEMORY; {_RETRIED}{_logs()}"
    return JavaEnded(f"Java ended: it ran out of memory ({error})", app=app, given=given, hint=hint)


def how(status: int | None) -> str:
    """How a process ended, by its exit status."""
    number = _signal(status)
    if number is not None:
        return f"killed by signal {number.value} ({number.name})"
    return "it no longer answers" if status is None else f"exit status {status}"


def _logs() -> str:
    logs = [str(log) for log, _ in _launched.logs] if _launched else []
    return f". Its logs are {' and '.join(logs)}" if logs else ""


def _signal(status: int | None) -> signal.Signals | None:
    """The signal that ended a process; a JVM that handles one exits with 128 plus its number."""
    number = -status if status is not None and status < 0 else (status or 0) - 128
    return signal.Signals(number) if number in {s.value for s in signal.Signals} else None


@contextmanager
def reporting_java_end(app: str | None = None) -> Iterator[None]:
    """Raises `JavaEnded` in place of the errors that follow from the end of the JVM."""
    try:
        yield
    except JavaEnded:
        raise
    except Exception as error:
        if not is_java_end(error):
            raise
        raise end_error(app) from error


def is_java_end(error: BaseException) -> bool:
    """Whether an error is one of a JVM that has ended."""
    return wait_until(has_ended, _CLOSING_SECONDS if _from_a_socket(error) else 0.0)


def _from_a_socket(error: BaseException | None) -> bool:
    from py4j.protocol import Py4JError, Py4JJavaError

    while error is not None:
        if isinstance(error, Py4JError | ConnectionError | EOFError) and not isinstance(error, Py4JJavaError):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def ending_java() -> Iterator[None]:
    """For a command that needs Java no longer than this: ends the JVM that it started, and waits for that.

    A JVM stops its session and removes its temporary files when its input is closed. Left to the end of this
    process, that happens after it, and whoever then looks into the home finds files that are about to go.
    """
    before = _gateway()
    try:
        yield
    finally:
        if _gateway() is not before:
            _end()


def _end() -> None:
    process = getattr(_gateway(), "proc", None)
    if process is None:
        return
    with suppress(OSError):
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    forget()


def forget() -> None:
    """After a JVM that has ended, lets PySpark start another."""
    if not has_ended():
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Twice: the first ends at Java, the second does the rest.
        for _ in range(2):
            with suppress(Exception):
                context.stop()  # type: ignore[union-attr]
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _gateway() -> Any:
    """PySpark's way to its JVM, of which a process has one; None while there is none."""
    pyspark = sys.modules.get("pyspark")
    context = getattr(pyspark, "SparkContext", None)
    return None if context is None else context._gateway


def _answers(gateway: Any) -> bool:
    where = gateway.gateway_parameters
    try:
        socket.create_connection((where.address, where.port), 1.0).close()
    except ConnectionError:
        return False
    except OSError:  # a JVM that is busy, or a lack of files in this process
        return True
    return True
