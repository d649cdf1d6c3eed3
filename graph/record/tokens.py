"""Bearer tokens: made, found by what a request shows, revoked; only their digests are stored."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import Connection, Row, func, insert, or_, select, update

from graph.tables import TokenRow

#: What every token begins with, so that one that leaked is found by its looks.
MARK = "thoth_"
#: Characters shown of a token.
_SHOWN = len(MARK) + 6
#: How old ``last_used_at`` may be before it is written again.
_USE_INTERVAL = timedelta(minutes=1)


class Scope(StrEnum):
    """What a token may do; the value is stored and never renamed."""

    READ = "read"
    ADVISE = "advise"
    INGEST = "ingest"
    INSPECT = "inspect"
    CYPHER = "cypher"
    #: Everything, and the service itself.
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret.

    :param prefix: its first characters, to tell it from others
    :param last_used_at: to the minute
    """

    token_id: str
    name: str
    prefix: str
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def may(self, scope: Scope) -> bool:
        """Whether it has a scope; ``admin`` has all."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


def create_token(
    connection: Connection, name: str, scopes: Sequence[Scope], expires_at: datetime | None
) -> tuple[Token, str]:
    """A new token and its secret, which is nowhere afterwards; the caller owns the transaction."""
    secret = MARK + secrets.token_urlsafe(32)
    row = connection.execute(
        insert(TokenRow)
        .values(
            token_id=f"token-{secrets.token_hex(6)}",
            name=name,
            prefix=secret[:_SHOWN],
            digest=digest_of(secret),
            scopes=sorted({it.value for it in scopes}),
            expires_at=expires_at,
        )
        .returning(TokenRow.__table__)
    ).one()
    return _token(row), secret


def token_shown(connection: Connection, secret: str) -> Token | None:
    """The token of a secret, if it is neither expired nor revoked; its use is noted."""
    row = connection.execute(
        select(TokenRow.__table__).where(
            TokenRow.digest == digest_of(secret),
            TokenRow.revoked_at.is_(None),
            or_(TokenRow.expires_at.is_(None), TokenRow.expires_at > func.now()),
        )
    ).one_or_none()
    if row is None:
        return None
    connection.execute(
        update(TokenRow)
        .where(
            TokenRow.token_id == row.token_id,
            or_(
                TokenRow.last_used_at.is_(None),
                TokenRow.last_used_at < func.now() - _USE_INTERVAL,
            ),
        )
        .values(last_used_at=func.now())
    )
    return _token(row)


def tokens(connection: Connection) -> list[Token]:
    """Every token, the oldest first."""
    query = select(TokenRow.__table__).order_by(TokenRow.created_at, TokenRow.token_id)
    return [_token(row) for row in connection.execute(query)]


def revoke_token(connection: Connection, token_id: str) -> bool:
    """Make a token useless from now on; the caller owns the transaction.

    :param token_id: or the prefix that is shown, where only one token has it
    :returns: whether there was one that was not revoked
    """
    alike = select(TokenRow.token_id).where(
        or_(TokenRow.token_id == token_id, TokenRow.prefix == token_id),
        TokenRow.revoked_at.is_(None),
    )
    found = list(connection.scalars(alike))
    if len(found) != 1:
        return False
    connection.execute(
        update(TokenRow).where(TokenRow.token_id == found[0]).values(revoked_at=func.now())
    )
    return True


def digest_of(secret: str) -> str:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _token(row: Row[tuple[object, ...]]) -> Token:
    it = row._mapping
    return Token(
        it["token_id"], it["name"], it["prefix"], frozenset(map(Scope, it["scopes"])),
        it["created_at"], it["expires_at"], it["revoked_at"], it["last_used_at"],
    )  # fmt: skip
