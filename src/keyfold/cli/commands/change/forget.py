"""`keyfold forget TABLE KEY...`: erases a key from all that an app has, and checks its receipts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from keyfold.cli.home.removal_dialog import Why, Yes
from keyfold.cli.options import Home, Json, complete_table
from keyfold.errors import BadOption


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="app.table, or table if the home has a single app.",
            autocompletion=complete_table,
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY...",
            help="A value for each column of the key, or for the first ones: then all keys that start so.",
            show_default=False,
        ),
    ] = None,
    receipt: Annotated[
        Path | None,
        typer.Option(
            "--check",
            metavar="RECEIPT",
            help="Erase nothing, but check that a receipt is genuine; exit 1 if it is not.",
            show_default=False,
        ),
    ] = None,
    why: Why = None,
    yes: Yes = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Erase a key for good: from state, view, logs and savepoints.

    The logs have changes, late and rejected rows, and what streams have recorded.

    The app must be stopped. There is no undo. Tables that read this one correct themselves at the next start.
    Prints a receipt of what was erased where, which is also kept in the app's home, in receipts/; it does not
    say what the key was. Sources outside the home are not touched. With values of the first columns of a key
    it erases all keys that start with them, and says how many before it asks for confirmation.

    A receipt that is genuine was signed by this home, has not changed since, and is in the audit log.

    Example: keyfold forget shop.customers 4711 --why "request of 17 November" --yes

    Example: keyfold forget --check erased.json
    """
    if receipt is not None:
        _require_nothing_else(receipt, name, why, yes)
        check(receipt, None, home, json)
    elif name is None or not key:
        hint = "keyfold forget shop.customers 4711, or keyfold forget --check RECEIPT"
        raise BadOption("forget needs a table and a key", given=name, hint=hint)
    else:
        erase(name, key, why, yes, home, json)


def _require_nothing_else(receipt: Path, name: str | None, why: str | None, yes: bool) -> None:
    others = {"NAME": name, "--why": why, "--yes": yes or None}
    given = ", ".join(option for option, value in others.items() if value is not None)
    if given:
        hint = f"keyfold forget --check {receipt}"
        raise BadOption("--check erases nothing, and takes no other option", given=given, hint=hint)


def erase(name: str, key: list[str], why: str | None, yes: bool, home: str | None, json: bool) -> None:
    """Erases a key, or all keys that start so."""
    from keyfold.cli import output
    from keyfold.cli.home.removal_dialog import ask, find_table, require_terminal
    from keyfold.cli.home.spark_session import own_spark
    from keyfold.engine.erasure.forget import forget
    from keyfold.engine.surgery.key_erasure import key_of

    with find_table(name, home) as (app_home, table):
        shown = f"{app_home.path.name}.{table}"
        if not yes:
            require_terminal()
            if key_of(app_home, table, key, some=True).is_whole:
                ask(f"forget {', '.join(key)} of {shown} for good, in savepoints too?")

        def confirm(keys: int) -> None:
            output.say(f"{keys:,} key{'s' * (keys != 1)} of {shown} begin{'s' * (keys == 1)} so")
            if not yes:
                ask("forget all of them for good, in savepoints too?")

        with own_spark(home, stopped=app_home) as spark:
            receipt = forget(spark, app_home, table, key, why, output.say, confirm)
    if json:
        output.json_document(receipt)
        return
    output.table(("where", "keys", "state", "view", "log", "streams"), _lines(receipt))
    for note in receipt["notes"]:
        output.say(note)
    print(f"receipt {receipt['id']}, in receipts/ of the app's home")


def _lines(receipt: dict[str, Any]) -> Any:
    for where, one in (("home", receipt["home"]), *receipt["savepoints"].items()):
        table = f" ({one['table']})" if "table" in one else ""
        rows = (one["state_rows"], one["view_rows"], one["log"], one["streams"])
        yield f"{where}{table}", one["keys"], *rows


def check(file: Path, app: str | None, home: str | None, json: bool) -> None:
    """Checks that a receipt is genuine; `app` is that of the receipt, unless it has another name by now."""
    from keyfold.cli import output
    from keyfold.cli.home.app_home import open_app
    from keyfold.engine.erasure import receipts
    from keyfold.engine.storage import audit

    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadOption(f"{file} can't be read: {error.strerror}", given=file) from None
    given = receipts.parse(content, file)
    with open_app(app or str(given.get("app")), home) as app_home:
        genuine = receipts.is_genuine(app_home.storage, given)
        hash_ = receipts.digest(given)
        audited = any(entry.get("receipt") == hash_ for entry in audit.entries(app_home.storage))
    if json:
        output.json_document({"genuine": genuine, "in_audit_log": audited})
    else:
        print(f"{'genuine' if genuine else 'not genuine'}; {'' if audited else 'not '}in the audit log")
    if not (genuine and audited):
        raise typer.Exit(1)
