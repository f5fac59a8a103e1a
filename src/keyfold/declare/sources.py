"""Sources and sinks as plain data: `kf.files`, `kf.rate`, `kf.rows`, `kf.spark` and `kf.lookup`."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, NoReturn, cast

from keyfold.errors import BadOption
from keyfold.masking import mask_value
from keyfold.plan import durations, file_options, formats
from keyfold.plan.call_site import call_site, location
from keyfold.plan.ddl import columns
from keyfold.plan.nodes import Connector, Duplicates, Lookup
from keyfold.plan.validate import arguments


def files(path: str | os.PathLike[str], format: str = "json", **options: object) -> Connector:
    """Files of a directory or glob, read as they appear: JSON lines, CSV or Parquet.

    Options are those of Spark's reader: `kf.files("in/*.csv", format="csv", sep=";")`. One default differs
    from Spark's: a CSV file must begin with a header that names the schema's columns in order. Set
    `header=False` for files without a header; otherwise a file with another header, or without one, is
    rejected as a whole.
    """
    checked = arguments.one_of(format, formats.FILES, "the format of kf.files", call_site())
    file_options.check(checked, options, call_site())
    return Connector("files", checked, _path(path, "kf.files"), checked_options(options))


def rate(rows_per_second: int = 1, **options: object) -> Connector:
    """Generated rows with the columns `timestamp` and `value`, for experiments and load tests."""
    speed = arguments.positive(rows_per_second, "rows_per_second", call_site())
    return Connector("rate", "rate", None, checked_options({"rowsPerSecond": speed, **options}))


def rows(rows: Iterable[Mapping[str, object]]) -> Connector:
    """Rows written in the app itself, as dicts. They are copied: later changes to the list have no effect.

    >>> source = kf.rows([{"id": "1", "amount": 10.0}])
    """
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        hint = 'a list of dicts, [{"id": "1"}]'
        raise BadOption("kf.rows takes a list of rows", where=call_site(), given=repr(rows), hint=hint)
    return Connector("rows", "json", None, (), tuple(_row(row, number) for number, row in enumerate(rows)))


def spark(format: str, path: str | os.PathLike[str] | None = None, **options: object) -> Connector:
    """Any other source or sink that Spark has a format for: Delta, Iceberg, a socket.

    >>> source = kf.spark("socket", host="localhost", port=9999)
    """
    arguments.instance(
        format, str, "the format of kf.spark must be a string", 'kf.spark("delta")', call_site()
    )
    if not format.strip():
        raise BadOption(
            "the format of kf.spark is empty", where=call_site(), hint='kf.spark("delta", "path/of/table")'
        )
    return Connector(
        "spark", format, None if path is None else _path(path, "kf.spark"), checked_options(options)
    )


def lookup(
    name: str,
    source: Connector,
    schema: str | None = None,
    refresh: str | timedelta | None = None,
    duplicates: Duplicates = "error",
    help: str = "",
) -> Lookup:
    """A static table for `enrich`: read as a whole at the start, and reloaded every `refresh`.

    >>> prices = kf.lookup("prices", kf.files("prices.csv", format="csv"), "sku string, price double")
    >>> prices.name
    'prices'

    If a reload fails, the last good version stays in use. `duplicates` says what happens to several rows of a
    key: an error that names some of them, or the first or last row wins.
    """
    site = call_site()
    where = location(arguments.identifier(name, "a lookup", site), site)
    ddl = _lookup_schema(name, schema, where)
    checked = cast(Duplicates, arguments.one_of(duplicates, ("error", "first", "last"), "duplicates", where))
    every = None if refresh is None else durations.millis(refresh, "refresh", where=where)
    return Lookup(
        name, _check_bounded(source, where), ddl, every, checked, arguments.help_text(help, where), site
    )


class FrozenRow(dict[str, Any]):
    """A dict that can't change, so that a plan can be hashed and compared."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("rows of a plan can't change")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would rebuild the dict item by item, through the refused __setitem__.
        return FrozenRow, (dict(self),)


def _lookup_schema(name: str, schema: object, where: object) -> str:
    if schema is None:
        problem, hint = f"lookup {name!r} needs a schema", "schema='sku string, price double'"
        raise BadOption(problem, where=where, hint=hint)
    columns(schema, where)
    return str(schema).strip()


def _check_bounded(source: object, where: object) -> Connector:
    """The source, if it is bounded."""
    advice = 'kf.files("prices.csv", format="csv"), kf.rows([...]) or kf.spark("delta", "path")'
    checked = arguments.instance(source, Connector, "lookup takes a source", advice, where)
    if checked.kind == "kafka" or formats.find_format(checked.format).only_streamed:
        problem = "a lookup needs a bounded source, since it is read as a whole"
        given = "kf.kafka(...)" if checked.kind == "kafka" else checked.format
        raise BadOption(problem, where=where, given=given, hint=advice)
    return checked


def _path(path: object, what: str) -> str:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip():
        raise BadOption(f"the path of {what} must be a string or a Path", where=call_site(), given=repr(path))
    return text


def checked_options(options: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Options as the text that Spark takes."""
    arguments.unique(options, "option", call_site())
    return tuple((name, _option(name, value)) for name, value in options.items())


def _option(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float | Decimal | os.PathLike):
        return str(value)
    hint = "a string, a number, True or False"
    raise BadOption(
        f"option {name!r} has a value that Spark does not accept",
        where=call_site(),
        given=mask_value(name, repr(value)),
        hint=hint,
    )


def _row(row: object, number: int) -> FrozenRow:
    if not isinstance(row, Mapping):
        raise BadOption(f"row {number} of kf.rows is not a dict", where=call_site(), given=repr(row))
    return _frozen_dict(row, f"row {number} of kf.rows")


def _frozen_dict(value: Mapping[Any, Any], home: str) -> FrozenRow:
    for name in value:
        if not isinstance(name, str):
            raise BadOption(f"a name in {home} is not a string", where=call_site(), given=repr(name))
    return FrozenRow({name: _freeze(item, f"{name!r} of {home}") for name, item in value.items()})


def _freeze(value: Any, home: str) -> Any:
    """The value as JSON, in the form that Spark's JSON reader accepts."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _NOT_FINITE[str(value)]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return _frozen_dict(value, home)
    if isinstance(value, list | tuple):
        return tuple(_freeze(item, f"{home}[{index}]") for index, item in enumerate(value))
    raise BadOption(f"{home} has a type that rows do not support", where=call_site(), given=repr(value))


_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
