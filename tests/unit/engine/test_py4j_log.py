"""Which of Py4J's traces are left out."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from keyfold.engine.jvm import process, py4j_log

PY4J = "/site-packages/py4j/java_gateway.py"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    py4j_log.quiet()
    found = logging.getLogger("py4j.java_gateway")
    yield found
    for name in ("", "py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).removeFilter(py4j_log._REPORTED)


def record(file: str, error: BaseException) -> logging.LogRecord:
    return logging.LogRecord("", logging.ERROR, file, 1, "while sending", (), (type(error), error, None))


def closed_while_interrupted() -> BaseException:
    found = BrokenPipeError()
    found.__context__ = ConnectionError()
    found.__context__.__context__ = KeyboardInterrupt()
    return found


@pytest.mark.parametrize(
    ("file", "error", "java_ended", "shown"),
    [
        (PY4J, KeyboardInterrupt(), False, False),
        (PY4J, closed_while_interrupted(), False, False),
        (PY4J, ConnectionError(), True, False),
        (PY4J, ConnectionError(), False, True),
        ("/home/user/app.py", KeyboardInterrupt(), False, True),
        ("/home/user/app.py", ConnectionError(), True, True),
    ],
)
def test_an_error_that_keyfold_reports_itself_has_no_trace(
    logger: logging.Logger,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    error: BaseException,
    java_ended: bool,
    shown: bool,
) -> None:
    monkeypatch.setattr(process, "has_ended", lambda: java_ended)
    assert bool(logger.filter(record(file, error))) is shown
