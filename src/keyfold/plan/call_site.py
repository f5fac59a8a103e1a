"""Finds the line of the user's file that called keyfold, for error messages."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import FrameType

from keyfold.plan.nodes import Node, Site
from keyfold.plan.tree import name_of

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def call_site() -> Site | None:
    """The innermost caller outside the keyfold package, or None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return None if frame is None else Site(frame.f_code.co_filename, frame.f_lineno)


@dataclass(frozen=True)
class StreamLocation:
    """The location of a step on a stream, rendered only for an error: finding the name takes a walk."""

    app: str
    node: Node
    site: Site | None

    def __str__(self) -> str:
        return location(f"{self.app}.{name_of(self.node)}", self.site) or ""


def location(*parts: str | Site | None) -> str | None:
    """Joins the known parts of a location: `location("shop.totals", site)` is "shop.totals, shop.py:12"."""
    return ", ".join(str(part) for part in parts if part) or None
