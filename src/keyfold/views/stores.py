"""Finds the views of an app by the address of their store; a new kind of store is a line in `STORES`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from keyfold.errors import BadOption, choice
from keyfold.masking import mask
from keyfold.views.contract import Location, Views

LOCAL: Final = "sqlite"
"""The store of apps that name no other one, and of homes that exist only while a command runs."""
COPY: Final = "views.db"
"""The name of a copy of views in a savepoint."""


def _sqlite(location: Location) -> Views:
    from keyfold.views.sqlite.file import SqliteFile

    return SqliteFile(location.local / "views.db")


def _postgresql(location: Location) -> Views:
    from keyfold.views.postgresql.database import PostgresViews

    return PostgresViews(location)


STORES: Final[dict[str, Callable[[Location], Views]]] = {LOCAL: _sqlite, "postgresql": _postgresql}
"""What finds an app's views in a store, by the name of the store, with which its addresses begin."""


def address_of(setting: str) -> str:
    """The address that a home records for the setting `views`: without its password."""
    if not setting.startswith("postgresql:"):
        return setting
    from keyfold.views.postgresql import address

    return address.without_password(setting)


def views_at(location: Location) -> Views:
    """The views of an app; an unknown store is a `BadOption`."""
    name = location.address.partition(":")[0]
    if name not in STORES:
        raise BadOption(
            f"unknown view store {name!r}", given=mask(location.address), hint=choice(sorted(STORES))
        )
    return STORES[name](location)


def condition(setting: str) -> tuple[bool, str, str | None]:
    """Whether the store of a setting can be used, what it is, and what to do; for `keyfold doctor`."""
    if not setting.startswith("postgresql:"):
        return True, setting, None
    from keyfold.views.postgresql.database import condition

    return condition(address_of(setting))


def views_in(copy: Path) -> Views:
    """The views in a file: a copy that `copy_to` has made, which can be read and changed like any views."""
    from keyfold.views.sqlite.file import SqliteFile

    return SqliteFile(copy)


def damage_advice(error: str) -> str | None:
    """The advice for a damaged store, if an error's text says that one is damaged."""
    from keyfold.views.postgresql import failures
    from keyfold.views.sqlite import connections

    if failures.ALTERED in error:
        return failures.RECOVERY
    return connections.RECOVERY if connections.reports_damage(error) else None
