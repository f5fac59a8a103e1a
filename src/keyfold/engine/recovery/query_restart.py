"""Restarts a query with a processor when its Python worker was too slow to start.

At the first batch of a query with a processor Spark starts a Python worker and gives it ten seconds to
connect back, which is fixed in Spark's code (`PythonWorkerFactory.createSimpleWorker`). A machine under load
may need longer. Nothing of the batch has been done by then, so it is retried as planned.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.batch.hook import BatchHook

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOG: Final = logging.getLogger("keyfold")
_TOO_SLOW: Final = "Python worker failed to connect back"
_RESTARTS: Final = 3


class RestartingQuery:
    """A `StreamingQuery` that is restarted up to three times if its Python worker was too slow."""

    def __init__(self, start: Callable[[], StreamingQuery], name: str, hook: BatchHook) -> None:
        self._start, self._name, self._hook = start, name, hook
        self._restarts, self._lock = 0, threading.Lock()
        self._query = start()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    @property
    def isActive(self) -> bool:
        """Whether it runs; restarts it if Python was too slow to start."""
        with self._lock:
            return self._query.isActive or self._restarted()

    def processAllAvailable(self) -> None:
        """Waits until all input has been processed."""
        while True:
            query = self._query
            try:
                return query.processAllAvailable()
            except Exception:
                if not self.isActive or self._query is query:
                    raise

    def _restarted(self) -> bool:
        error = self._query.exception()
        if (
            error is None
            or _TOO_SLOW not in str(error)
            or self._restarts == _RESTARTS
            or self._hook.stopping.is_set()
        ):
            return False
        self._restarts += 1
        _LOG.warning("%s: Python took more than ten seconds to start; starting the query again", self._name)
        self._query = self._start()
        return True
