"""Bearer tokens of the API, sessions of its pages, and the audit log of writes by the service.

Only digests of secrets are stored.
"""

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    case,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from graph.record.postgresql_helpers import columns_for
from graph.tables import AuditRow, PageSessionRow, TokenRow

#: Prefix of every token, so that scanners recognise leaked tokens.
MARK = "thoth_"
#: Number of characters that identify a token in lists.
_SHOWN = len(MARK) + 6
#: How old ``last_used_at`` may be before it is written again.
_USE_INTERVAL = timedelta(minutes=1)
#: Conditions on a token that clients may use.
_VALID = (
    TokenRow.revoked_at.is_(None),
    or_(TokenRow.expires_at.is_(None), TokenRow.expires_at > func.now()),
)


class Scope(StrEnum):
    """Permission of a token; stored values are never renamed."""

    READ = "read"
    ADVISE = "advise"
    INGEST = "ingest"
    INSPECT = "inspect"
    CYPHER = "cypher"
    #: Report releases to the nightly loop.
    RELEASES = "releases"
    #: All scopes, and administration of the service.
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret.

    :param prefix: first characters of the secret
    :param last_used_at: accurate to the minute
    :param previous_until: when the secret before the last rotation expires
    """

    token_id: str
    name: str
    prefix: str
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    previous_until: datetime | None = None

    def may(self, scope: Scope) -> bool:
        """Whether the token has a scope; ``admin`` includes all scopes."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


def create_token(
    connection: Connection, name: str, scopes: Sequence[Scope], expires_at: datetime | None
) -> tuple[Token, str]:
    """Create a token; return it with its secret, which is not stored."""
    secret = _new_secret()
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


def rotate_token(
    connection: Connection,
    token_id: str,
    overlap: timedelta,
    expires_at: datetime | None,
    *,
    keep_endless: bool = False,
) -> tuple[Token, str] | None:
    """Give a token a new secret; return both, or ``None`` unless exactly one valid token matches.

    The caller owns the transaction. An older secret that was still valid becomes invalid.

    :param token_id: as in :func:`revoke_token`
    :param overlap: how long the present secret stays valid; without it, sessions of pages end, too
    :param keep_endless: ignore ``expires_at`` if the token never expires
    """
    identifier = _only_match(connection, token_id)
    if identifier is None:
        return None
    secret = _new_secret()
    ends: ColumnElement[Any] = cast(expires_at, TokenRow.expires_at.type)
    if keep_endless:
        ends = case((TokenRow.expires_at.is_(None), None), else_=ends)
    # A secret outlives neither the date that was set for it nor its token; NULL is ignored.
    until = func.least(func.now() + overlap, TokenRow.expires_at, ends)
    row = connection.execute(
        update(TokenRow)
        .where(TokenRow.token_id == identifier)
        .values(
            prefix=secret[:_SHOWN],
            digest=digest_of(secret),
            previous_digest=TokenRow.digest if overlap else None,
            previous_until=until if overlap else None,
            expires_at=ends,
        )
        .returning(TokenRow.__table__)
    ).one()
    if not overlap:
        connection.execute(delete(PageSessionRow).where(PageSessionRow.token_id == identifier))
    return _token(row), secret


def token_shown(connection: Connection, secret: str) -> Token | None:
    """The valid token with this secret, or ``None``; updates its ``last_used_at``."""
    digest = digest_of(secret)
    row = connection.execute(
        select(TokenRow.__table__).where(
            or_(
                TokenRow.digest == digest,
                and_(TokenRow.previous_digest == digest, TokenRow.previous_until > func.now()),
            ),
            *_VALID,
        )
    ).one_or_none()
    if row is None:
        return None
    connection.execute(
        update(TokenRow)
        .where(
            TokenRow.token_id == row.token_id,
            or_(
                TokenRow.last_used_at.is_(None), TokenRow.last_used_at < func.now() - _USE_INTERVAL
            ),
        )
        .values(last_used_at=func.now())
    )
    return _token(row)


