"""Restarts a query after transient failures: a Python worker that started slowly, unavailable brokers.

At the first batch of a query with a processor Spark starts a Python worker and gives it ten seconds to
connect back, which is fixed in Spark's code (`PythonWorkerFactory.createSimpleWorker`). A machine under load
may need longer. Kafka's client gives up on brokers after a minute or two, but they may return later. In both
cases nothing of the batch has been published, so it is retried as planned.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine import spark_messages
from keyfold.engine.batch.hook import BatchHook
from keyfold.engine.spark_errors import causes

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOG: Final = logging.getLogger("keyfold")


@dataclass(frozen=True)
class Passing:
    """A transient failure: how to recognize it, how many restarts to attempt, and how to report it."""

    pattern: re.Pattern[str]
    restarts: int | None
    told: str


SLOW_PYTHON: Final = Passing(spark_messages.SLOW_PYTHON, 3, "Python took more than ten seconds to start")
BROKERS_AWAY: Final = Passing(spark_messages.BROKERS_AWAY, None, "Kafka's brokers can't be reached")
SLOTS_TAKEN: Final = Passing(spark_messages.SLOTS_TAKEN, 20, "other work has the task slots of this table")


class RestartingQuery:
    """A `StreamingQuery` that is restarted after transient failures."""

    def __init__(
        self, start: Callable[[], StreamingQuery], name: str, hook: BatchHook, *passing: Passing
    ) -> None:
        self._start, self._name, self._hook, self._passing = start, name, hook, passing
        self._restarts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._query = start()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    @property
    def isActive(self) -> bool:
        """Whether it is running; restarts it after a transient failure."""
        with self._lock:
            return self._query.isActive or self._restart()

    def processAllAvailable(self) -> None:
        """Waits until all input has been processed."""
        while True:
            query = self._query
            try:
                return query.processAllAvailable()
            except Exception:
                if not self.isActive or self._query is query:
                    raise

    def _restart(self) -> bool:
        error = self._query.exception()
        if error is None or self._hook.stopping.is_set():
            return False
        text = causes(self._hook.error or error) or str(error)
        failure = next((p for p in self._passing if p.pattern.search(text)), None)
        if failure is None or self._restarts[failure.told] == failure.restarts:
            return False
        self._restarts[failure.told] += 1
        _LOG.warning("%s: %s; starting the query again", self._name, failure.told)
        self._query = self._start()
        return True
