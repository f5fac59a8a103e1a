"""Masks secrets in logs, descriptions and errors."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"

# Matches names of settings and options. The only such list: extend it together with its test.
_SECRET: Final = re.compile(
    r"secret|passw|passphrase|passcode|pwd|token|credential|jaas|bearer|cookie|signature|authorization"
    r"|(?:api|access|account|private|shared|master|signing|encryption)[._-]?key"
    r"|(?<![a-z])(?:auth|sas|sig)(?![a-z])"
    r"|key$",
    re.IGNORECASE,
)
_IN_URL: Final = re.compile(r"(://[^/:@\s]*:)[^/\s]+(@)")
_BEARER: Final = re.compile(r"((?:bearer|basic)\s+)[\w.~+/=-]+", re.IGNORECASE)
# name=value, name="value", 'name': 'value'; an unquoted name before a colon is prose.
_PAIR: Final = re.compile(
    r"""(?P<name>[\w.\-]+)(?P<between>["']\s*[:=]\s*|\s*=\s*)(?P<value>"[^"]*"|'[^']*'|[^&;,\s"'}\])]+)"""
)


def secret(name: str) -> bool:
    """Whether a setting or option of that name holds a secret.

    >>> secret("fs.s3a.access.key"), secret("header")
    (True, False)
    """
    return _SECRET.search(name) is not None


def mask_value(name: str, value: object) -> str:
    """The value of a setting or option for display: masked if its name is secret."""
    return MASK if secret(name) else mask(str(value))


def mask(text: str) -> str:
    """The text with passwords in URLs and the values of secret names masked."""
    return _PAIR.sub(_without_value, _BEARER.sub(rf"\1{MASK}", _IN_URL.sub(rf"\1{MASK}\2", text)))


def _without_value(pair: re.Match[str]) -> str:
    return f"{pair['name']}{pair['between']}{MASK}" if secret(pair["name"]) else pair[0]
