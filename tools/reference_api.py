"""The pages of the Python API, for tools/reference.py: one per class or area, and an index of all names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_args

_WIDTH = 100


def api_index() -> str:
    """Every public name with its page and the first sentence of its docstring."""
    parts = [_API.format(choices="\n".join(_choices()))]
    for title, names in documented().items():
        rows = [
            f"- [`{name}`]({slug(title)}.md#{_anchor(name)}): {_summary(value)}"
            for name, value in names.items()
        ]
        parts.append("\n".join([f"## [{title}]({slug(title)}.md)", "", *rows]))
    errors = ", ".join(f"[`kf.{name}`](../errors.md#{name.lower()})" for name in public_errors())
    more = "All others are in [`keyfold.errors`](../errors.md)."
    return "\n\n".join([*parts, f"## [Errors](../errors.md)\n\n{errors}. {more}"])


def _choices() -> Iterator[str]:
    """The types whose values are a few words, with these words."""
    from keyfold.plan import nodes
    from keyfold.plan.pattern.syntax import Order

    chosen = {name: getattr(nodes, name) for name in ("Emit", "OnError", "JoinHow", "AsOf", "Duplicates")}
    for name, words in {**chosen, "ProcessMode": nodes.ProcessMode, "Order": Order}.items():
        *most, last = (f'"{word}"' for word in get_args(words))
        yield f"| `{name}` | {', '.join(most)}{' or ' if most else ''}{last} |"


def api_page(title: str, names: dict[str, Any]) -> str:
    """One class or area: its introduction, then each name with its signature and docstring."""
    return "\n\n".join(
        [f"# {title}", _INTROS[title], *(_entry(name, value) for name, value in names.items())]
    )


def slug(title: str) -> str:
    """The file name of a page, without its ending."""
    return title.lower().replace(" ", "-")


def _anchor(name: str) -> str:
    return re.sub(r"[^\w-]", "", name.lower())


def _summary(value: Any) -> str:
    text = inspect.cleandoc(own_doc(value)).split("\n\n")[0]
    return re.split(r"(?<=\.) ", " ".join(text.split()))[0]


def public_errors() -> dict[str, type]:
    """The exceptions that keyfold itself exports; all of them have a page of their own."""
    import keyfold as kf

    found = {name: getattr(kf, name) for name in kf.__all__}
    return {name: value for name, value in sorted(found.items()) if _is_class(value) and _is_error(value)}


def documented() -> dict[str, dict[str, Any]]:
    """What is on each page: dotted names and the objects behind them, by title."""
    import keyfold as kf
    from keyfold import client, read, testing
    from keyfold.engine.live_table import LiveTable

    public = {name: getattr(kf, name) for name in kf.__all__ if name not in public_errors()}
    functions = {name: value for name, value in public.items() if inspect.isfunction(value)}
    prefixes = {"KeyedStream": "keyed", "TableReader": "handle.table(t)"}
    readers = {"TableReader": LiveTable}
    classes = {name: value for name, value in public.items() if _is_class(value)}
    order = ["App", "Stream", "KeyedStream", "Table", "Pattern", "Handle", "TableReader"]
    listed = [*order, *(name for name in classes if name not in order)]
    pages = {
        name: {
            f"kf.{name}": classes[name],
            **_methods(prefixes.get(name, name.lower()), readers.get(name, classes[name])),
        }
        for name in listed
        if name in classes
    }
    of_app = _methods("home.app(a)", read.AppReader)
    return {
        **_areas(functions),
        **pages,
        "Homes": {
            "keyfold.read.open_home": read.open_home,
            "keyfold.read.HomeReader": read.HomeReader,
            **_methods("home", read.HomeReader),
        },
        "Apps of a home": {
            "keyfold.read.AppReader": read.AppReader,
            **{name: value for name, value in of_app.items() if not _of_log(name)},
        },
        "Logs of an app": {name: value for name, value in of_app.items() if _of_log(name)},
        "Client": {
            "keyfold.client.connect": client.connect,
            "keyfold.client.Client": client.Client,
            **_methods("server", client.Client),
            "keyfold.client.RemoteTable": client.RemoteTable,
            **_methods("server.table(t)", client.RemoteTable),
            "keyfold.client.RemotePage": client.RemotePage,
            "keyfold.client.RemotePosition": client.RemotePosition,
            "keyfold.client.Changes": client.Changes,
        },
        "Mirrors and asyncio": {
            "keyfold.client.Mirror": client.Mirror,
            **_methods("mirror", client.Mirror),
            "keyfold.client.connect_async": client.connect_async,
            "keyfold.client.AsyncClient": client.AsyncClient,
            "keyfold.client.AsyncTable": client.AsyncTable,
        },
        "Testing": {
            "keyfold.testing.drive": testing.drive,
            "keyfold.testing.shared_session": testing.shared_session,
            "keyfold.testing.Driver": testing.Driver,
            **_methods("driver", testing.Driver),
        },
    }


def _of_log(name: str) -> bool:
    """Whether a method of an app's reader reads logs: these have a page of their own."""
    return name.rpartition(".")[2] in (
        *("batches", "batch_times", "history", "history_reaches", "explain", "past", "changes", "log"),
        *("rejected", "rejections", "late", "late_batches", "table_with_late_rows", "duplicates"),
        "with_files",
    )


