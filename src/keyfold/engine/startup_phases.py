"""What a start is doing, for whoever shows it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Literal

Step = Literal["kernel", "spark", "tables", "views", "queries"]

Tell = Callable[[Step], None]
"""Called with a step when it begins."""


def brief(step: Step) -> None:
    """Tells of the one step that takes long, once in a machine's life."""
    if step == "kernel":
        text = "keyfold: building the kernel, once for this Spark version; it takes some seconds"
        print(text, file=sys.stderr, flush=True)
