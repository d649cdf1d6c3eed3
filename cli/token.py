"""``thoth token``: who may do what over HTTP."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from common.errors import InvalidArgument
from common.settings import Settings
from common.terminal import printable

if TYPE_CHECKING:
    from graph.record.tokens import Token

SCOPES = ("read", "advise", "ingest", "inspect", "cypher", "admin")
_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST = timedelta(days=3650)
_NAME_LENGTH = 100

_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group()
def token() -> None:
    """Make, list and revoke the tokens that clients show."""


@token.command()
@click.argument("name")
@click.option("--scope", "scopes", type=click.Choice(SCOPES), multiple=True, required=True,
              help="What it may do; several times for several.")  # fmt: skip
@click.option("--expires", help="After how long it ends, such as 12h, 30d or 8w.  [default: never]")
@_json_option
@click.pass_obj
def create(
    settings: Settings, name: str, scopes: tuple[str, ...], expires: str | None, as_json: bool
) -> None:
    """Make a token and print its secret, which is shown this once only."""
    from graph.migrate import migrated_stores
    from graph.record.tokens import Scope, create_token

    if not name.strip() or len(name) > _NAME_LENGTH or not name.isprintable():
        raise InvalidArgument(f"NAME: not 1 to {_NAME_LENGTH} printable characters")
    ends = None if expires is None else datetime.now(UTC) + duration(expires)
    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        made, secret = create_token(connection, name, [Scope(it) for it in scopes], ends)
    if as_json:
        click.echo(json.dumps({**_document(made), "secret": secret}, indent=2))
        return
    click.echo(f"{_line(made)}\nits secret, shown this once:", err=True)
    click.echo(secret)


@token.command("list")
@_json_option
@click.pass_obj
def list_(settings: Settings, as_json: bool) -> None:
    """List the tokens, without their secrets."""
    from graph.migrate import migrated_stores
    from graph.record.tokens import tokens

    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        found = tokens(connection)
    if as_json:
        click.echo(json.dumps({"tokens": [_document(it) for it in found]}, indent=2))
        return
    for it in found:
        click.echo(printable(_line(it)))


@token.command()
@click.argument("token_id", metavar="ID")
@_json_option
@click.pass_obj
def revoke(settings: Settings, token_id: str, as_json: bool) -> None:
    """Make a token useless from now on; ID is its identifier, or the prefix that is shown."""
    from graph.migrate import migrated_stores
    from graph.record.tokens import revoke_token

    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        revoked = revoke_token(connection, token_id)
    if not revoked:
        raise InvalidArgument(f"ID: {token_id!r} is no token that is valid; see `thoth token list`")
    click.echo(json.dumps({"revoked": token_id}) if as_json else f"{token_id}: revoked")


def duration(text: str) -> timedelta:
    """``30d`` and the like.

    :raises InvalidArgument: if it is none, or longer than ten years

    >>> duration("36h")
    datetime.timedelta(days=1, seconds=43200)
    """
    found = re.fullmatch(r"([1-9][0-9]{0,8})([mhdw])", text)
    length = timedelta(seconds=int(found[1]) * _UNITS[found[2]]) if found else None
    if length is None or length > _LONGEST:
        raise InvalidArgument(f"--expires: {text!r} is no number of m, h, d or w up to ten years")
    return length


def _document(it: Token) -> dict[str, Any]:
    moments = ("created_at", "expires_at", "revoked_at", "last_used_at")
    return {
        "token_id": it.token_id,
        "name": it.name,
        "prefix": it.prefix,
        "scopes": sorted(it.scopes),
        **{name: _text(getattr(it, name)) for name in moments},
    }


def _line(it: Token) -> str:
    ends = "never expires" if it.expires_at is None else f"expires {it.expires_at:%Y-%m-%d %H:%M}"
    if it.revoked_at is not None:
        ends = f"revoked {it.revoked_at:%Y-%m-%d %H:%M}"
    used = "never used" if it.last_used_at is None else f"used {it.last_used_at:%Y-%m-%d %H:%M}"
    return f"{it.token_id}  {it.prefix}…  {it.name}  {','.join(sorted(it.scopes))}  {ends}  {used}"


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")
