"""Loads the app of a Python file."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from keyfold.cli.app import unknown_method
from keyfold.declare import App
from keyfold.errors import BadApp, KeyfoldError, choice, did_you_mean, near
from keyfold.plan.validate import arguments, latency

_EXAMPLE = 'app = kf.App("shop")'


@dataclass(frozen=True)
class Loaded:
    """An app, and the module it was found in."""

    app: App
    module: types.ModuleType
    path: Path


def load(target: str) -> Loaded:
    """The app of `APP.py` or `APP.py:name`; a file that can't be loaded is a `BadApp`."""
    path, wanted = _split(target)
    module = _module(path)
    app = _choose_app(module, path, wanted)
    arguments.require_tables(app.spec())
    latency.check_app(app.spec())
    return Loaded(app, module, path)


def for_workers(loaded: Loaded) -> None:
    """Gives Spark's Python workers the user's functions, and the modules beside the user's file."""
    beside(loaded)
    by_value(loaded.module)


def beside(loaded: Loaded) -> None:
    """Lets Python workers of a JVM that is started later import the modules beside the user's file."""
    # By default Spark takes the python3 of the PATH, which may lack packages of this one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    known = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(loaded.path.parent), *([known] if known else [])])


def by_value(module: types.ModuleType) -> None:
    """Has a module's functions sent to Python workers, which can't import it, or know an older one."""
    from pyspark import cloudpickle

    register: Callable[[types.ModuleType], None] = cloudpickle.register_pickle_by_value
    register(module)


def _split(target: str) -> tuple[Path, str | None]:
    file, colon, name = target.rpartition(":")
    if colon and not Path(target).exists() and (name.isidentifier() or Path(file).exists()):
        return _existing(file), name
    return _existing(target), None


def _existing(file: str) -> Path:
    path = Path(file).expanduser()
    if path.is_dir():
        raise BadApp(f"{file} is a directory, not a file", hint=_beside(path, "app.py"))
    if not path.is_file():
        raise BadApp(f"there is no file {file}", hint=_beside(path.parent, path.name))
    return path.resolve()


def _beside(directory: Path, name: str) -> str:
    try:
        files = sorted(file.name for file in directory.glob("*.py"))
    except OSError:
        files = []
    listed = choice(files) if 0 < len(files) <= 10 else "the path of a Python file"
    # By their stems: the suffix makes all names similar.
    meant = near(Path(name).stem, [Path(file).stem for file in files])
    return f"did you mean {meant + '.py'!r}?" if meant else listed


def _module(path: Path) -> types.ModuleType:
    # A distinct name: the file may have the name of a module that something else imports.
    name = f"keyfold_app_{path.stem}".replace(".", "_")
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    with _explain_errors(path):
        exec(compile(_source(path), str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def _source(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadApp(f"cannot read {path.name}: {error.strerror}", given=path) from None


@contextlib.contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except KeyfoldError:
        raise
    except SyntaxError as error:
        raise _not_python(path, error) from error
    except (Exception, SystemExit) as error:
        if "null bytes" in str(error):
            raise BadApp(f"{path.name} is not Python: {error}", given=path) from error
        if _lacks_session(error):
            what = f"cannot load {path.name}: a Spark Column needs a Spark session, which does not exist yet"
            raise BadApp(
                what, where=_place(path, error), given=_line(path, error), hint=arguments.AS_TEXT
            ) from error
        what = f"cannot load {path.name}: {traceback.format_exception_only(error)[-1].strip()}"
        raise BadApp(what, where=_place(path, error), hint=unknown_method.hint(error)) from error


def _not_python(path: Path, error: SyntaxError) -> BadApp:
    """The error of a file with a syntax error, with Python's message."""
    file = Path(error.filename or path).name
    where = f"{file}:{error.lineno}" if error.lineno else file
    line = (error.text or "").strip() or None
    return BadApp(f"{file} is not Python: {type(error).__name__}: {error.msg}", where=where, given=line)


def _lacks_session(error: BaseException) -> bool:
    """Whether a PySpark function was called that needs a JVM."""
    frames = traceback.extract_tb(error.__traceback__)
    of_spark = bool(frames) and f"{os.sep}pyspark{os.sep}" in frames[-1].filename
    condition = getattr(error, "getCondition", lambda: None)()
    # Some functions say so, others only assert that there is a session.
    return of_spark and (type(error) is AssertionError or condition == "SESSION_OR_CONTEXT_NOT_EXISTS")


def _place(path: Path, error: BaseException) -> str | None:
    frame = _frame(path, error)
    return f"{Path(frame.filename).name}:{frame.lineno}" if frame else None


def _line(path: Path, error: BaseException) -> str | None:
    frame = _frame(path, error)
    return frame.line if frame else None


def _frame(path: Path, error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame of the user's code: in the file, else in a module beside it."""
    frames = traceback.extract_tb(error.__traceback__)
    beside = f"{path.parent}{os.sep}"
    own = [frame for frame in frames if frame.filename == str(path)]
    near = [f for f in frames if f.filename.startswith(beside) and "site-packages" not in f.filename]
    return next(iter((near or own)[-1:]), None)


def _choose_app(module: types.ModuleType, path: Path, wanted: str | None) -> App:
    apps = {name: value for name, value in vars(module).items() if isinstance(value, App)}
    if wanted is not None:
        return _find_app(apps, module, path, wanted)
    if not apps:
        raise BadApp(f"there is no app in {path.name}", given=path, hint=_EXAMPLE)
    if len({id(app) for app in apps.values()}) > 1:
        hint = " or ".join(f"{path.name}:{name}" for name in apps)
        raise BadApp(f"{path.name} has several apps", given=", ".join(apps), hint=hint)
    return next(iter(apps.values()))


def _find_app(apps: dict[str, App], module: types.ModuleType, path: Path, wanted: str) -> App:
    if wanted in apps:
        return apps[wanted]
    other = vars(module).get(wanted)
    what = f"there is no app {wanted!r} in {path.name}"
    given = None if other is None else f"{wanted} is of type {type(other).__name__}"
    listed = choice(apps) if apps else _EXAMPLE
    raise BadApp(what, given=given, hint=did_you_mean(wanted, apps, listed))
