"""To be written."""

from __future__ import annotations

from typing import Any

from keyfold.plan import nodes


def looked_up(context: Any, node: nodes.LookUp) -> Any:
    """To be written."""
    raise NotImplementedError
