"""Shows the progress of a start: a bar in a terminal, otherwise only the kernel build."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final

from keyfold.cli import output

if TYPE_CHECKING:
    from rich.console import Console

    from keyfold.engine.startup_phases import Step, Tell

# The text of each step, and its seconds on two cores, from which the bar estimates.
STEPS: Final[dict[Step, tuple[str, float]]] = {
    "kernel": ("building the kernel, once for this Spark version", 12.0),
    "spark": ("starting Spark", 5.0),
    "initial": ("folding the initial rows", 60.0),
    "tables": ("reading the declarations", 2.0),
    "views": ("bringing views and state together", 0.5),
    "queries": ("starting the queries", 1.0),
}


class Starting:
    """Shows the steps of a start; the engine calls `tell`."""

    def __init__(self, console: Console, drawn: bool) -> None:
        self._console, self._drawn = console, drawn
        self._steps: dict[Step, float] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Tell:
        if self._drawn:
            self._thread = threading.Thread(target=self._draw, name="keyfold-starting", daemon=True)
            self._thread.start()
        return self.tell

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def tell(self, step: Step) -> None:
        """A step begins."""
        if step not in self._steps:
            self._steps[step] = time.monotonic()
            if self._thread is None and step == "kernel":
                output.say(f"{STEPS[step][0]}, about {STEPS[step][1]:.0f} s")

    def _draw(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        bar = BarColumn(bar_width=16)
        text = TextColumn("{task.description}")
        with Progress(SpinnerColumn(), bar, text, console=self._console, transient=True) as progress:
            task = progress.add_task("starting", total=1.0)
            while not self._over.wait(0.1):
                share, words = self.progress(time.monotonic())
                progress.update(task, completed=share, description=words)

    def progress(self, now: float) -> tuple[float, str]:
        """The progress of a start, estimated from typical durations, and the current step."""
        steps = [step for step in STEPS if step != "kernel" or "kernel" in self._steps]
        if not self._steps:
            return 0.0, "starting"
        current = list(self._steps)[-1]
        before = sum(STEPS[step][1] for step in steps[: steps.index(current)])
        words, expected = STEPS[current]
        spent = min(now - self._steps[current], expected)
        total = sum(STEPS[step][1] for step in steps)
        left = total - before - spent
        return (before + spent) / total, f"{words}, about {max(1, round(left))} s left"
