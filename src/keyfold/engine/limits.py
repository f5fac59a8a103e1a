"""Bounds on memory and on the size of a batch: how they are spelt, and what applies to a stream."""

from __future__ import annotations

import re
from typing import Any, Final

from keyfold.plan.nodes import Connector

FILES: Final = "spark.keyfold.batchFiles"
"""The setting of a session with the most files of a stream that a batch reads (kernel: BatchLimit.scala)."""
BYTES: Final = "spark.keyfold.batchBytes"
_UNITS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def bytes_of(text: str) -> int:
    """An amount of memory in Spark's notation.

    >>> bytes_of("4g"), bytes_of("512MB")
    (4294967296, 536870912)
    """
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    if found is None:
        raise ValueError(f"not an amount of memory: {text!r}")
    return int(found[1]) << _UNITS[found[2]]


def batch_limit(connector: Connector, conf: Any) -> dict[str, int] | None:
    """What bounds the batches of a stream of files, by a session's settings; None for other sources."""
    if connector.kind != "files":
        return None
    given = {name.lower(): value for name, value in connector.options}
    if "maxfilespertrigger" in given:
        return {"files": int(given["maxfilespertrigger"])}
    if "maxbytespertrigger" in given:
        return {"bytes": bytes_of(given["maxbytespertrigger"])}
    return {"files": int(conf.get(FILES)), "bytes": int(conf.get(BYTES))}
