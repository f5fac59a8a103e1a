"""`keyfold serve`: serves the apps of a home over HTTP, running or not."""

from __future__ import annotations

from typing import Annotated

import typer

from keyfold.cli.options import AllowedHosts, Home, Host, Insecure, RateLimit, TlsCert, TlsKey
from keyfold.server.address import HOST, PORT

Port = Annotated[
    int,
    typer.Option("--port", metavar="N", min=0, max=65_535, help="The port to serve on; 0 for a free one."),
]


def command(
    home: Home = None,
    host: Host = HOST,
    port: Port = PORT,
    insecure: Insecure = False,
    allowed_host: AllowedHosts = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    rate_limit: RateLimit = None,
) -> None:
    """Serve the apps of a home over HTTP until Ctrl-C or SIGTERM.

    It serves tables, keys, history and side outputs of all apps of the home, running or stopped, and changes
    nothing. It starts no JVM. Of a home that is not on a local disk it serves views and status.
    `keyfold run` serves its home too, so this is for homes in which nothing runs.

    Others than this machine are served with tokens alone: see keyfold token create.

    Example: keyfold serve --home /srv/shop/.keyfold --port 8642

    Example: keyfold serve --host 0.0.0.0 --tls-cert server.pem --tls-key server.key
    """
    from keyfold.cli import output
    from keyfold.cli.running.serving import Address, served
    from keyfold.cli.running.signals import Stopping
    from keyfold.read import open_home

    asked = Address(host, port, insecure, tuple(allowed_host or ()), tls_cert, tls_key, rate_limit)
    with Stopping(when="") as stopping, open_home(home) as reader, served(reader, asked) as serving:
        stopping.up()
        if not reader.names():
            output.say(f"no app has run in {reader.directory} yet; the first that does appears by itself")
        output.say(f"serving {reader.directory} on {serving.url}")
        while not stopping.asked.is_set() and not serving.ended(0.2):
            pass
        if serving.error is not None:
            raise serving.error
