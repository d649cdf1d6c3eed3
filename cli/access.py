"""``thoth token`` and ``thoth audit``: tokens of the HTTP service, and its audit log."""

import json
import re
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from cli.console import cut_list, moment_text, print_json
from cli.options import CommandGroup, as_json_option, limit_option
from cli.request_options import moment
from common.settings import Settings
from graph.migrate import migrated_stores
from graph.record.access import (
    Scope,
    StoredAuditEntry,
    Token,
    create_token,
    latest_writes,
    revoke_token,
    rotate_token,
    tokens,
    writes_between,
)
from model.errors import InvalidArgument
from model.text import printable

_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST = timedelta(days=3650)
_NAME_LENGTH = 100
#: Instead of a duration: no end of a token, or no overlap of two secrets.
_NONE = "none"


expires_option = click.option(
    "--expires", metavar="DURATION",
    help="How long the token is valid, such as 12h, 30d, 8w or none (for ever)."
    "  [default: TOKEN_DAYS]",
)  # fmt: skip


@click.group(cls=CommandGroup)
def token() -> None:
    """Create, list, rotate and revoke the tokens of the service's clients."""


@token.command()
@click.argument("name")
@click.option("--scope", "scopes", type=click.Choice([it.value for it in Scope]),
              multiple=True, required=True, help="Allowed scope; repeat for more.")  # fmt: skip
@expires_option
@as_json_option
@click.pass_obj
def create(
    settings: Settings, name: str, scopes: tuple[str, ...], expires: str | None, as_json: bool
) -> None:
    """Create a token and print its secret, which is shown only once."""
    if not name.strip() or len(name) > _NAME_LENGTH or not name.isprintable():
        raise InvalidArgument(f"NAME: must have 1 to {_NAME_LENGTH} printable characters")
    ends = _end(settings, expires)
    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        made, secret = create_token(connection, name, [Scope(scope) for scope in scopes], ends)
    _print_secret(made, secret, as_json)


@token.command("list")
@as_json_option
@click.pass_obj
def list_(settings: Settings, as_json: bool) -> None:
    """List the tokens, without their secrets."""
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        listed = tokens(connection)
    if as_json:
        print_json({"tokens": [_document(each) for each in listed]})
        return
    for each in listed:
        click.echo(printable(_line(each)))


@token.command()
@click.argument("token_id", metavar="ID")
@click.option("--overlap", default="1d", show_default=True, metavar="DURATION",
              help="How long the present secret stays valid, such as 1h. `none` ends it and all"
              " sessions of the web pages at once.")  # fmt: skip
@expires_option
@as_json_option
@click.pass_obj
def rotate(
    settings: Settings, token_id: str, overlap: str, expires: str | None, as_json: bool
) -> None:
    """Give a token a new secret and print it; it is shown only once.

    ID is the token's identifier, or the prefix that `thoth token list` shows. The token keeps its
    name, its scopes and everything that was requested with it. Without --expires, a token that
    never expires stays valid forever; other tokens expire TOKEN_DAYS from now.
    """
    kept = timedelta() if overlap == _NONE else duration(overlap, "--overlap")
    ends = _end(settings, expires)
    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        rotated = rotate_token(connection, token_id, kept, ends, keep_endless=expires is None)
    if rotated is None:
        raise _unknown(token_id)
    _print_secret(*rotated, as_json)


@token.command()
@click.argument("token_id", metavar="ID")
@as_json_option
@click.pass_obj
def revoke(settings: Settings, token_id: str, as_json: bool) -> None:
    """Revoke a token at once.

    ID is the token's identifier, or the prefix that `thoth token list` shows.
    """
    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        revoked = revoke_token(connection, token_id)
    if not revoked:
        raise _unknown(token_id)
    if as_json:
        print_json({"revoked": token_id})
    else:
        click.echo(f"{token_id}: revoked")


def _end(settings: Settings, expires: str | None) -> datetime | None:
    """When a new secret expires; ``None`` for never."""
    days = settings.token_days
    if expires == _NONE or (expires is None and days is None):
        return None
    length = timedelta(days=days or 0) if expires is None else duration(expires)
    return datetime.now(UTC) + length


