"""`keyfold views ddl`: what a database needs for an app's views."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from keyfold.cli.options import Home, Json

if TYPE_CHECKING:
    from keyfold.views.contract import Location, Views, ViewSchema

app = typer.Typer(rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Prepare a database for views.

    Example: keyfold views ddl shop
    """


@app.command()
def ddl(
    app: Annotated[str, typer.Argument(metavar="APP", help="The app's name; it need not have run.")],
    writer: Annotated[str, typer.Option(help="The role of the app.")] = "keyfold",
    reader: Annotated[str, typer.Option(help="The role of those who only read.")] = "keyfold_reader",
    home: Home = None,
    json: Json = False,
) -> None:
    """Print the SQL that gives an app its schema in PostgreSQL, and the rights that its roles need.

    The database is that of KEYFOLD_VIEWS, or where the app's views are. Nothing is executed. The tables, as
    far as the app has run, are printed as comments: the app creates them itself.

    Example: keyfold views ddl shop --writer shop_app --reader bi | psql -d views
    """
    from keyfold.cli import output
    from keyfold.views.postgresql import ddl as sql

    location, schemas = _app(app, home)
    grants, tables = sql.grants(location, writer, reader), sql.tables(location, schemas)
    if json:
        output.json_document({"grants": grants, "tables": tables})
        return
    print(f"-- Views of app {location.app} in {location.home}")
    for statement in grants:
        print(f"{statement};")
    print("\n-- The app creates these tables itself:")
    for statement in tables:
        print("\n".join(f"-- {line}" for line in f"{statement};".splitlines()))


def _app(app: str, home: str | None) -> tuple[Location, list[ViewSchema]]:
    from keyfold.engine.storage.home_names import home_of
    from keyfold.engine.storage.layout import AppHome
    from keyfold.errors import BadOption
    from keyfold.plan.validate.arguments import identifier
    from keyfold.settings import load
    from keyfold.views.contract import Location
    from keyfold.views.stores import address_of

    settings = load(home=home)
    found = AppHome(home_of(home).resolve() / identifier(app, "an app"))
    address = next(
        (one for one in (address_of(settings.views), found.views_address) if one.startswith("postgresql:")),
        None,
    )
    if address is None:
        hint = "KEYFOLD_VIEWS=postgresql://user@host:port/database"
        raise BadOption(f"the views of {app} are in no database", given=settings.views, hint=hint)
    uri = found.storage.uri() if not isinstance(settings.home, str) else f"{settings.home}/{app}"
    return Location(address, app, uri, found.local), _schemas(found.views_at(address)) or _schemas(
        found.views
    )


def _schemas(views: Views) -> list[ViewSchema]:
    """Those of all views; none if there are none, or no database yet."""
    from keyfold.errors import QueryError

    with suppress(QueryError):
        if views.exists():
            with views.open(read_only=True) as store:
                return [store.schema(table) for table in store.tables()]
    return []
