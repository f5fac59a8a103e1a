"""Writes docs/reference/ from the code, so that it can't say other things than the code does.

python tools/reference.py            # writes the pages
python tools/reference.py --check    # exits 1 if a page differs from what the code says now
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PLACE = Path(__file__).resolve().parents[1] / "docs" / "reference"
MADE = "<!-- made by tools/reference.py from the code; edit the code, then run it again -->\n"
_WIDTH = 100


def pages() -> dict[str, str]:
    """The text of every page, by file name."""
    makers: dict[str, Callable[[], str]] = {
        "settings.md": settings_page,
        "cli.md": cli_page,
        "errors.md": errors_page,
        "names.md": names_page,
    }
    return {name: f"{MADE}\n{make().strip()}\n" for name, make in makers.items()}


# Settings


def settings_page() -> str:
    """Every setting with its environment variable, type, default and meaning."""
    from keyfold.settings import Settings

    kinds = inspect.get_annotations(Settings)
    lines = [_setting(name, field, kinds[name]) for name, field in Settings.model_fields.items()]
    return "\n".join([_SETTINGS, *lines, _SETTINGS_END])


def _setting(name: str, field: Any, kind: str) -> str:
    default = "not set" if field.default is None else f"`{_plain(field.default)}`"
    # No bars: they would end the cell.
    told = re.sub(r"Literal\[(.*)\]", lambda words: words[1].replace(", ", " | "), kind)
    told = f"`{told}`".replace(" | ", "` or `")
    return f"| `{name}` | `KEYFOLD_{name.upper()}` | {told} | {default} | {field.description or ''} |"


def _plain(value: object) -> str:
    return str(value) if isinstance(value, str | Path) else repr(value)


_SETTINGS = """
# Settings

A setting is an argument of `app.start(...)`, else `KEYFOLD_*` in the environment, else the default. On the
command line it is `keyfold run APP.py --set NAME=VALUE`; `--home` and `--master` have options of their own.

| setting | environment | type | default | meaning |
|---|---|---|---|---|"""

_SETTINGS_END = """
An empty variable counts as not set. A name that does not exist, or a value that does not fit, is a
`BadOption`. [Change Spark settings](../how-to/spark-settings.md) shows them at work.
"""


# The command line


def cli_page() -> str:
    """Every command with its help, arguments, options and example."""
    root = command_tree()
    parts = [_CLI.format(help=root.help), *(_option(param) for param in _shown(root.params))]
    parts += [f"\n{_section(name, command)}" for name, command in all_commands(root).items()]
    return "\n".join([*parts, _exit_codes()])


def all_commands(root: Any) -> dict[str, Any]:
    """Commands by their words; a group comes before the commands in it."""
    found: dict[str, Any] = {}
    for name, command in root.commands.items():
        inside = all_commands(command) if hasattr(command, "commands") else {}
        found |= {name: command, **{f"{name} {part}": each for part, each in inside.items()}}
    return found


def command_tree() -> Any:
    """The commands as Typer has them."""
    import typer

    from keyfold.cli.registry import app

    return typer.main.get_command(app)


def _section(name: str, command: Any) -> str:
    text, examples = _split_examples(inspect.cleandoc(command.help or ""))
    arguments = [p for p in _shown(command.params) if p.param_type_name == "argument"]
    usage = " ".join(["keyfold", name, *(_argument_name(p) for p in arguments), "[OPTIONS]"])
    level = "###" if " " in name else "##"
    usage = usage.replace("[OPTIONS]", "COMMAND") if hasattr(command, "commands") else usage
    parts = [f"{level} keyfold {name}", f"```console\n$ {usage}\n```", text]
    parts += ["\n".join(_option(param) for param in _shown(command.params))] if command.params else []
    shown = "\n".join(f"$ {example}" for example in examples)
    parts += [f"For example:\n\n```console\n{shown}\n```"] if examples else []
    return "\n\n".join(parts)


def _shown(params: list[Any]) -> list[Any]:
    return [param for param in params if not getattr(param, "hidden", False)]


def _split_examples(text: str) -> tuple[str, list[str]]:
    before, *examples = text.split("Example: ")
    return before.strip(), [" ".join(example.split()) for example in examples]


def _argument_name(param: Any) -> str:
    name = str(param.metavar or param.name.upper())
    return name if param.required or name.startswith("[") else f"[{name}]"


def _option(param: Any) -> str:
    """One line of a list: no table, since metavars have bars in them."""
    if param.param_type_name == "argument":
        return f"- `{_argument_name(param)}`: {param.help or ''}"
    value = "" if getattr(param, "is_flag", False) else f" {param.metavar or 'TEXT'}"
    names = ", ".join(f"`{name}{value}`" for name in (*param.opts, *param.secondary_opts))
    default = "" if param.default in (None, False, ()) else f" Default: `{param.default}`."
    return f"- {names}: {param.help or ''}{default}"


def _exit_codes() -> str:
    from keyfold.cli import main as cli_main

    return f"\n## Exit codes and errors\n\n{_inside(cli_main)}"


_CLI = """
# Command line

