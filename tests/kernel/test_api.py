"""The protocols of `kernel/api.py` are what the compiled classes have, which are read without a session."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from keyfold.engine.state.mapping import widens
from keyfold.kernel import api, build
from tests.jars import SPARK

pytestmark = pytest.mark.jvm
PACKAGE = "org.apache.spark.sql.keyfold."
EXECUTION = "org.apache.spark.sql.execution.keyfold."

# Classes of which Python calls all that is public.
OWN = {
    api.Kernel: api.ENTRY,
    api.TableDeclaration: f"{PACKAGE}api.TableDeclaration",
    api.StateMigration: f"{PACKAGE}api.StateMigration",
    api.StreamJoin: f"{PACKAGE}join.StreamJoin",
    api.RemoteFiles: f"{EXECUTION}io.RemoteFiles",
}
# Classes that the kernel itself uses too.
SHARED = {
    api.PatternDeclaration: f"{PACKAGE}pattern.PatternDeclaration",
    api.LookupTable: f"{EXECUTION}lookup.LookupTable",
    api.LoadedLookup: f"{EXECUTION}lookup.LoadedLookup",
    api.PartitionClock: f"{PACKAGE}physical.PartitionClock",
    api.LogWriter: f"{PACKAGE}log.LogWriter",
}
FOREIGN = {
    api.Lines: "org.apache.spark.util.CollectionAccumulator<java.lang.String>",
    api.BatchHandler: "java.util.function.Function<java.lang.String, java.lang.String>",
}
JAVA: dict[Any, str] = {
    **OWN,
    **SHARED,
    **FOREIGN,
    api.JavaFrame: "org.apache.spark.sql.Dataset<org.apache.spark.sql.Row>",
    api.JavaColumn: "org.apache.spark.sql.Column",
    api.JavaSession: "org.apache.spark.sql.SparkSession",
    str: "java.lang.String",
    bytes: "byte[]",
    bool: "boolean",
    None: "void",
}
# A query is only passed on to PySpark.
RETURNED = JAVA | {api.JavaQuery: "java.lang.Object"}
BOXED = {"java.lang.Long": "long", "java.lang.Integer": "int"}

SCALA = Path(api.__file__).parent / "scala" / "api"
# Methods for other classes of the kernel, which are public once they are compiled.
PROTECTED = re.compile(r"protected (?:def|val|var) (\w+)")

PROTOCOLS = [
    one
    for one in vars(api).values()
    # Once pandas is imported, classes such as `Sequence` count as subclasses of `Protocol`.
    if inspect.isclass(one) and Protocol in one.__mro__[1:]
]


class Method(NamedTuple):
    """A method of a compiled class, with the generic types of its parameters."""

    returns: str
    parameters: tuple[str, ...]


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    """A JVM with the kernel and Spark's classes, and nothing started."""
    classes = f"{SPARK}/*:{build.kernel_jar()}"
    (py4j,) = Path(SPARK).glob("py4j-*.jar")
    port = launch_gateway(jarpath=str(py4j), classpath=classes, java_path=build.java(), die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    yield gateway.jvm
    gateway.shutdown()


def compiled(jvm: Any, name: str) -> dict[str, Method]:
    """The public methods of a class that Scala's compiler has not added; none of them is overloaded."""
    hidden = {name for path in SCALA.rglob("*.scala") for name in PROTECTED.findall(path.read_text("utf-8"))}
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    found = {}
    for method in jvm.java.lang.Class.forName(name, False, loader).getMethods():
        text, called = str(method.toGenericString()), method.getName()
        own = "keyfold" in method.getDeclaringClass().getName() and " static " not in text
        if own and "$" not in called and called not in hidden:
            assert called not in found, f"{name}.{called} is overloaded: Py4J would have to choose"
            found[called] = parsed(text)
    return found


def parsed(text: str) -> Method:
    """A method as Java prints it: `public int some.Class.name(java.util.List<java.lang.String>,int)`."""
    head, _, rest = text.partition("(")
    parameters, depth = [""], 0
    for char in rest.partition(")")[0]:
        depth += (char == "<") - (char == ">")
        if char == "," and depth == 0:
            parameters.append("")
        else:
            parameters[-1] += char
    return Method(head.split(" ")[-2], tuple(one for one in parameters if one))


def hints(protocol: type, name: str) -> tuple[Any, list[Any]]:
    """The type that a method of a protocol returns, and those of its parameters."""
    found = typing.get_type_hints(getattr(protocol, name))
    returned = found.pop("return")
    return None if returned is type(None) else returned, list(found.values())


def methods(protocol: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(protocol, inspect.isfunction) if not name.startswith("_")]


def accepts(hint: Any, java: str, *, returned: bool = False) -> bool:
    """Whether the types of both sides are the same; lists go to the JVM, and arrays come back."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (one,) = (arg for arg in args if arg is not type(None))
        # A primitive can't be null.
        return java not in ("long", "int", "boolean") and accepts(one, BOXED.get(java, java))
    if origin is Literal:
        return java == "java.lang.String"
    if origin is Mapping:
        return java == "java.util.Map<java.lang.String, java.lang.String>" and args == (str, str)
    if origin is Sequence:
        inner = re.fullmatch(r"(.*)\[\]" if returned else r"java\.util\.List<(.*)>", java)
        return inner is not None and accepts(args[0], inner[1])
    if hint is int:
        return java in ("int", "long")
    return java == (RETURNED if returned else JAVA).get(hint)


@pytest.mark.parametrize("protocol", [*OWN, *SHARED], ids=lambda one: one.__name__)
def test_a_protocol_has_the_names_and_types_of_its_class(jvm: Any, protocol: type) -> None:
    found = compiled(jvm, JAVA[protocol])
    assert set(methods(protocol)) <= set(found)
    if protocol in OWN:
        assert set(found) <= set(methods(protocol))
    for name in methods(protocol):
        returned, parameters = hints(protocol, name)
        assert accepts(returned, found[name].returns, returned=True), (name, returned, found[name])
        assert len(parameters) == len(found[name].parameters), (name, found[name])
        for hint, java in zip(parameters, found[name].parameters, strict=True):
            assert accepts(hint, java), (name, hint, java)


@pytest.mark.parametrize("name", [api.ENTRY, api.BROKER, api.CHECKPOINT_FILES])
def test_a_class_that_is_named_exists(jvm: Any, name: str) -> None:
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    assert jvm.java.lang.Class.forName(name, False, loader).getName() == name


def test_every_protocol_is_compared_itself_or_as_a_part_of_another() -> None:
    parts = {base for protocol in OWN for base in protocol.__mro__}
    assert [one for one in PROTOCOLS if one not in {*parts, *SHARED, *FOREIGN}] == []


def test_no_method_of_a_protocol_is_unused() -> None:
    source = Path(api.__file__).parents[1]
    files = [path for path in source.rglob("*.py") if path != Path(api.__file__)]
    text = "\n".join(path.read_text("utf-8") for path in files)
    names = {name for protocol in PROTOCOLS if protocol is not api.BatchHandler for name in methods(protocol)}
    assert {name for name in names if not re.search(rf"\.{name}\b", text)} == set()


def test_both_languages_allow_a_migration_the_same_changes_of_a_type(jvm: Any) -> None:
    types_ = jvm.org.apache.spark.sql.types.DataType
    fits = jvm.java.lang.Class.forName(f"{PACKAGE}api.Widening$").getField("MODULE$").get(None).fits
    sizes = ["3,0", "5,2", "10,0", "12,2", "20,0", "38,18"]
    names = ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", *(f"DECIMAL({one})" for one in sizes)]
    names += ["STRING", "BOOLEAN", "DATE", "TIMESTAMP", "BINARY", "ARRAY<INT>", "ARRAY<BIGINT>"]
    java = {name: types_.fromDDL(name) for name in names}
    assert [name for name in names if str(java[name].sql()) != name] == []
    kernel = {(a, b) for a in names for b in names if fits(java[a], java[b])}
    assert {(a, b) for a in names for b in names if widens(a, b)} == kernel
