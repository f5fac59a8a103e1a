"""To be written."""

from __future__ import annotations

from typing import Any

from keyfold.plan import nodes


def processed(context: Any, node: nodes.TableSpec) -> Any:
    """To be written."""
    raise NotImplementedError
