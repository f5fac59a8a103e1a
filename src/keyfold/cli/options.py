"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from datetime import timedelta


def complete_app(incomplete: str) -> list[str]:
    """The apps of the home, for shell completion."""
    from keyfold.read import open_home

    return [name for name in open_home().names() if name.startswith(incomplete)]


def complete_table(incomplete: str) -> list[str]:
    """The tables of the home, as app.table, for shell completion."""
    from keyfold.read import open_home

    home = open_home()
    names = (f"{app}.{table}" for app in home.names() for table in home.app(app).stored.tables)
    return [name for name in names if name.startswith(incomplete)]


AppFile = Annotated[
    str,
    typer.Argument(metavar="APP.py", help="The app's file; APP.py:NAME if it defines several apps."),
]
TableName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="app.table, or table if the home has a single app.",
        autocompletion=complete_table,
    ),
]
AppName = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="APP",
        help="The app, if the home has several.",
        show_default=False,
        autocompletion=complete_app,
    ),
]
Home = Annotated[
    str | None,
    typer.Option(
        "--home",
        metavar="DIR",
        help="Directory of all state. Default: KEYFOLD_HOME, else .keyfold.",
        show_default=False,
    ),
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="HOST",
        help="The address to serve on; one that others can reach needs tokens, or --insecure.",
    ),
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Serve whoever reaches the address, while the home has no tokens.")
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host",
        metavar="NAME",
        help="Another name under which the server may be asked, as behind a proxy; can be repeated.",
        show_default=False,
    ),
]
TlsCert = Annotated[
    str | None,
    typer.Option("--tls-cert", metavar="FILE", help="Serve HTTPS with this certificate.", show_default=False),
]
TlsKey = Annotated[
    str | None,
    typer.Option("--tls-key", metavar="FILE", help="The private key of --tls-cert.", show_default=False),
]
RateLimit = Annotated[
    str | None,
    typer.Option(
        "--rate-limit",
        metavar="RATE",
        help='Requests that a token or an address may send, such as "100 requests/s", which is the default '
        "for addresses that others can reach.",
        show_default=False,
    ),
]
For = Annotated[
    str | None,
    typer.Option(
        "--for", metavar="TIME", help="Stop this long after the start, such as 20s.", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
AtLeast = Annotated[
    int | None,
    typer.Option(
        "--at-least",
        metavar="BATCH",
        help="Return only once the view has reached this batch.",
        show_default=False,
    ),
]
Wait = Annotated[
    str | None,
    typer.Option(
        "--wait",
        metavar="TIME",
        help="How long to wait for that batch, such as 2s; without --at-least, for the first batch.",
        show_default=False,
    ),
]

OlderThan = Annotated[
    str | None,
    typer.Option(
        "--older-than",
        metavar="DURATION",
        help="Only rows of batches that are older, such as '30 days'. Default: all.",
        show_default=False,
    ),
]


def bound(at_least: int | None, wait: str | None) -> int | None:
    """The batch to wait for: with --wait alone, the first."""
    return 0 if at_least is None and wait is not None else at_least


def age_of(older_than: str | None) -> timedelta | None:
    """The duration of `--older-than`."""
    from datetime import timedelta

    from keyfold.plan import durations

    return (
        None if older_than is None else timedelta(milliseconds=durations.millis(older_than, "--older-than"))
    )


def seconds_of(for_: str | None) -> float | None:
    """The duration of `--for` in seconds."""
    from keyfold.plan import durations

    return None if for_ is None else durations.millis(for_, "--for") / 1000
