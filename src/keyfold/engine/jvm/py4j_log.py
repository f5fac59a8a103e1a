"""Keeps traces out of the terminal that Py4J logs for errors which keyfold reports itself."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from keyfold.engine.jvm.process import is_java_end


class _Reported(logging.Filter):
    """Leaves out a call into a JVM that has ended, and a call that Ctrl-C interrupted."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is None or "py4j" not in Path(record.pathname).parts:
            return True
        return not _interrupted(error) and not is_java_end(error)


def _interrupted(error: BaseException | None) -> bool:
    """Whether it is Ctrl-C, or came of it: Py4J then finds the connection closed."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


_REPORTED: Final = _Reported()


def quiet() -> None:
    """From now on; the error itself is raised as before."""
    for name in ("", "py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(_REPORTED)
