"""A declaration as plain data, to find out whether it has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import date
from typing import Any

from keyfold.masking import mask, mask_value
from keyfold.plan.nodes import Connector


class NotData(TypeError):
    """A declaration contains a function, which can't be compared with an earlier one."""


def as_data(value: Any) -> Any:
    """A plan, or a part of one, as data for JSON: without sites, and with secrets masked.

    >>> as_data(("count(*)", None, 1.5))
    ["'count(*)'", 'None', '1.5']
    """
    if isinstance(value, Connector):
        return _connector(value)
    if is_dataclass(value) and not isinstance(value, type):
        compared = [field.name for field in fields(value) if field.compare]
        return [type(value).__name__, *([name, as_data(getattr(value, name))] for name in compared)]
    if isinstance(value, Mapping):
        return [[as_data(name), as_data(one)] for name, one in value.items()]
    if isinstance(value, frozenset):
        return sorted(map(as_data, value))
    if isinstance(value, tuple | list):
        return [as_data(one) for one in value]
    if value is None or isinstance(value, str | bytes | int | float | date):
        return repr(value)
    raise NotData(type(value).__name__)


def _connector(connector: Connector) -> list[Any]:
    path = connector.path
    # Only URLs have passwords.
    known = mask(path) if path is not None and "://" in path else path
    options = [[name, mask_value(name, value)] for name, value in connector.options]
    kafka = connector.kafka
    if kafka is not None and kafka.registry is not None:
        kafka = replace(kafka, registry=mask(kafka.registry))
    return [connector.kind, connector.format, known, options, as_data(connector.rows), as_data(kafka)]
