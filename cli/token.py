"""``thoth token``: tokens of the HTTP service and what they allow."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from cli.console import moment_text, print_json
from cli.help_pages import CommandGroup
from cli.options import EnumChoice, as_json_option
from common.errors import InvalidArgument
from common.settings import Settings
from common.terminal import printable

if TYPE_CHECKING:
    from graph.record.tokens import Token

_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST = timedelta(days=3650)
_NAME_LENGTH = 100


@click.group(cls=CommandGroup)
def token() -> None:
    """Create, list and revoke the tokens of the service's clients."""


@token.command()
@click.argument("name")
@click.option("--scope", "scopes", type=EnumChoice("graph.record.tokens:Scope"),
              multiple=True, required=True, help="Allowed scope; repeat for more.")  # fmt: skip
@click.option(
    "--expires", help="How long the token is valid, such as 12h, 30d or 8w.  [default: forever]"
)
@as_json_option
@click.pass_obj
def create(
    settings: Settings, name: str, scopes: tuple[str, ...], expires: str | None, as_json: bool
) -> None:
    """Create a token and print its secret, which is shown only once."""
    from graph.migrate import migrated_stores
    from graph.record.tokens import Scope, create_token

    if not name.strip() or len(name) > _NAME_LENGTH or not name.isprintable():
        raise InvalidArgument(f"NAME: must have 1 to {_NAME_LENGTH} printable characters")
    ends = None if expires is None else datetime.now(UTC) + duration(expires)
    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        made, secret = create_token(connection, name, [Scope(scope) for scope in scopes], ends)
    if as_json:
        print_json({**_document(made), "secret": secret})
        return
    click.echo(f"{_line(made)}\nIts secret, which is shown only once:", err=True)
    click.echo(secret)


@token.command("list")
@as_json_option
@click.pass_obj
def list_(settings: Settings, as_json: bool) -> None:
    """List the tokens, without their secrets."""
    from graph.migrate import migrated_stores
    from graph.record.tokens import tokens

    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        listed = tokens(connection)
    if as_json:
        print_json({"tokens": [_document(each) for each in listed]})
        return
    for each in listed:
        click.echo(printable(_line(each)))


@token.command()
@click.argument("token_id", metavar="ID")
@as_json_option
@click.pass_obj
def revoke(settings: Settings, token_id: str, as_json: bool) -> None:
    """Revoke a token at once.

    ID is the token's identifier, or the prefix that `thoth token list` shows.
    """
    from graph.migrate import migrated_stores
    from graph.record.tokens import revoke_token

    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        revoked = revoke_token(connection, token_id)
    if not revoked:
        raise InvalidArgument(f"ID: no valid token is called {token_id!r}; see `thoth token list`")
    if as_json:
        print_json({"revoked": token_id})
    else:
        click.echo(f"{token_id}: revoked")


def duration(text: str) -> timedelta:
    """Parse a duration such as ``30d``.

    :raises InvalidArgument: if the text is anything else, or more than ten years

    >>> duration("36h")
    datetime.timedelta(days=1, seconds=43200)
    """
    match = re.fullmatch(r"([1-9][0-9]{0,8})([mhdw])", text)
    length = timedelta(seconds=int(match[1]) * _UNITS[match[2]]) if match else None
    if length is None or length > _LONGEST:
        raise InvalidArgument(f"--expires: {text!r} is not a duration such as 12h, 30d or 8w")
    return length


def _document(token: Token) -> dict[str, Any]:
    moments = ("created_at", "expires_at", "revoked_at", "last_used_at")
    return {
        "token_id": token.token_id,
        "name": token.name,
        "prefix": token.prefix,
        "scopes": sorted(token.scopes),
        **{name: _text(getattr(token, name)) for name in moments},
    }


def _line(token: Token) -> str:
    validity = "never expires"
    if token.revoked_at is not None:
        validity = f"revoked {moment_text(token.revoked_at)}"
    elif token.expires_at is not None:
        validity = f"expires {moment_text(token.expires_at)}"
    used = "never used" if token.last_used_at is None else f"used {moment_text(token.last_used_at)}"
    scopes = ",".join(sorted(token.scopes))
    return f"{token.token_id}  {token.prefix}…  {token.name}  {scopes}  {validity}  {used}"


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")
