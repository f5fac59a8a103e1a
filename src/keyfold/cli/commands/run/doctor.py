"""`keyfold doctor`: checks that this machine has what keyfold needs."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import typer

from keyfold.cli.options import Home, Json
from keyfold.cli.reports.finding import Finding, locale, ports
from keyfold.errors import KeyfoldError

# What one start needs: libraries that Java unpacks, Spark's local files, the first checkpoints.
_NEEDED_DISK: Final = 250_000_000
_LITTLE_DISK: Final = 1_000_000_000
_LITTLE_MEMORY: Final = 4_000_000_000


def command(home: Home = None, json: Json = False) -> None:
    """Check that this machine has what keyfold needs.

    Python, Java, Spark, the kernel, Kafka's connector, home, views, disk, memory, ports, locale.

    Exits with 1 if something is missing, and prints what to do about it.

    Example: keyfold doctor --home /srv/keyfold
    """
    from keyfold.cli import output
    from keyfold.engine.storage.home_names import home_of

    app_home = home_of(home)
    checks: dict[str, Callable[[], Finding]] = {
        "Python": _python,
        "Java": _java,
        "Spark": _spark,
        "kernel": _kernel,
        "class archive": _class_archive,
        "Kafka": _kafka,
        "home": lambda: _writable(app_home),
        "views": _views,
        "disk": lambda: _disk(app_home),
        "memory": _memory,
        "ports": ports,
        "locale": locale,
    }
    findings = [_finding_of(what, check) for what, check in checks.items()]
    well = all(finding.ok is not False for finding in findings)
    if json:
        output.json_document({"ok": well, "findings": [vars(finding) for finding in findings]})
    else:
        marks = {True: "ok", None: "warning", False: "MISSING"}
        output.table(("", "what", "found"), ((marks[f.ok], f.what, f.found) for f in findings))
        for finding in findings:
            if finding.do:
                print(f"{finding.what}: {finding.do}")
        print("all checks passed" if well else "some checks failed, see above")
    if not well:
        raise typer.Exit(1)


def _finding_of(what: str, check: Callable[[], Finding]) -> Finding:
    """The finding of a check; an exception is a finding too, so that the other checks run."""
    try:
        return check()
    except KeyfoldError as error:
        return Finding(what, False, error.what, error.hint)
    except Exception as error:
        return Finding(what, False, f"{type(error).__name__}: {error}")


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info >= (3, 11)
    do = None if ok else "install Python 3.11 or newer"
    return Finding("Python", ok, f"{version}, {sys.executable}", do)


def _java() -> Finding:
    from keyfold.kernel.build import java, java_version

    try:
        found = java()
    except KeyfoldError as error:
        return Finding("Java", False, f"{error.what}: {error.given}", error.hint)
    return Finding("Java", True, f"{java_version(found)}, {found}")


def _spark() -> Finding:
    try:
        from pyspark.version import __version__ as version
    except ImportError as error:
        return Finding("Spark", False, str(error), 'pip install "pyspark>=4.3,<4.4"')
    ok = version.startswith("4.3.")
    return Finding("Spark", ok, f"PySpark {version}", None if ok else 'pip install "pyspark>=4.3,<4.4"')


def _kernel() -> Finding:
    from keyfold.kernel import build
    from keyfold.settings import load

    found = build.find_jar(load().kernel_dir)
    if found is not None:
        return Finding("kernel", True, f"compiled, {found.parent}")
    return Finding("kernel", None, "not compiled yet; the first start compiles it, in seconds")


def _class_archive() -> Finding:
    from keyfold.engine.jvm.class_archive import condition
    from keyfold.settings import load

    found, wrong = condition(load())
    # Only a slower start follows from a missing one.
    do = "starts take longer without it; a later run has it written again" if wrong else None
    return Finding("class archive", None if wrong else True, found, do)


def _kafka() -> Finding:
    from keyfold.engine.kafka import connector
    from keyfold.settings import load

    return Finding("Kafka", True, connector.condition(load()))


def _writable(home: Path) -> Finding:
    app_home = _nearest(home)
    new = "" if home.exists() else ", will be created"
    try:
        # Tried, since permission bits don't tell all: a file system may be read-only.
        with tempfile.TemporaryFile(dir=app_home):
            return Finding("home", True, f"{home.resolve()}{new}")
    except OSError as error:
        what = f"cannot write to {app_home}: {error.strerror}"
        return Finding("home", False, what, "use another directory: --home DIR, or KEYFOLD_HOME")


def _views() -> Finding:
    from keyfold.settings import load
    from keyfold.views.stores import condition

    return Finding("views", *condition(load().views))


def _disk(home: Path) -> Finding:
    from keyfold.cli.formatting import size

    free = shutil.disk_usage(_nearest(home)).free
    ok = False if free < _NEEDED_DISK else None if free < _LITTLE_DISK else True
    do = f"a start needs {size(_NEEDED_DISK)}, state and views more: free some space, or use another --home"
    return Finding("disk", ok, f"{size(free)} free", None if ok else do)


def _memory() -> Finding:
    import psutil

    from keyfold.cli.formatting import size
    from keyfold.settings import load

    free = psutil.virtual_memory().available
    few = free < _LITTLE_MEMORY
    limit = load().driver_memory
    do = f"Spark's JVM takes up to KEYFOLD_DRIVER_MEMORY ({limit}); set it lower, such as 1g" if few else None
    return Finding("memory", None if few else True, f"{size(free)} available", do)


def _nearest(path: Path) -> Path:
    """The path, or its nearest parent that exists."""
    home = path.resolve()
    while not home.exists() and home != home.parent:
        home = home.parent
    return home
