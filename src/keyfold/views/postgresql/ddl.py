"""What an administrator runs where an app may not create schemas: its schema, and who may read it."""

from __future__ import annotations

from collections.abc import Iterable

from keyfold.errors import BadOption
from keyfold.views.contract import Location, ViewSchema
from keyfold.views.postgresql import address, failures
from keyfold.views.postgresql.catalog import Catalog
from keyfold.views.postgresql.names import quoted


def grants(location: Location, writer: str, reader: str) -> list[str]:
    """The statements that make the schema and give the rights: one role writes, another one reads."""
    database = _database(location)
    schema, owner, reads = (_plain(quoted(name)) for name in (Catalog(location).namespace, writer, reader))
    return [
        f"GRANT CONNECT, TEMPORARY ON DATABASE {database} TO {owner}",
        f"CREATE SCHEMA {schema} AUTHORIZATION {owner}",
        f"GRANT CONNECT ON DATABASE {database} TO {reads}",
        f"GRANT USAGE ON SCHEMA {schema} TO {reads}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reads}",
        # For tables that are created later, or again because their columns have changed.
        f"ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {schema} GRANT SELECT ON TABLES TO {reads}",
    ]


def tables(location: Location, schemas: Iterable[ViewSchema]) -> list[str]:
    """The statements with which keyfold creates the tables itself."""
    catalog = Catalog(location)
    return [_plain(one) for one in (catalog.declaration, *(catalog.table(s).declaration for s in schemas))]


def _database(location: Location) -> str:
    given = failures.client().conninfo.conninfo_to_dict(address.split(location.address)[0])
    name = given.get("dbname")
    if not name:
        raise BadOption(
            "the address names no database", given=location.address, hint="postgresql://host/name"
        )
    return _plain(quoted(str(name)))


def _plain(statement: str) -> str:
    """A statement for people, and for programs that know no parameters."""
    return statement.replace("%%", "%")