{help}

`keyfold --help` lists the commands, `keyfold COMMAND --help` explains one. NAME is `app.table`, or `table`
where the home has one app. Results go to stdout, all else to stderr. `get`, `rows`, `late`, `rejected` and
`status` start no Java, and work while the app runs and after it stopped.

Options of `keyfold` itself; `--debug` may stand anywhere:
"""


# Errors


def errors_page() -> str:
    """The tree of errors, then each class with its docstring, bases and fields."""
    from keyfold import errors

    parts = [_ERRORS, _inside(errors), _REASONS, *(_reason(r, s) for r, s in errors.STATUS.items())]
    return "\n".join([*parts, *(f"\n{_error(cls)}" for cls in error_classes())])


def error_classes() -> list[type]:
    """Every class of keyfold.errors, in the order of the file, which is that of the tree."""
    from keyfold import errors

    found = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.KeyfoldError)]
    return list(dict.fromkeys(found))


def _error(cls: type) -> str:
    bases = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
    return f"## {cls.__name__}\n\nDerived from {bases}.\n\n{own_doc(cls)}"


def _reason(reason: str, status: int) -> str:
    return f"| `{reason}` | {status} |"


_ERRORS = """
# Errors
"""

_REASONS = """
The first line is `.what`; `.where`, `.given` and `.hint` are the others, and None where there is nothing to
say. Passwords in URLs and the values of options that are secret by their name are masked.

The reasons of a `QueryError`, in `.reason`, and the HTTP status for each, in `.status`:

| reason | status |
|---|---|"""


# Names


def names_page() -> str:
    """The public names, then the classes that they lead to, each with its methods."""
    parts = [_NAMES]
    for title, names in documented().items():
        parts.append(f"## {title}")
        parts += [_entry(name, value) for name, value in names.items()]
    return "\n\n".join(parts)


def documented() -> dict[str, dict[str, Any]]:
    """What is on the page: sections, with dotted names and what they are."""
    import keyfold as kf
    from keyfold import testing
    from keyfold.engine.live_table import LiveTable

    public = {name: getattr(kf, name) for name in kf.__all__}
    errors = {name: value for name, value in public.items() if _is_class(value) and _is_error(value)}
    running = ("Handle", "TableReader")
    declared = {n: v for n, v in public.items() if _is_class(v) and n not in errors and n not in running}
    functions = {name: value for name, value in public.items() if inspect.isfunction(value)}
    return {
        "Functions": {f"kf.{name}": value for name, value in sorted(functions.items())},
        **{name: _with_methods(f"kf.{name}", cls) for name, cls in declared.items()},
        "Handle": {"kf.Handle": kf.Handle, **_methods("handle", kf.Handle)},
        "Tables of a running app": {
            "LiveTable": LiveTable,
            "kf.TableReader": kf.TableReader,
            **_methods("handle.table(t)", LiveTable),
        },
        "Testing": {
            "keyfold.testing.drive": testing.drive,
            "keyfold.testing.shared_session": testing.shared_session,
            **_with_methods("keyfold.testing.Driver", testing.Driver),
        },
        "Errors": {f"kf.{name}": value for name, value in sorted(errors.items())},
    }


def _is_class(value: object) -> bool:
    return isinstance(value, type)


def _is_error(value: type) -> bool:
    return issubclass(value, Exception)


def _with_methods(name: str, cls: type) -> dict[str, Any]:
    return {name: cls, **_methods(cls.__name__.lower(), cls)}


def _methods(prefix: str, cls: type) -> dict[str, Any]:
    """Public methods and properties, those of the class's own bases included, in the order of the code."""
    owners = [c for c in reversed(cls.__mro__) if c.__module__.startswith("keyfold")]
    names = dict.fromkeys(name for owner in owners for name in vars(owner) if not name.startswith("_"))
    found = {name: inspect.getattr_static(cls, name) for name in names}
    return {f"{prefix}.{name}": value for name, value in found.items() if _has_doc(value)}


def _has_doc(value: object) -> bool:
    """Methods and properties; the fields of a dataclass stand in its signature."""
    return isinstance(value, property | staticmethod | classmethod) or inspect.isfunction(value)


def _entry(name: str, value: Any) -> str:
    level = "###"
    if isinstance(value, property):
        return f"{level} {name}\n\n{own_doc(value) or ''}"
    if isinstance(value, type) and _is_error(value):
        return f"{level} {name}\n\n{own_doc(value)} See [errors](errors.md#{value.__name__.lower()})."
    if isinstance(value, type) and name != "kf.App":
        return f"{level} {name}\n\n{own_doc(value)}"
    return f"{level} {name}\n\n```python\n{signature(name, value)}\n```\n\n{own_doc(value)}"


