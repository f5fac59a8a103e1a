"""`Route`: one line of the route table, from which Starlette, OpenAPI and the docs are made; and `Call`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, Literal, TypeVar

from keyfold.read import AppReader
from keyfold.server import freshness
from keyfold.server.answers import JSON
from keyfold.server.auth.access import RouteRole
from keyfold.server.freshness import View
from keyfold.server.granted.home import GrantedHome
from keyfold.server.key_paths import key_parts
from keyfold.server.parameters import Parameter
from keyfold.server.served_home import ServedHome
from keyfold.views.reader import TableReader

OF_APP: Final = "/api/apps/{app}"
OF_TABLE: Final = f"{OF_APP}/tables/{{table}}"
IN_SCOPE: Final = "keyfold.route"
"""Where the scope of a request has its route, once that is known."""
Method = Literal["GET", "POST"]
T = TypeVar("T")


class _Once(Generic[T]):
    """A property that is read once. That of functools has one lock for all calls in Python 3.11."""

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read, self.__doc__ = read, read.__doc__

    def __get__(self, call: Any, owner: type | None = None) -> T:
        # The next time the attribute is found before this.
        found = call.__dict__[self._read.__name__] = self._read(call)
        return found


@dataclass(frozen=True)
class Call:
    """A request of a route, with checked parameters."""

    home: ServedHome | GrantedHome
    path: Mapping[str, str]
    raw_path: bytes
    values: Mapping[str, Any]
    others: Sequence[tuple[str, str]]
    """Parameters that the route does not have, such as filters by column."""
    accept: str
    body: Any = None
    last_event_id: str | None = None

    @_Once
    def app(self) -> AppReader:
        """The app that the path names, or the only one."""
        return self.home.app(self.path.get("app"))

    @_Once
    def now(self) -> View:
        """The view of the table that the path names, at the begin of the call."""
        return freshness.view_of(self.app, self.path["table"])

    @_Once
    def view(self) -> View:
        """The same, or with `as_of` as it was then."""
        return self.now if self.as_of is None else freshness.view_as_of(self.now, self.as_of)

    @property
    def as_of(self) -> int | datetime | None:
        """The batch or the time of which rows are asked for."""
        found: int | datetime | None = self.values.get("as_of")
        return found

    @property
    def table(self) -> TableReader:
        """The rows of that table."""
        return self.app.table(self.view.table)

    @_Once
    def key(self) -> list[str]:
        """The parts of the key in the path, and what follows it."""
        return key_parts(self.raw_path)


@dataclass(frozen=True)
class Route:
    """An address and what answers it. The docstring of `handle` is its description."""

    name: str
    path: str
    handle: Callable[[Call], Any]
    answer: Any = None
    """The dataclass of the JSON document, or a union of several."""
    parameters: tuple[Parameter, ...] = ()
    role: RouteRole | None = None
    """What one must be at least to ask; a route must say it, and is for admins until then."""
    method: Method = "GET"
    media: tuple[str, ...] = (JSON,)
    body: Mapping[str, Any] | None = None
    """The JSON schema of the request's body."""
    filters: bool = False
    """Whether other parameters are filters by column."""
    cached: bool = False
    """Whether the answer only depends on the view, so that it has an ETag."""

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return self.description.partition("\n")[0]

    @property
    def description(self) -> str:
        """What the route answers."""
        return inspect.cleandoc(self.handle.__doc__ or "")

    @property
    def of_table(self) -> bool:
        """Whether it is about one table, so that its answer says how far the view is."""
        return "{table}" in self.path

    @property
    def paths(self) -> tuple[str, ...]:
        """Its address, and the short form for a home with one app."""
        short = (self.path.replace(OF_APP, "/api", 1),) if self.of_table else ()
        return (self.path, *short)

    @property
    def accepted(self) -> tuple[Parameter, ...]:
        """All parameters of its query."""
        return (*self.parameters, *(freshness.PARAMETERS if self.of_table else ()))