def _areas(functions: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The functions of `keyfold` by what they are about."""
    areas: dict[str, dict[str, Any]] = {"Sources and sinks": {}, "Readers": {}, "Folds and steps": {}}
    for name, value in functions.items():
        fold = name in ("fold", "no", "step")
        title = "Readers" if name.startswith("read_") else "Folds and steps" if fold else "Sources and sinks"
        areas[title][f"kf.{name}"] = value
    return areas


def _is_class(value: object) -> bool:
    return isinstance(value, type)


def _is_error(value: type) -> bool:
    return issubclass(value, Exception)


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
    level = "##"
    if isinstance(value, property):
        return f"{level} {name}\n\n{own_doc(value) or ''}"
    if isinstance(value, type) and name != "kf.App":
        return f"{level} {name}\n\n{own_doc(value)}"
    return f"{level} {name}\n\n```python\n{signature(name, value)}\n```\n\n{own_doc(value)}"


def signature(name: str, value: Any) -> str:
    """The call as one would write it, in one line if it fits, else a line for each argument."""
    found = inspect.signature(value)
    skipped = 1 if "." in name and not name.startswith(("kf.", "keyfold.")) else 0
    parameters = list(found.parameters.values())[skipped:]
    # Arguments of that type can't be given: they are there to be refused with a hint.
    words = list(_words([one for one in parameters if one.annotation != "Never"]))
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


_API = """
# Python API

Every public name, with its signature and docstring, one page per class. Names that begin with `kf.` come from
`import keyfold as kf`; `kf.__version__` is the version as a string. `app.start()` returns a handle and
`handle.table(t)` a table reader. [Declaring an app](../declaring.md) lists the same names in short form, with
the rules.

## Types in the signatures

| type | values |
|---|---|
| `Expr` | Spark SQL as a string, or a function without arguments that returns a `Column` |
| `Connector` | a source or sink: what `kf.files`, `kf.kafka`, `kf.rate`, `kf.rows` and `kf.spark` return |
| `Lookup` | what `kf.lookup` returns |
| `MessageFormat` | the name of a format, or what `kf.avro` and `kf.protobuf` return |
| `Length` | a duration such as "30 minutes", a `timedelta`, or 0 |
| `Within` | a `Length`, or a tuple of two |
{choices}
| `Where`, `OrderBy` | the [filter language](../filters.md) of reads |
| `Wait` | seconds, or a string such as "5 s" |
"""

# A class without an introduction is a KeyError: write one here.
_INTROS = {
    "Sources and sinks": "Where rows come from, where a table's changes go, and static lookups. "
    "See [Read files](../../how-to/files.md), [Read Kafka](../../how-to/kafka-source.md), "
    "[Write to Kafka](../../how-to/kafka-sink.md) and [Look up static data](../../how-to/lookup.md).",
    "Readers": "Reads tables of other apps, in Python or on Spark, from their home or from a topic. "
    "See [Read from a notebook](../../how-to/notebook.md), "
    "[Debug one key](../../how-to/debug-one-key.md) and "
    "[Read a topic back](../../how-to/kafka-sink.md#read-it-back).",
    "Folds and steps": "Folds written as expressions, and the steps of a pattern. "
    "See [Define a fold](../../how-to/define-a-fold.md) and [Patterns](../patterns.md).",
    "App": "A named set of streams and tables. Declaring one touches neither Spark nor any file.",
    "Stream": "Rows from a source, and the streams derived from it. Every method returns a new stream.",
    "KeyedStream": "What `stream.by(...)` returns: a stream with a key, optional windows, and the methods "
    "that turn it into a table.",
    "Table": "Keyed state, as it is declared. To read a table, see [TableReader](tablereader.md).",
    "Pattern": "The steps of a pattern, combined with `>>`, `then`, `any` and `|`. "
    "The [pattern reference](../patterns.md) defines the language.",
    "Handle": "A running app, returned by `app.start()`. It is a context manager.",
    "TableReader": "Reads one table's view: what `handle.table(t)` returns. `df()` needs the running app; "
    "every other method works without Spark.",
    "Homes": "Reads a home from any process, without Spark: `keyfold.read`.",
    "Client": "Reads tables of a server over HTTP, with the standard library: `keyfold.client`. "
    "See [Serve tables over HTTP](../../how-to/serve.md#from-python).",
    "Apps of a home": "Reads one app of a [home](homes.md). [Logs of an app](logs-of-an-app.md) has the "
    "methods that read batches, changes and rows that were not folded.",
    "Logs of an app": "The methods of an [app's reader](apps-of-a-home.md) that read the logs of its tables "
    "and streams: batches, changes, and rows that were not folded.",
    "Mirrors and asyncio": "Copies of tables that a [client](client.md) keeps in step, and its verbs for "
    "asyncio.",
    "Testing": "Runs an app batch by batch on the real engine. "
    "See [Test an app](../../how-to/test-an-app.md).",
}


# Docstrings


def own_doc(value: Any) -> str:
    """A docstring as Markdown. Of a class: its own, not that of a base or one that a dataclass invents."""
    text = vars(value).get("__doc__") if isinstance(value, type) else getattr(value, "__doc__", None)
    if not text or (isinstance(value, type) and text.startswith(f"{value.__name__}(")):
        return ""
    return _fenced(inspect.cleandoc(text))


def _fenced(text: str) -> str:
    """Examples after `>>>` as code: Markdown would take them for quotations."""
    parts = re.split(r"\n\s*\n", text)
    return "\n\n".join(f"```pycon\n{part}\n```" if part.startswith(">>>") else part for part in parts)
