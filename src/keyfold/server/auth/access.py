"""`Access`: who sends a request, as what, and which tables this one may read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from keyfold.errors import QueryError
from keyfold.read.tokens import Role, Token

RouteRole = Literal["anyone", "reader", "operator", "admin"]
"""What one must be at least to ask a route; `anyone` needs no token."""
_RANKS: Final = ("anyone", "reader", "operator", "admin")
_SCOPE: Final = "keyfold.access"


@dataclass(frozen=True)
class Access:
    """What the sender of a request may do; `token` is the name of its token."""

    role: RouteRole
    token: str | None = None
    tables: frozenset[str] | None = None
    """The tables that it may read, as `scoped` has them; None for all."""

    @property
    def whole(self) -> bool:
        """Whether it sees everything."""
        return self.tables is None and self.sees_private

    @property
    def sees_private(self) -> bool:
        """Whether it sees private columns, raw rows, and texts that may quote them."""
        return _RANKS.index(self.role) >= _RANKS.index("operator")

    def reads(self, app: str, table: str) -> bool:
        """Whether it may read a table."""
        return self.tables is None or scoped(app, table) in self.tables

    def reads_app(self, app: str) -> bool:
        """Whether it may read a table of an app."""
        return self.tables is None or any(one.startswith(f"{app}.") for one in self.tables)

    @property
    def only_app(self) -> str | None:
        """The app of its tables, if they are of one."""
        apps = {one.partition(".")[0] for one in self.tables or ()}
        return apps.pop() if len(apps) == 1 else None

    def may(self, role: RouteRole | None) -> bool:
        """Whether it may ask a route; one that declares no role is for admins."""
        return _RANKS.index(self.role) >= _RANKS.index(role or "admin")

    def require(self, role: RouteRole | None) -> None:
        """Refuses a route for others."""
        needed = role or "admin"
        if not self.may(role):
            given = f"token {self.token}, a {self.role}"
            hint = f"a token with the role {needed}: keyfold token create NAME --role {needed}"
            raise QueryError("the token may not do this", reason="forbidden", given=given, hint=hint)


EVERYTHING: Final = Access("admin")
"""That of users of this machine, while the home has no tokens: they see what commands show."""
NOTHING: Final = Access("anyone", tables=frozenset())
"""That of a request that shows no token, where one is needed."""


def scoped(app: str, table: str) -> str:
    """A table with its app, to be compared: names of tables are free of case, those of apps are not."""
    return f"{app}.{table.lower()}"


def of_token(token: Token) -> Access:
    """What a token may do."""
    tables = None if token.tables is None else frozenset(scoped(*one.split(".", 1)) for one in token.tables)
    role: Role = token.role
    return Access(role, token.name, tables)


def of_request(scope: Any) -> Access:
    """What the guard has found; without a guard nobody may do anything."""
    found = scope.get(_SCOPE, NOTHING)
    return found if isinstance(found, Access) else NOTHING


def remember(scope: Any, access: Access) -> None:
    """Keeps what the guard has found with the request."""
    scope[_SCOPE] = access
