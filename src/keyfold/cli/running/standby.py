"""Waits to take over an app that another process runs."""

from __future__ import annotations

import time
from typing import Final

from keyfold.cli import output
from keyfold.errors import HomeLocked

# How often a standby looks whether the other process has ended.
_LOOK_SECONDS: Final = 0.5


class Standby:
    """Waits for the process that runs the app, and says once that it does."""

    def __init__(self, app: str) -> None:
        self._app, self._said = app, False

    def wait(self, held: HomeLocked) -> None:
        """Called while the other process runs the app."""
        if not self._said:
            output.say(f"{held.given or 'another process'} runs {self._app}; standing by to take over")
            self._said = True
        time.sleep(_LOOK_SECONDS)