def _unknown(token_id: str) -> InvalidArgument:
    return InvalidArgument(f"ID: no valid token is called {token_id!r}; see `thoth token list`")


def _print_secret(made: Token, secret: str, as_json: bool) -> None:
    """Print a token with its new secret, the only text on standard output."""
    if as_json:
        print_json({**_document(made), "secret": secret})
        return
    click.echo(f"{_line(made)}\nIts secret, which is shown only once:", err=True)
    click.echo(secret)


def duration(text: str, option: str = "--expires") -> timedelta:
    """Parse a duration such as ``30d``.

    :raises InvalidArgument: if the text is anything else, or more than ten years

    >>> duration("36h")
    datetime.timedelta(days=1, seconds=43200)
    """
    match = re.fullmatch(r"([1-9][0-9]{0,8})([mhdw])", text)
    length = timedelta(seconds=int(match[1]) * _UNITS[match[2]]) if match else None
    if length is None or length > _LONGEST:
        raise InvalidArgument(f"{option}: {text!r} is not a duration such as 12h, 30d or 8w")
    return length


def _document(token: Token) -> dict[str, Any]:
    values = {it.name: getattr(token, it.name) for it in fields(token)}
    times = {
        name: it.astimezone(UTC).isoformat(timespec="seconds")
        for name, it in values.items()
        if isinstance(it, datetime)
    }
    return {**values, "scopes": sorted(token.scopes), **times}


def _line(token: Token) -> str:
    validity = "never expires"
    if token.revoked_at is not None:
        validity = f"revoked {moment_text(token.revoked_at)}"
    elif token.expires_at is not None:
        validity = f"expires {moment_text(token.expires_at)}"
    previous = token.previous_until
    if token.revoked_at is None and previous is not None and previous > datetime.now(UTC):
        validity += f", previous secret until {moment_text(previous)}"
    used = "never used" if token.last_used_at is None else f"used {moment_text(token.last_used_at)}"
    scopes = ",".join(sorted(token.scopes))
    return f"{token.token_id}  {token.prefix}…  {token.name}  {scopes}  {validity}  {used}"


@click.group(cls=CommandGroup, invoke_without_command=True)
@limit_option("requests to list, newest first", 100_000)
@as_json_option
@click.pass_context
def audit(context: click.Context, limit: int, as_json: bool) -> None:
    """List the API requests that wrote data.

    Each line has the time, the token, the client's address, the route, the status and the created
    or changed object.
    """
    if context.invoked_subcommand is not None:
        return
    settings: Settings = context.obj
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        writes = latest_writes(connection, limit + 1)
    listed, truncated = cut_list(writes, limit, "newest")
    if as_json:
        print_json({"writes": [_entry_document(it) for it in listed], "truncated": truncated})
        return
    for write in listed:
        client = f"{write.token_id or 'anonymous'}  {write.address}"
        outcome = f"{write.status}  {write.subject or '-'}  {write.request_id}"
        line = f"{moment_text(write.at)}  {client}  {write.method} {write.route}  {outcome}"
        click.echo(printable(line))


@audit.command()
@click.option("--since", metavar="TIME", help="Only from this date, time or number of days ago.")
@click.option("--until", metavar="TIME", help="Only before this date, time or number of days ago.")
@click.pass_obj
def export(settings: Settings, since: str | None, until: str | None) -> None:
    """Print the whole audit log, oldest first: one JSON object a line.

    TIME is a date or a time in UTC, such as 2026-01-31 or 2026-01-31T18:00, or a number of days
    ago, such as 7d.
    """
    now = datetime.now(UTC)
    first, end = moment(since, now, "--since"), moment(until, now, "--until")
    if first and end and first >= end:
        raise InvalidArgument(f"--since {since} is not before --until {until}")
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        for write in writes_between(connection, first, end):
            click.echo(json.dumps(_entry_document(write), ensure_ascii=False))


def _entry_document(write: StoredAuditEntry) -> dict[str, Any]:
    return {**asdict(write), "at": write.at.astimezone(UTC).isoformat()}
