"""What Python and the kernel must agree on, beside the names of columns (`test_internal_columns`)."""

from __future__ import annotations

import re
from pathlib import Path

from keyfold.engine.compile import enrich
from keyfold.engine.kafka.messages import NUMBERS
from keyfold.engine.log.manifest import COUNTED, KINDS
from keyfold.kernel.api import ErrorCode
from keyfold.plan import formats
from keyfold.read import side_outputs

SOURCE = Path(__file__).resolve().parents[3] / "src" / "keyfold"


def scala(name: str) -> str:
    return next(SOURCE.rglob(name)).read_text("utf-8")


def test_a_side_output_has_the_same_fields_in_both() -> None:
    (schema,) = re.findall(
        r"val schema: StructType = new StructType\(\)\n(.*?)\n\n", scala("SideOutput.scala"), re.DOTALL
    )
    assert re.findall(r'\.add\("(\w+)"', schema) == list(side_outputs.SideOutput.__annotations__)


def test_errors_have_the_same_codes_in_both() -> None:
    handled, _, told = scala("KernelError.scala").partition("// The texts of these say all there is.")
    assert sorted(re.findall(r'val \w+ = "(\w+)"', handled)) == sorted(ErrorCode)
    sources = [path.read_text("utf-8") for path in SOURCE.rglob("*.scala")]
    thrown = re.findall(r"KernelError\.([A-Z]\w+)", " ".join(sources))
    assert set(re.findall(r"val (\w+) = ", handled + told)) == set(thrown)


def test_a_log_has_the_same_kinds_of_rows_in_both() -> None:
    (kinds,) = re.findall(r"val SideKinds[^=]*= Seq\((.*?)\)", scala("LogWriter.scala"))
    assert {"change", *re.findall(r'"(\w+)"', kinds)} == set(KINDS)


def test_a_log_has_the_same_counts_in_both() -> None:
    (counts,) = re.findall(r'"counts" -> Map\((.*?)\)\.asJava', scala("LogWriter.scala"), re.DOTALL)
    assert re.findall(r'"(\w+)" ->', counts) == list(COUNTED)


def test_the_kind_of_a_reason_is_the_same_in_both() -> None:
    (pattern,) = re.findall(r'ownValues = "(.*)"\.r', scala("RejectionKind.scala"))
    assert pattern.encode().decode("unicode_escape") == side_outputs.OWN_VALUES.pattern.replace('\\"', '"')


def test_the_sides_of_an_enrichment_have_the_same_marks_in_both() -> None:
    marks = dict(re.findall(r"val (StreamRow|TableValue|DeletedValue) = (\d)", scala("EnrichLayout.scala")))
    assert {name: int(mark) for name, mark in marks.items()} == {
        "StreamRow": enrich.STREAM_ROW,
        "TableValue": enrich.TABLE_VALUE,
        "DeletedValue": enrich.DELETED_VALUE,
    }


def test_messages_have_the_same_formats_in_both() -> None:
    (named,) = re.findall(r"byName[^=]*= Map\((.*?)\) \+\+", scala("MessageFormat.scala"), re.DOTALL)
    (numbers,) = re.findall(r"byName[^=]*= Seq(.*?)\.toMap", scala("NumberDecoder.scala"), re.DOTALL)
    decoded_as_numbers = set(re.findall(r'\("(\w+)", ', numbers))
    assert decoded_as_numbers == set(NUMBERS)
    assert {*re.findall(r'"(\w+)" ->', named), *decoded_as_numbers} == set(formats.MESSAGES)
