"""Commands that take a key: its negative numbers are values, not options."""

from __future__ import annotations

import re
from typing import Any, Final

from typer.core import TyperCommand

_NEGATIVE: Final = re.compile(r"-(?:[0-9.]+(?:e[+-]?[0-9]+)?|inf(?:inity)?)", re.IGNORECASE)
_MARK: Final = "\0"


class KeyCommand(TyperCommand):
    """Parses negative numbers as parts of a key, not as options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        flags = {name for option in self.params if getattr(option, "is_flag", False) for name in option.opts}
        for index, word in enumerate(args):
            before = args[index - 1] if index else ""
            value_of_option = before.startswith("--") and before not in flags
            if _NEGATIVE.fullmatch(word) and not value_of_option:
                args[index] = _MARK + word
        left = super().parse_args(ctx, args)
        ctx.params = {name: _unmark(value) for name, value in ctx.params.items()}
        return left


def _unmark(value: Any) -> Any:
    if isinstance(value, str):
        return value.removeprefix(_MARK)
    return [_unmark(each) for each in value] if isinstance(value, list | tuple) else value
