"""`keyfold init DIR`: writes a sample app, its test and sample data."""

from __future__ import annotations

import json as json_
import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from keyfold.cli.options import Json
from keyfold.errors import BadOption, HomeUnusable

_TEMPLATE: Final = Path(__file__).parents[2] / "template"
_REGIONS: Final = ("eu", "us", "asia")


def command(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Where to write; created if needed.")] = ".",
    json: Json = False,
) -> None:
    """Write a sample app, its test and sample data.

    They run as they are. Existing files are not overwritten.

    Example: keyfold init shop
    """
    from keyfold.cli import output

    home = Path(directory).expanduser()
    files = _files()
    taken = [name for name in files if (home / name).exists()]
    if taken:
        hint = "another directory, such as: keyfold init shop"
        raise BadOption(f"{taken[0]} already exists", given=directory, hint=hint)
    try:
        for name, content in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(content, "utf-8")
    except OSError as error:
        what = f"cannot write {error.filename or directory}: {error.strerror}"
        raise HomeUnusable(what, given=directory, hint="another directory") from None
    if json:
        output.json_document({"directory": str(home.resolve()), "files": list(files)})
        return
    output.table(("written",), ([str(home / name)] for name in files))
    cd = "" if directory == "." else f"cd {shlex.quote(directory)} && "
    print(f"\nnext: {cd}keyfold run app.py --drain\nthen: keyfold rows orders_app.region_totals")


def _files() -> dict[str, str]:
    own = {name: (_TEMPLATE / name).read_text("utf-8") for name in ("app.py", "test_app.py")}
    return {**own, "data/orders/1.json": _orders(0), "data/orders/2.json": _orders(100)}


def _orders(first: int) -> str:
    """A hundred orders, and one truncated line."""
    rows = [
        {
            "id": str(number),
            "customer": f"c{number * 7 % 23}",
            "region": _REGIONS[number % 3],
            "amount": round(5 + number % 17 * 1.25, 2),
            "at": f"2026-01-01T{number // 60:02d}:{number % 60:02d}:00Z",
        }
        for number in range(first, first + 100)
    ]
    return "".join(f"{json_.dumps(row)}\n" for row in rows) + f'{{"id": "{first + 100}", "custo\n'
