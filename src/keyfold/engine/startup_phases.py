"""The phases of a start, for displays of its progress."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Literal

Step = Literal["kernel", "spark", "initial", "tables", "views", "queries"]

Tell = Callable[[Step], None]
"""Called with a phase when it begins."""


def brief(step: Step) -> None:
    """Reports only the one phase that takes long, once per Spark version."""
    if step == "kernel":
        text = "keyfold: building the kernel, once for this Spark version; it takes some seconds"
        print(text, file=sys.stderr, flush=True)
