"""`keyfold standby APP.py`: waits for the process that runs an app to end, and takes over."""

from __future__ import annotations

from keyfold.cli.commands.run.run import Master, Set, settings_of
from keyfold.cli.options import AppFile, Home, Json


def command(
    app: AppFile, master: Master = None, set_: Set = None, home: Home = None, json: Json = False
) -> None:
    """Take over an app as soon as the process that runs it ends.

    Starts Spark and waits. On the same machine it takes over within a second after the other process has
    ended, for whatever reason. On another machine, with a home that both can write, it takes over from a
    killed process when the lease expires (lease_seconds). If no process runs the app, it starts the app at
    once. Run the same code as the other process.

    Example: keyfold standby shop.py --home hdfs://host/keyfold
    """
    from keyfold.cli import output
    from keyfold.cli.app.loader import beside, by_value, load
    from keyfold.cli.running import run_loop
    from keyfold.cli.terminal import log_lines

    with output.only_results():
        loaded = load(app)
        beside(loaded)
        ended, status, _ = run_loop.lived(
            loaded.app.spec(),
            loaded.path.name,
            home=home,
            settings=settings_of(set_, master),
            loading=lambda: by_value(loaded.module),
            standby=True,
        )
    output.json_document({**status, "ended": ended}) if json else log_lines.show(status)
    log_lines.warn(status)
