"""Which runs are short: those for which Java's optimizing compiler would cost more than it saves.

It takes half of the CPU time of a start. A run that lasts is much slower without it, so only a run that is
known to be short goes without: one that drains a few files, reads a small home, or starts again and again on
a few files, as `keyfold dev` does.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from typing import Final

from keyfold.plan import tree
from keyfold.plan.initial import InitialState
from keyfold.plan.nodes import AppSpec, Connector

FIRST_TIER: Final = "-XX:TieredStopAtLevel=1"
"""Java's option for its quick compiler alone. Given before the user's options, which override it."""
MOST_BYTES: Final = 16 * 2**20
MOST_FILES: Final = 1000
HOME_FILES: Final = 10 * MOST_FILES
"""Of a home, which has a few files for each batch, and of which a command reads those of the newest."""


def drains_little(spec: AppSpec) -> bool:
    """Whether all input of an app is in a few small local files, or in its declaration."""
    connectors = [stream.connector for stream in spec.streams]
    connectors += [lookup.connector for lookup in tree.app_lookups(spec)]
    for table in spec.tables:
        if isinstance(table.initial, InitialState):
            return False
        if table.initial is not None:
            connectors.append(table.initial.connector)
    return all(map(_is_bounded, connectors)) and is_small(one.path for one in connectors if one.path)


def is_small(paths: Iterable[str | os.PathLike[str]], most_files: int = MOST_FILES) -> bool:
    """Whether the files at and below these paths are few and small; stops looking when they are not."""
    size = number = 0
    for path in paths:
        for file in _files(os.fspath(path)):
            size, number = size + _size(file), number + 1
            if size > MOST_BYTES or number > most_files:
                return False
    return True


def _is_bounded(connector: Connector) -> bool:
    """Whether a connector's input can be measured without reading it."""
    if connector.kind == "rows":
        return True
    return connector.kind == "files" and "://" not in (connector.path or "://")


def _files(path: str) -> Iterator[str]:
    for found in glob.iglob(path.removeprefix("file:")):
        if not os.path.isdir(found):
            yield found
        for directory, _, names in os.walk(found):
            yield from (os.path.join(directory, name) for name in names)


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        # Removed while it was looked for.
        return 0
