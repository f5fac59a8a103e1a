"""A follower of a log: applies its batches in order, in a thread of its own, and knows its position."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final

from keyfold.engine.batch.durations import Durations
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog

# The seconds for which a follower waits for the next batch, to apply two together: until it has begun, and
# until it is published.
_BEGINS: Final = 0.5
_PUBLISHED: Final = 10.0


class Abandoned(Exception):
    """A batch was given up because the app is stopping; it is applied after the next start."""


class Follower(ABC):
    """Follows one log from a position on.

    The writer offers each manifest that it publishes, and waits only if a follower is too far behind. A
    follower that fails stops at its position, and raises its error in waiting callers.
    """

    def __init__(self, name: str, table: str, log: TableLog, position: int) -> None:
        self.name, self.table, self.log, self.position = name, table, log, position
        self._condition = threading.Condition()
        self._due = deque(log.after(position))
        self.error: Exception | None = None
        """The error that stopped it."""
        self.took = Durations()
        """How long it took to apply the newest batches."""
        self._closed = False
        self._next_begun = False
        self._awaited: list[int] = []
        self._thread = threading.Thread(target=self._follow, name=f"keyfold-{table}-{name}", daemon=True)

    @abstractmethod
    def apply(self, manifest: Manifest) -> None:
        """Applies one batch together with the new position, atomically."""

    def closing(self) -> bool:
        """Whether the app is stopping, so that waiting for an unavailable service is pointless."""
        return self._closed

    def apply_together(self, manifests: Sequence[Manifest]) -> None:
        """Applies successive batches at once, together with the position of the last."""
        for manifest in manifests:
            self.apply(manifest)

    def together(self, due: Sequence[Manifest]) -> int:
        """How many of the due batches should be applied at once; at least 1."""
        return 1

    def gains_from_more(self, due: Sequence[Manifest]) -> bool:
        """Whether to wait for a batch that is about to be published."""
        return False

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def announce_batch(self) -> None:
        """Announces that a batch is being computed, which will be offered unless it fails."""
        with self._condition:
            self._next_begun = True
            self._condition.notify_all()

    def offer(self, manifest: Manifest) -> None:
        """Hands over a batch that has just been published."""
        with self._condition:
            self._due.append(manifest)
            self._next_begun = False
            self._condition.notify_all()

    def check(self) -> None:
        """Raises the error that stopped the follower, if there is one."""
        if self.error is not None:
            raise self.error

    @property
    def due(self) -> int | None:
        """The next batch to be applied, if one is published."""
        with self._condition:
            return self._due[0].batch if self._due else None

    def wait_for(self, batch: int, seconds: float | None = None) -> bool:
        """Waits until the follower has a batch, or everything published; raises its error."""
        with self.announce_wait(batch), self._condition:
            done = self._condition.wait_for(
                lambda: self.position >= batch or not self._due or self.error is not None, seconds
            )
        self.check()
        return done

    @contextmanager
    def announce_wait(self, batch: int) -> Iterator[None]:
        """Announces a caller that waits for a batch, and should not have to wait for the next one too."""
        with self._condition:
            self._awaited.append(batch)
            self._condition.notify_all()
        try:
            yield
        finally:
            with self._condition:
                self._awaited.remove(batch)

    def close(self, seconds: float | None = None) -> None:
        """Applies published batches, as far as time allows, then ends the thread."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _follow(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._due or self._closed)
                if not self._due:
                    return
                self._wait_for_more()
                found = list(islice(self._due, self.together(self._due)))
            try:
                new = [manifest for manifest in found if manifest.batch > self.position]
                if new:
                    begun = time.monotonic()
                    self.apply_together(new)
                    took = (time.monotonic() - begun) / len(new)
                    for manifest in new:
                        self.took.record(manifest.batch, took)
            except Abandoned:
                return
            except Exception as error:
                with self._condition:
                    self.error = error
                    self._condition.notify_all()
                return
            with self._condition:
                self.position = max(self.position, found[-1].batch)
                for _ in found:
                    self._due.popleft()
                self._condition.notify_all()

    def _wait_for_more(self) -> None:
        """Combines batches where that saves work, unless a caller is waiting for the present ones."""
        first = self._due[0].batch

        def over() -> bool:
            asked = self._closed or any(batch >= first for batch in self._awaited)
            return asked or not self.gains_from_more(self._due)

        if not over() and self._condition.wait_for(lambda: over() or self._next_begun, _BEGINS):
            self._condition.wait_for(over, _PUBLISHED)
