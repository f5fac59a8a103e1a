"""To be written."""

from __future__ import annotations

from typing import Any

from keyfold.plan import nodes


def joined(context: Any, node: nodes.Join) -> Any:
    """To be written."""
    raise NotImplementedError
