"""Checks of a table's sinks, and their names, under which their positions are stored."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping
from typing import Any, Final

from keyfold.errors import BadName, BadOption
from keyfold.plan.describe.as_json import connector_dict
from keyfold.plan.describe.phrases import connector_words
from keyfold.plan.nodes import Connector, TableSpec
from keyfold.plan.validate import arguments, kafka

HISTORY: Final = "history"
"""The name under which the position of a history topic is stored, beside those of the sinks."""

_ALLOWED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LONGEST: Final = 100
_LONGEST_DEFAULT: Final = 64
# From a URL with a password, which is masked at this point.
_LOGIN: Final = re.compile(r"//[^/@]*:\*+@")
_RULE: Final = "letters, digits, '-', '_' and '.'; the first must be a letter or a digit"


def named_sink(sink: object, name: object, table: TableSpec, where: object = None) -> tuple[str, Connector]:
    """A sink to add to a table, with its name: the given one, or the default."""
    checked = _check_sink(sink, where)
    found = default_name(connector_dict(checked)) if name is None else _checked_name(name, where)
    # The name becomes a file's, and some file systems ignore case.
    taken = [one for one in table.sinks if one[0].lower() == found.lower()]
    for other, connector in taken:
        raise BadOption(
            f"the table already has a sink named {other!r}",
            where=where,
            given=f"{connector_words(checked)}; the other one is {connector_words(connector)}",
            hint='a name for the one that you add: .to(..., name="..."); the other one keeps its position',
        )
    return found, checked


def default_name(sink: Mapping[str, Any]) -> str:
    """The name of a sink, described as by `connector_dict`, that is given none: its kind and address.

    Servers and options don't count: a new broker, or another password, does not make it another sink.

    >>> default_name({"kind": "files", "format": "json", "path": "out"})
    'files-out'
    >>> default_name({"kind": "spark", "format": "delta", "path": "/lake/Totals"})
    'spark-delta-lake-totals-a12e0a96'
    """
    kind = f"spark-{sink['format']}" if sink["kind"] == "spark" else sink["kind"]
    address = sink["topics"][0] if "topics" in sink else _address(sink.get("path") or "")
    whole = f"{kind}-{address}" if address else kind
    safe = re.sub(r"[^a-z0-9._]+", "-", whole.lower()).strip("-.")
    if safe == whole and len(whole) <= _LONGEST_DEFAULT:
        return whole
    if len(safe) > _LONGEST_DEFAULT:
        safe = f"{safe[:20].strip('-.')}-{safe[-32:].strip('-.')}"
    return f"{safe}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def _address(path: str) -> str:
    """A path in a canonical form, or a URL without its login."""
    return _LOGIN.sub("//", path) if "://" in path or not path else posixpath.normpath(path)


def _check_sink(sink: object, where: object) -> Connector:
    """The connector, if changes can be written to it."""
    advice = 'kf.kafka("host:9092", topic="totals"), kf.files("out", format="parquet") or kf.spark("format")'
    checked = arguments.instance(sink, Connector, "to takes a sink", advice, where)
    if checked.kind in ("rate", "rows"):
        raise BadOption(f"kf.{checked.kind} is a source, not a sink", where=where, hint=advice)
    if checked.kind == "files" and set(checked.path or "") & set("*?[{"):
        problem = "the path of a sink must be a directory, not a glob"
        raise BadOption(problem, where=where, given=repr(checked.path))
    if checked.kafka is not None:
        kafka.check_sink(checked, checked.kafka, where)
    return checked


def _checked_name(name: object, where: object) -> str:
    """A given name, which becomes that of a file."""
    given = arguments.instance(name, str, "the name of a sink must be a string", 'name="archive"', where)
    if given.lower() == HISTORY:
        why = "the topic of history= has its position under it"
    elif given.isdecimal():
        why = "numbers are what earlier versions called sinks"
    elif len(given) > _LONGEST:
        why = f"it is longer than {_LONGEST} characters"
    elif not _ALLOWED.fullmatch(given):
        why = f"it becomes the name of a file, and may have {_RULE}"
    else:
        return given
    problem = f"{given!r} is not allowed as the name of a sink: {why}"
    raise BadName(problem, where=where, hint=_suggest_name(given))


def _suggest_name(name: str) -> str:
    fixed = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:_LONGEST]
    return f'name="{fixed}"' if fixed and fixed != name and not fixed.isdecimal() else 'name="archive"'
