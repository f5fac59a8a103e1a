"""The newest event time of each partition of a topic, as manifests record it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import TableHome
from keyfold.kernel.api import PartitionClock


def newest_times(home: TableHome, stream: str) -> dict[str, int]:
    """The newest time of each partition at the end of the last run, in milliseconds."""
    log = TableLog(home.log_files)
    newest = log.newest()
    manifest = None if newest is None else log.find(newest)
    return {} if manifest is None else dict(manifest.times.get(stream, {}))


def newest(clocks: Mapping[str, PartitionClock]) -> dict[str, dict[str, int]]:
    """The newest times by stream and partition, for the manifest of a finished batch."""
    return {stream: json.loads(clock.report())["newest"] for stream, clock in clocks.items()}
