"""`GrantedHome`: the apps of a served home in which a token may read a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry

from keyfold.errors import QueryError, choice, did_you_mean
from keyfold.read import AppReader
from keyfold.read.status import AppStatus
from keyfold.server.auth.access import Access
from keyfold.server.granted.app import GrantedApp
from keyfold.server.log_watch import LogWatch
from keyfold.server.metrics.collector import HomeCollector
from keyfold.server.metrics.requests import ServerMetrics
from keyfold.server.served_home import ServedHome

T = TypeVar("T")
_MOST: Final = 1_000


class GrantedHome:
    """What `ServedHome` is to all, for one token. What it may not read is not there."""

    def __init__(self, home: ServedHome, access: Access) -> None:
        self._home, self._access = home, access
        self._apps: dict[str, GrantedApp] = {}

    @property
    def directory(self) -> str:
        """The home, for people."""
        return self._home.directory

    @property
    def requests(self) -> ServerMetrics:
        """Counts and times requests, of all."""
        return self._home.requests

    @property
    def metrics(self) -> CollectorRegistry:
        """What `/metrics` shows to it."""
        return self.requests.registry(HomeCollector(self.names, self._status))

    @property
    def watch(self) -> LogWatch:
        """Notices new batches, for all."""
        return self._home.watch

    def names(self) -> list[str]:
        """The apps of which it may read a table."""
        return [name for name in self._home.names() if self._access.reads_app(name)]

    def app(self, name: str | None, hint: str = "/api/apps/APP/tables/...") -> AppReader:
        """An app by its name, or the only one that it may read."""
        names = self.names()
        if name is None:
            if len(names) > 1:
                what = "the home has several apps, and the address does not say which"
                raise QueryError(what, reason="not_found", hint=f"{hint}; APP is {choice(names)}")
            name = names[0] if names else ""
        if name not in names:
            what = f"no app {name}" if name else "no app that the token may read"
            near = did_you_mean(name, names, choice(names) if names else None)
            raise QueryError(what, reason="not_found", given=name or None, hint=near)
        return self._granted(self._home.app(name, hint))

    def recent(self, name: str | None) -> AppReader | None:
        """The app, if it was found a moment ago."""
        name = name or self._access.only_app
        if name is None and self._access.tables is not None:
            return None
        found = self._home.recent(name)
        return None if found is None else self._granted(found)

    async def in_thread(self, app: AppReader | None, work: Callable[..., T], *given: Any) -> T:
        """Does blocking work; threads are shared by all who read the app."""
        whole = app.whole if isinstance(app, GrantedApp) else app
        return await self._home.in_thread(whole, work, *given)

    def _status(self, name: str) -> AppStatus:
        return self._granted(self._home.without_views(name)).status(views=False)

    def _granted(self, app: AppReader) -> GrantedApp:
        known = self._apps.get(app.name)
        if known is None or known.whole is not app:
            known = self._apps[app.name] = GrantedApp(app, self._access)
        return known


class GrantedHomes:
    """A home for each token that has come."""

    def __init__(self, home: ServedHome) -> None:
        self._home = home
        self._known: dict[Access, GrantedHome] = {}

    def of(self, access: Access) -> ServedHome | GrantedHome:
        """The home as somebody may read it."""
        if access.whole:
            return self._home
        known = self._known.get(access)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[access] = GrantedHome(self._home, access)
        return known
