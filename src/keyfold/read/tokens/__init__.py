"""The tokens of a home, for who serves it."""

from keyfold.engine.storage.tokens import ROLES, Role, Token
from keyfold.read.tokens.token_reader import TokenReader, tokens_of

__all__ = ["ROLES", "Role", "Token", "TokenReader", "tokens_of"]
