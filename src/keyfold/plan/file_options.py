"""The options of Spark's readers and writers of files: Spark ignores unknown ones.

A test compares these lists with Spark's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from keyfold.errors import BadOption, did_you_mean
from keyfold.masking import secret

_LISTING: Final = (
    "basePath", "ignoreCorruptFiles", "ignoreInvalidPartitionPaths", "ignoreMissingFiles",
    "ignoredPathSegmentRegex", "modifiedAfter", "modifiedBefore", "pathGlobFilter", "recursiveFileLookup",
    "timeZone",
)  # fmt: skip
_STREAMING: Final = (
    "cleanSource", "discardCachedInputRatio", "fileNameOnly", "latestFirst", "maxBytesPerTrigger",
    "maxCachedFiles", "maxFileAge", "maxFilesPerTrigger", "sourceArchiveDir",
)  # fmt: skip
_WRITING: Final = ("compression", "maxRecordsPerFile", "partitionOverwriteMode")
_TEXT: Final = (
    "charset", "columnNameOfCorruptRecord", "dateFormat", "enableDateTimeParsingFallback", "encoding",
    "lineSep", "locale", "mode", "multiLine", "samplingRatio", "singleVariantColumn", "timeFormat",
    "timestampFormat", "timestampNTZFormat",
)  # fmt: skip
_OF_FORMAT: Final = {
    "json": (
        *_TEXT, "allowBackslashEscapingAnyCharacter", "allowComments", "allowNonNumericNumbers",
        "allowNumericLeadingZeros", "allowSingleQuotes", "allowUnquotedControlChars",
        "allowUnquotedFieldNames", "dropFieldIfAllNull", "explodeEmbeddedArray", "ignoreNullFields",
        "inferTimestamp", "prefersDecimal", "pretty", "primitivesAsString", "sortKeys", "useUnsafeRow",
        "writeNonAsciiCharacterAsCodePoint",
    ),
    "csv": (
        *_TEXT, "charToEscapeQuoteEscaping", "codec", "columnPruning", "comment", "delimiter", "emptyValue",
        "enforceSchema", "escape", "escapeQuotes", "extension", "header", "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace", "inferSchema", "inputBufferSize", "maxCharsPerColumn", "maxColumns",
        "nanValue", "negativeInf", "nullValue", "positiveInf", "preferDate", "quote", "quoteAll", "sep",
        "unescapedQuoteHandling",
    ),
    "parquet": ("datetimeRebaseMode", "int96RebaseMode", "mergeSchema"),
}  # fmt: skip


def of_format(format: str) -> tuple[str, ...]:
    """The options of a format itself, wherever its bytes come from."""
    return _OF_FORMAT[format]


def options_of(format: str) -> tuple[str, ...]:
    """The options of files of a format."""
    return (*_LISTING, *_STREAMING, *_WRITING, *_OF_FORMAT[format])


def check(format: str, given: Iterable[str], where: object = None) -> None:
    """Refuses an option that files of a format do not have.

    Options with a dot belong to Hadoop, and credentials to the file system: both are passed on.
    """
    known = options_of(format)
    spelt = {name.lower() for name in known}
    for name in given:
        if "." in name or name.lower() in spelt or secret(name):
            continue
        other = next((kind for kind, names in _OF_FORMAT.items() if _has(names, name)), None)
        hint = did_you_mean(name, known, "the options are those of Spark's reader")
        if other is not None:
            hint = f"it is an option of {other} files"
        raise BadOption(f"unknown option {name!r} of {format} files", where=where, given=name, hint=hint)


def _has(names: Iterable[str], name: str) -> bool:
    return name.lower() in {one.lower() for one in names}
