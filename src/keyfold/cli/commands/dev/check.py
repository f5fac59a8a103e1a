"""`keyfold check APP.py`: validates an app against Spark and the state on disk, without running it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from keyfold.cli.app.check import Finding, empty_feeds, findings_of, findings_recorded
from keyfold.cli.options import AppFile, Home, Json

if TYPE_CHECKING:
    from keyfold.cli.app.loader import Loaded
    from keyfold.engine.storage.layout import AppHome


def command(app: AppFile, home: Home = None, json: Json = False) -> None:
    """Check an app without running it.

    Has Spark analyze every expression, unless the app is as it was at its last start, and compares each table
    with the state on disk. Processes no rows and writes nothing to the home. Exits with 2 if the declaration
    is wrong or does not fit the state, and with 1 if files of the home are damaged.

    Example: keyfold check shop.py --home /srv/keyfold
    """
    from keyfold.cli import main, output
    from keyfold.cli.app.loader import load

    with output.only_results():
        loaded = load(app)
        app_home, findings = _examine(loaded, home)
    if json:
        output.json_document(_document(loaded.app.name, app_home, findings))
    else:
        _show(loaded.app.name, app_home, findings)
    if codes := {main.code_of(finding.error) for finding in findings if finding.error}:
        raise typer.Exit(max(codes))


def _examine(loaded: Loaded, home: str | None) -> tuple[AppHome, list[Finding]]:
    from keyfold.cli import output
    from keyfold.cli.app.loader import for_workers
    from keyfold.cli.home.spark_session import session_of
    from keyfold.engine import session
    from keyfold.engine.jvm import process
    from keyfold.engine.recovery import compilation_record, remote_home
    from keyfold.engine.storage.home_names import home_of
    from keyfold.engine.storage.layout import AppHome
    from keyfold.engine.storage.remote import SparkStorage
    from keyfold.settings import load

    settings = load(home=home)
    if home:
        home_of(home)  # for its error, if that is not a directory
    spec = loaded.app.spec()
    # Not local_app_home(), which creates the directory.
    here = AppHome(settings.local_directory / spec.name)
    if isinstance(settings.home, Path):
        here = AppHome(settings.home.resolve() / spec.name)
        stored = here.read_plan()  # also for its error, before Spark is started
        if (known := compilation_record.read_compiled(spec, settings, here)) is not None:
            output.say(compilation_record.UNCHANGED)
            return here, findings_recorded(known, stored, here)
    for_workers(loaded)
    with (
        TemporaryDirectory(prefix="keyfold-check-", ignore_cleanup_errors=True) as directory,
        process.ending_java(),
        process.reporting_java_end(spec.name),
    ):
        # Spark logs to the home of its settings, which must not be the one that is checked.
        own = settings.model_copy(update={"home": Path(directory), "local": None})
        spark = session_of(own, small=True)
        feeds = empty_feeds(spec, Path(directory) / "feeds")
        if isinstance(settings.home, Path):
            return here, findings_of(spark, spec, feeds, here.read_plan(), here)
        with remote_home.explain_errors(settings.home):
            storage = SparkStorage(session.kernel(spark), spark, f"{settings.home}/{spec.name}")
            app_home = AppHome(here.path, storage)
            return app_home, findings_of(spark, spec, feeds, app_home.read_plan(), app_home)


def _document(app: str, home: AppHome, findings: list[Finding]) -> dict[str, Any]:
    return {
        "app": app,
        "home": home.shown,
        "ok": not any(finding.error for finding in findings),
        "tables": [_table_document(finding) for finding in findings],
    }


def _table_document(finding: Finding) -> dict[str, Any]:
    from keyfold.cli import main

    return {
        "name": finding.table,
        "ok": finding.error is None,
        "state": finding.state,
        "fingerprint": finding.fingerprint,
        "keys": [{"name": name, "type": kind} for name, kind in finding.keys],
        "columns": [{"name": name, "type": kind} for name, kind in finding.columns],
        **({} if finding.error is None else {"error": main.document(finding.error)}),
    }


_STATES = {
    "new": "no state on disk yet",
    "fits": "fits the state on disk",
    "differs": "does not fit the state on disk",
}


def _show(app: str, home: AppHome, findings: list[Finding]) -> None:
    from keyfold.cli import main, output

    for finding in findings:
        state = f", {_STATES[finding.state]}" if finding.state else ""
        print(f"{app}.{finding.table}: {'OK' if finding.error is None else 'ERROR'}{state}")
        if finding.fingerprint:
            print(f"  fingerprint  {finding.fingerprint}")
            for label, columns in (("key", finding.keys), ("columns", finding.columns)):
                print(f"  {label:<11}  {', '.join(f'{name} {kind}' for name, kind in columns)}")
        if finding.error is not None:
            output.error(main.text_of(finding.error))
    print(f"home: {home.shown}")
