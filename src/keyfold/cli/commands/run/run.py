"""`keyfold run APP.py`: runs an app until it is stopped, or until its input is processed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyfold.cli.main import Interrupted
from keyfold.cli.options import (
    AllowedHosts,
    AppFile,
    For,
    Home,
    Host,
    Insecure,
    Json,
    RateLimit,
    TlsCert,
    TlsKey,
    seconds_of,
)
from keyfold.errors import BadOption, did_you_mean
from keyfold.masking import mask_value
from keyfold.server.address import HOST, PORT

if TYPE_CHECKING:
    from keyfold.plan.nodes import AppSpec


Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark's master, such as local[4].")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A keyfold setting or, if it begins with spark., a Spark setting; can be repeated.",
        show_default=False,
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="N",
        min=0,
        max=65_535,
        help=f"The port to serve on; 0 for a free one. Default: {PORT}, or the next one that is free.",
        show_default=False,
    ),
]


def command(
    app: AppFile,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain", help="Process all available input, then stop; exit 1 if every row was rejected."
        ),
    ] = False,
    for_: For = None,
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="TIME", help="Time between batches; overrides the app's."),
    ] = None,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby", help="Wait while another process runs the app, and take over as soon as it ends."
        ),
    ] = False,
    serve: Annotated[
        bool,
        typer.Option("--serve/--no-serve", help="Serve the home over HTTP meanwhile.", show_default=False),
    ] = True,
    host: Host = HOST,
    port: Port = None,
    insecure: Insecure = False,
    allowed_host: AllowedHosts = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    rate_limit: RateLimit = None,
    master: Master = None,
    set_: Set = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Run an app until Ctrl-C or SIGTERM.

    The current batch is completed first.

    In a terminal the tables are shown live; otherwise a line is logged for each table with new batches.

    Meanwhile all apps of the home are served over HTTP on this machine's own address, as by keyfold serve.
    With --drain or --for they are served only if --port is given.

    With --standby it starts Spark and waits. On the same machine it takes over within a second after the
    other process has ended, for whatever reason. On another machine, with a home that both can write, it
    takes over from a killed process when the lease expires (lease_seconds). If no process runs the app, it
    starts the app at once. Run the same code as the other process.

    Example: keyfold run shop.py --drain --set spark.sql.shuffle.partitions=8

    Example: keyfold run shop.py --standby --home hdfs://host/keyfold
    """
    from keyfold.cli import output
    from keyfold.cli.app.loader import beside, by_value, load
    from keyfold.cli.running import run_loop
    from keyfold.cli.running.serving import Address
    from keyfold.cli.terminal import log_lines

    seconds = seconds_of(for_)
    settings = settings_of(set_, master)
    short = drain or for_ is not None
    asked = Address(host, port, insecure, tuple(allowed_host or ()), tls_cert, tls_key, rate_limit)
    address = asked if serve and (port is not None or not short) else None
    with output.only_results():
        loaded = load(app)
        beside(loaded)
        spec = _with_every(loaded.app.spec(), every)
        ended, status, number = run_loop.run_app(
            spec,
            loaded.path.name,
            home=home,
            settings=settings,
            drain=drain,
            seconds=seconds,
            loading=lambda: by_value(loaded.module),
            standby=standby,
            serve=address,
        )
    if drain and ended == "signal":
        raise Interrupted("stopped before all input was processed; the next start continues", number or 2)
    output.json_document({**status.values(), "ended": ended}) if json else log_lines.show(status)
    nothing = log_lines.warn(status)
    if drain and ended == "drained" and nothing:
        name = f"{status.app}.{next(iter(status.tables))}"
        output.error(f"every row was rejected\n  try: keyfold side show rejected {name}")
        raise typer.Exit(1)
    if drain and ended == "time":
        output.say(f"{for_} ended before all input was processed; the next start continues")
        raise typer.Exit(1)


def _with_every(spec: AppSpec, every: str | None) -> AppSpec:
    from keyfold.plan import durations

    return spec if every is None else replace(spec, every_ms=durations.millis(every, "--every"))


def settings_of(given: list[str] | None, master: str | None) -> dict[str, Any]:
    """`--set` and `--master` as settings."""
    return {**_settings(given or []), **({"master": master} if master else {})}


def _settings(given: list[str]) -> dict[str, Any]:
    """`--set` as settings: names with a dot are Spark's."""
    from keyfold.settings import Settings, public_settings

    own: dict[str, Any] = {}
    spark: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadOption("--set takes NAME=VALUE", given=text, hint="--set driver_memory=2g")
        if name.startswith("spark."):
            spark[name] = value
        elif name in Settings.model_fields and name != "spark":
            own[name] = value
        else:
            names = [known for known in public_settings() if known != "spark"]
            hint = did_you_mean(name, names, f"one of: {', '.join(names)}, or a name that begins with spark.")
            raise BadOption(f"unknown setting {name}", given=f"{name}={mask_value(name, value)}", hint=hint)
    return {**own, **({"spark": spark} if spark else {})}