def open_session(connection: Connection, token_id: str, lifetime: timedelta) -> str:
    """Open a session of a page for a token; return its secret, which is not stored.

    Expired sessions are removed. The caller owns the transaction.
    """
    connection.execute(delete(PageSessionRow).where(PageSessionRow.expires_at <= func.now()))
    secret = secrets.token_urlsafe(32)
    connection.execute(
        insert(PageSessionRow).values(
            digest=digest_of(secret), token_id=token_id, expires_at=func.now() + lifetime
        )
    )
    return secret


def session_token(connection: Connection, secret: str) -> Token | None:
    """The valid token of an open session, or ``None``."""
    row = connection.execute(
        select(TokenRow.__table__)
        .join(PageSessionRow, PageSessionRow.token_id == TokenRow.token_id)
        .where(
            PageSessionRow.digest == digest_of(secret),
            PageSessionRow.expires_at > func.now(),
            *_VALID,
        )
    ).one_or_none()
    return None if row is None else _token(row)


def close_session(connection: Connection, secret: str) -> None:
    """Close a session; the caller owns the transaction."""
    connection.execute(delete(PageSessionRow).where(PageSessionRow.digest == digest_of(secret)))


def tokens(connection: Connection) -> list[Token]:
    """All tokens, oldest first."""
    query = select(TokenRow.__table__).order_by(TokenRow.created_at, TokenRow.token_id)
    return [_token(row) for row in connection.execute(query)]


def revoke_token(connection: Connection, token_id: str) -> bool:
    """Revoke a token; the caller owns the transaction.

    :param token_id: identifier, or a prefix that only one valid token has
    :returns: whether exactly one valid token matched
    """
    identifier = _only_match(connection, token_id)
    if identifier is None:
        return False
    connection.execute(
        update(TokenRow).where(TokenRow.token_id == identifier).values(revoked_at=func.now())
    )
    return True


def _only_match(connection: Connection, token_id: str) -> str | None:
    """The only token that was not revoked and has this identifier or prefix."""
    matching = select(TokenRow.token_id).where(
        or_(TokenRow.token_id == token_id, TokenRow.prefix == token_id),
        TokenRow.revoked_at.is_(None),
    )
    matches = list(connection.scalars(matching))
    return matches[0] if len(matches) == 1 else None


def _new_secret() -> str:
    return MARK + secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    """The digest under which a token is stored."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _token(row: Row[tuple[object, ...]]) -> Token:
    values = {it.name: row._mapping[it.name] for it in fields(Token)}
    return Token(**values | {"scopes": frozenset(map(Scope, values["scopes"]))})


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A write that a request made.

    :param address: of the client
    :param route: URL pattern without values
    :param status: HTTP status of the response
    :param subject: identifier of the created or changed object
    """

    request_id: str
    token_id: str | None
    address: str
    method: str
    route: str
    status: int
    subject: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAuditEntry(AuditEntry):
    """An entry of the audit log with its time."""

    at: datetime


def add_write(connection: Connection, write: AuditEntry) -> None:
    """Add an entry; the caller owns the transaction."""
    values = {it.name: getattr(write, it.name) for it in fields(write)}
    connection.execute(insert(AuditRow).values(**values))


def latest_writes(connection: Connection, limit: int = 100) -> list[StoredAuditEntry]:
    """The latest entries, newest first."""
    query = select(*columns_for(StoredAuditEntry, AuditRow)).order_by(AuditRow.entry_id.desc())
    rows = connection.execute(query.limit(limit))
    return [StoredAuditEntry(**row._mapping) for row in rows]


def writes_between(
    connection: Connection, since: datetime | None, until: datetime | None
) -> Iterator[StoredAuditEntry]:
    """All entries from ``since`` to before ``until``, oldest first, without keeping them."""
    query = (
        select(*columns_for(StoredAuditEntry, AuditRow))
        .where(
            *([AuditRow.at >= since] if since else []), *([AuditRow.at < until] if until else [])
        )
        .order_by(AuditRow.at, AuditRow.entry_id)
        .execution_options(yield_per=2_000)
    )
    for row in connection.execute(query):
        yield StoredAuditEntry(**row._mapping)
