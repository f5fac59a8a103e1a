"""Drains an app from the command line."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyfold.engine.handle import Handle


class Draining:
    """A drain in a separate thread, since a signal can't interrupt a call into Java."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._drain, name="keyfold-drain", daemon=True)
        self._thread.start()

    def done(self) -> bool:
        """Whether all input is processed; raises what the drain raised."""
        self._thread.join(0.05)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def _drain(self) -> None:
        try:
            self._handle.drain()
        except BaseException as error:
            self._error = error
