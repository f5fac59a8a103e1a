"""Finds the line of the user's file that called into keyfold."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import FrameType

from keyfold.plan.nodes import Node, Site, name_of

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def here() -> Site | None:
    """The innermost caller outside the keyfold package, or None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return None if frame is None else Site(frame.f_code.co_filename, frame.f_lineno)


@dataclass(frozen=True)
class StreamPlace:
    """The place of a step on a stream, put into words only for an error: a name costs a walk."""

    app: str
    node: Node
    site: Site | None

    def __str__(self) -> str:
        return place(f"{self.app}.{name_of(self.node)}", self.site) or ""


def place(*parts: str | Site | None) -> str | None:
    """Joins what is known of a place: `place("shop.totals", site)` is "shop.totals, shop.py:12"."""
    return ", ".join(str(part) for part in parts if part) or None
