"""The schema of a PostgreSQL database that has an app's views."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from keyfold.errors import KeyfoldError
from keyfold.masking import mask
from keyfold.views.contract import Location, Views
from keyfold.views.postgresql import connections, failures
from keyfold.views.postgresql.catalog import Catalog
from keyfold.views.postgresql.names import schema_of
from keyfold.views.postgresql.store import PostgresStore
from keyfold.views.stores import views_in


@dataclass(frozen=True)
class PostgresViews(Views):
    """Views in a schema of their own, which nothing else should be put into."""

    location: Location

    def __str__(self) -> str:
        return f"{mask(self.location.address)}, schema {self.schema}"

    @property
    def schema(self) -> str:
        """The name of the schema."""
        return schema_of(self.location)

    @property
    def name(self) -> str:
        database = urlsplit(self.location.address).path.lstrip("/") or "default"
        return f"schema {self.schema} of database {database}"

    def is_in(self, directory: Path) -> bool:
        return False

    def exists(self) -> bool:
        with failures.reading(self), connections.opened(self.location) as connection:
            return Catalog(self.location).exists(connection)

    def open(self, *, read_only: bool) -> PostgresStore:
        return PostgresStore(self.location, str(self), read_only=read_only)

    def remove(self) -> None:
        catalog = Catalog(self.location)
        with failures.writing(self), connections.opened(self.location) as connection:
            connection.execute(connections.CHANGE)
            catalog.lock(connection)
            catalog.remove_all(connection)
            connection.execute("COMMIT")

    def restore_from(self, copy: Path) -> None:
        with views_in(copy).open(read_only=True) as source:
            source.tables()
            with self.open(read_only=False) as target:
                target.replace_all(source)


def condition(address: str) -> tuple[bool, str, str | None]:
    """Whether a server can be used, what it is, and what to do."""
    try:
        location = Location(address, "doctor", "", Path())
        with failures.reading(mask(address)), connections.opened(location) as connection:
            version = connection.info.server_version // 10_000
    except KeyfoldError as error:
        return False, error.what, error.hint or "see what the server logs"
    return True, f"PostgreSQL {version}, {mask(address)}", None
