"""Strings with the character 0, which PostgreSQL's text can't have: 0 is written as 1 1, and 1 as 1 2.

Order and equality stay as they are, and nearly all strings have neither character.
"""

from __future__ import annotations

import re
from typing import Final

from keyfold.views import arrow as pa

_SIGN: Final = "\x01"
_PAIR: Final = re.compile("\x01([\x01\x02])")
_TO: Final = {"\0": "\x01\x01", _SIGN: "\x01\x02"}
_FROM: Final = {"\x01": "\0", "\x02": _SIGN}
# One character of a string, of which the text may have two.
_ANY: Final = "(?:\x01.|[^\x01])"


def escaped(value: str) -> str:
    """The text of a string.

    >>> escaped("a\\0b")
    'a\\x01\\x01b'
    """
    return value.replace(_SIGN, _TO[_SIGN]).replace("\0", _TO["\0"])


def unescaped(value: str) -> str:
    """The string of a text."""
    return _PAIR.sub(lambda pair: _FROM[pair[1]], value) if _SIGN in value else value


def escaped_column(column: pa.Array) -> pa.Array:
    """The texts of a column of strings."""
    for char in (_SIGN, "\0"):
        if pa.compute.any(pa.compute.match_substring(column, char)).as_py():
            column = pa.compute.replace_substring(column, char, _TO[char])
    return column


def like_pattern(pattern: str) -> tuple[str, str]:
    """The operator and the pattern that find the texts of the strings that match a LIKE pattern.

    >>> like_pattern("a%")
    ('LIKE', 'a%')
    """
    tokens = [_token(match) for match in re.finditer(r"(?s)\\.|.", pattern)]
    if "_" not in (wild for wild, _ in tokens):
        texts = (wild or re.sub(r"([%_\\])", r"\\\1", escaped(char)) for wild, char in tokens)
        return "LIKE", "".join(texts)
    # LIKE would take the two characters of an escaped one for two.
    wilds = {"%": ".*", "_": _ANY}
    texts = (
        wilds[wild] if wild else re.sub(r"([^\w\s\x01])", r"\\\1", escaped(char)) for wild, char in tokens
    )
    return "~", f"^(?:{''.join(texts)})$"


def _token(match: re.Match[str]) -> tuple[str, str]:
    """A wildcard, or a character that stands for itself."""
    text = match[0]
    return (text, "") if text in ("%", "_") else ("", text[-1])