def signature(name: str, value: Any) -> str:
    """The call as one would write it, in one line if it fits, else a line for each argument."""
    found = inspect.signature(value)
    skipped = 1 if "." in name and not name.startswith(("kf.", "keyfold.")) else 0
    words = list(_words(list(found.parameters.values())[skipped:]))
    gives = found.return_annotation
    end = "" if gives is inspect.Signature.empty or isinstance(value, type) else f" -> {_kind(gives)}"
    short = f"{name}({', '.join(words)}){end}"
    if len(short) <= _WIDTH:
        return short
    return "\n".join([f"{name}(", *(f"    {word}," for word in words), f"){end}"])


def _words(parameters: list[inspect.Parameter]) -> Iterator[str]:
    positional = star = False
    for parameter in parameters:
        if positional and parameter.kind is not parameter.POSITIONAL_ONLY:
            positional = False
            yield "/"
        positional = positional or parameter.kind is parameter.POSITIONAL_ONLY
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            star = True
            yield "*"
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        yield _word(parameter)


def _word(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    known = parameter.annotation is not parameter.empty
    kind = f": {_kind(parameter.annotation)}" if known else ""
    if parameter.default is parameter.empty:
        return f"{stars}{parameter.name}{kind}"
    return f"{parameter.name}{kind}{' = ' if known else '='}{parameter.default!r}"


def _kind(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


_NAMES = """
# Names

All that is public, with its signature and its text, as the code has them. `import keyfold as kf` gives the
names that begin with `kf.`, and `kf.__version__`, the version as text. `app.start()` gives a handle,
`handle.table(t)` a table to read. [Declaring](declaring.md) is the same in short, with the rules.

Words in the signatures: `Expr` is Spark SQL as text, or a function without arguments that returns a `Column`.
`Connector` is what `kf.files`, `kf.rate`, `kf.rows` and `kf.spark` give, `Lookup` what `kf.lookup` gives.
`Length` is a time such as "30 minutes", a `timedelta` or 0; `Within` is one, or a tuple of two. `JoinHow` is
"inner", "left", "right", "full", "left_semi" or "left_anti", `AsOf` "arrival" or "event", `Duplicates`
"error", "first" or "last", `ProcessMode` "update" or "append". `Where` and `OrderBy` are those of
[filters of reads](filters.md). `Wait` is seconds, or text such as "5 s".
"""


# Docstrings


def own_doc(value: Any) -> str:
    """A docstring as Markdown. Of a class: its own, not that of a base or one that a dataclass invents."""
    text = vars(value).get("__doc__") if isinstance(value, type) else getattr(value, "__doc__", None)
    if not text or (isinstance(value, type) and text.startswith(f"{value.__name__}(")):
        return ""
    return _fenced(inspect.cleandoc(text))


def _inside(module: Any) -> str:
    """A module's docstring without its first line, which is about the module and not about its subject."""
    return inspect.cleandoc(module.__doc__ or "").partition("\n")[2].strip()


def _fenced(text: str) -> str:
    """Examples after `>>>` as code: Markdown would take them for quotations."""
    parts = re.split(r"\n\s*\n", text)
    return "\n\n".join(f"```pycon\n{part}\n```" if part.startswith(">>>") else part for part in parts)


# What lacks a text


def undocumented() -> list[str]:
    """Every public name, setting, command, option and error that says nothing of itself."""
    return [*_silent_settings(), *silent_commands(command_tree()), *_silent_names(), *_silent_errors()]


def _silent_settings() -> list[str]:
    from keyfold.settings import Settings

    return [f"setting {name}" for name, field in Settings.model_fields.items() if not field.description]


def silent_commands(root: Any) -> list[str]:
    """Commands without a help or an example, arguments and options without a help."""
    found = [f"keyfold: {param.name}" for param in root.params if not (param.help or "").strip()]
    for name, command in all_commands(root).items():
        text, examples = _split_examples(inspect.cleandoc(command.help or ""))
        found += [] if text else [f"keyfold {name}: help"]
        found += [] if examples else [f"keyfold {name}: example"]
        found += [f"keyfold {name}: {p.name}" for p in command.params if not (p.help or "").strip()]
    return found


def _silent_names() -> list[str]:
    return [name for names in documented().values() for name, value in names.items() if not own_doc(value)]


def _silent_errors() -> list[str]:
    return [f"error {cls.__name__}" for cls in error_classes() if not own_doc(cls)]


def differing(place: Path = PLACE) -> list[str]:
    """The pages that are not what the code says now."""
    return [name for name, text in pages().items() if _read(place / name) != text]


def _read(path: Path) -> str | None:
    return path.read_text("utf-8") if path.is_file() else None


def main(arguments: list[str]) -> int:
    """Writes the pages, or with --check looks whether they are up to date."""
    if arguments not in ([], ["--check"]):
        print("usage: python tools/reference.py [--check]", file=sys.stderr)
        return 2
    if silent := undocumented():
        print(f"without a text: {', '.join(silent)}", file=sys.stderr)
        return 1
    if arguments:
        for name in (stale := differing()):
            print(f"docs/reference/{name} is not what the code says; run tools/reference.py", file=sys.stderr)
        return 1 if stale else 0
    PLACE.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (PLACE / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
