"""Tokens: made by the command, shown to the service, revoked."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy
from click.testing import CliRunner, Result
from flask.testing import FlaskClient
from sqlalchemy import text

from cli.access import token
from common.settings import Settings
from graph.record.access import Scope, create_token, open_session, session_token
from tests.services.jobs import client_of, execute

#: Anything that asks for a scope.
READ = "/metrics"
DAY = timedelta(days=1)


@pytest.fixture
def closed(settings: Settings) -> Settings:
    """Settings under which nobody does anything without a token."""
    return replace(settings, anonymous_scopes=(), rate_limit=None)


@pytest.fixture
def client(closed: Settings, relational: sqlalchemy.Engine) -> Iterator[FlaskClient]:
    with client_of(closed) as made:
        yield made


def run(settings: Settings, *arguments: str) -> Result:
    return CliRunner().invoke(token, arguments, obj=settings)


def create(settings: Settings, *scopes: str) -> dict[str, str]:
    options = [it for scope in scopes for it in ("--scope", scope)]
    made = run(settings, "create", "a test", *options, "--json")
    assert made.exit_code == 0, made.output
    found: dict[str, str] = json.loads(made.stdout)
    return found


def status(client: FlaskClient, secret: str | None) -> int:
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    return client.get(READ, headers=headers).status_code


def test_token_secret_is_printed_once_and_not_stored(
    closed: Settings, relational: sqlalchemy.Engine
) -> None:
    made = run(closed, "create", "ci", "--scope", "read", "--expires", "30d")
    secret = made.stdout.strip()
    assert made.exit_code == 0
    assert secret.startswith("thoth_")
    assert len(secret) > 40
    listed = run(closed, "list").stdout
    assert secret[:12] in listed
    assert secret not in listed
    with relational.connect() as connection:
        rows = connection.execute(text("SELECT tokens::text FROM tokens")).scalars().all()
    assert len(rows) == 1
    assert secret not in rows[0]


def test_token_gives_access_only_within_its_scope(closed: Settings, client: FlaskClient) -> None:
    reader, adviser = create(closed, "read"), create(closed, "advise")
    assert status(client, None) == 401
    assert status(client, reader["secret"]) == 200
    assert status(client, adviser["secret"]) == 403
    assert status(client, create(closed, "admin")["secret"]) == 200


def test_no_operation_accepts_a_token_of_another_scope(
    closed: Settings, client: FlaskClient
) -> None:
    secrets = {
        it.value: create(closed, it.value)["secret"] for it in Scope if it is not Scope.ADMIN
    }
    refused = 0
    for path, item in client.get("/openapi.json").get_json()["paths"].items():
        for method in item.keys() - {"parameters"}:
            needed = {it for them in item[method]["security"] for it in them.get("token", [])}
            for scope in secrets.keys() - needed if needed else ():
                answer = client.open(
                    re.sub(r"\{\w+\}", "1", path), method=method.upper(),
                    headers={"Authorization": f"Bearer {secrets[scope]}"},
                )  # fmt: skip
                # The scope of a request depends on its kind, and 1 is of no kind.
                expected = 404 if path.startswith("/api/v2/requests/") else 403
                assert answer.status_code == expected, (path, method, scope)
                challenge = answer.headers.get("WWW-Authenticate", "")
                named = 'Bearer error="insufficient_scope", scope='
                assert expected == 404 or challenge.startswith(named), challenge
                refused += 1
    assert refused > 300


def test_revoked_and_expired_tokens_are_refused(
    closed: Settings, client: FlaskClient, relational: sqlalchemy.Engine
) -> None:
    made = create(closed, "read")
    assert status(client, made["secret"]) == 200
    (listed,) = json.loads(run(closed, "list", "--json").stdout)["tokens"]
    assert listed["last_used_at"] is not None
    assert "secret" not in listed
    assert run(closed, "revoke", made["token_id"]).exit_code == 0
    assert status(client, made["secret"]) == 401
    assert run(closed, "revoke", made["token_id"]).exit_code != 0
    ago = datetime.now(UTC) - timedelta(seconds=1)
    with relational.begin() as connection:
        _, secret = create_token(connection, "old", [Scope.READ], ago)
    assert status(client, secret) == 401


def test_malformed_authorization_header_is_refused(client: FlaskClient) -> None:
    absent = ("", "Bearer", "Bearer ", "Basic abc")
    for header in (*absent, "Bearer nonsense", "bearer \x00", "Bearer é"):
        answer = client.get(READ, headers={"Authorization": header})
        assert answer.status_code == 401
        challenge = answer.headers["WWW-Authenticate"]
        assert challenge.split()[0] == "Bearer"
        assert ("invalid_token" in challenge) is (header not in absent), header


def test_token_in_a_url_is_refused_unless_the_setting_allows_it(
    closed: Settings, client: FlaskClient
) -> None:
    secret = create(closed, "read")["secret"]
    refused = client.get(READ, query_string={"token": secret})
    assert refused.status_code == 401
    assert secret not in refused.text
    with client_of(replace(closed, query_tokens=True)) as old:
        assert old.get(READ, query_string={"token": secret}).status_code == 200
        assert old.get(READ, query_string={"token": "thoth_0"}).status_code == 401


def rotate(settings: Settings, token_id: str, *options: str) -> dict[str, str]:
    rotated = run(settings, "rotate", token_id, *options, "--json")
    assert rotated.exit_code == 0, rotated.output
    document: dict[str, str] = json.loads(rotated.stdout)
    return document


def test_both_secrets_of_a_rotated_token_work_until_the_overlap_ends(
    closed: Settings, client: FlaskClient, relational: sqlalchemy.Engine
) -> None:
    made = create(closed, "read")
    rotated = rotate(closed, made["prefix"], "--overlap", "1h")
    assert rotated["token_id"] == made["token_id"]
    assert rotated["secret"] != made["secret"]
    assert [status(client, it["secret"]) for it in (made, rotated)] == [200, 200]
    assert "previous secret until" in run(closed, "list").stdout
    again = rotate(closed, made["token_id"])
    assert [status(client, it["secret"]) for it in (made, rotated, again)] == [401, 200, 200]
    execute(relational, "UPDATE tokens SET previous_until = now()")
    assert [status(client, it["secret"]) for it in (rotated, again)] == [401, 200]
    assert "previous secret" not in run(closed, "list").stdout
    with relational.connect() as connection:
        (row,) = connection.execute(text("SELECT tokens::text FROM tokens")).scalars().all()
    assert not any(it["secret"] in row for it in (made, rotated, again))


def test_old_secret_ends_at_once_if_rotated_without_overlap(
    closed: Settings, client: FlaskClient, relational: sqlalchemy.Engine
) -> None:
    made = create(closed, "read")
    with relational.begin() as connection:
        session = open_session(connection, made["token_id"], timedelta(hours=1))
    rotated = rotate(closed, made["token_id"], "--overlap", "none")
    assert [status(client, it["secret"]) for it in (made, rotated)] == [401, 200]
    with relational.connect() as connection:
        assert session_token(connection, session) is None


def test_old_token_secret_ends_with_its_expiry_or_its_token(
    closed: Settings, client: FlaskClient, relational: sqlalchemy.Engine
) -> None:
    made = create(closed, "read")
    execute(relational, "UPDATE tokens SET expires_at = now()")
    rotated = rotate(closed, made["token_id"])
    assert [status(client, it["secret"]) for it in (made, rotated)] == [401, 200]
    again = rotate(closed, made["token_id"], "--overlap", "1d", "--expires", "1h")
    ends = (datetime.fromisoformat(again[it]) for it in ("previous_until", "expires_at"))
    assert len(set(ends)) == 1
    assert run(closed, "revoke", made["token_id"]).exit_code == 0
    assert [status(client, it["secret"]) for it in (rotated, again)] == [401, 401]
    assert run(closed, "rotate", made["token_id"]).exit_code != 0


def test_token_expires_unless_no_expiry_is_requested(closed: Settings) -> None:
    def days(settings: Settings, *options: str) -> int | None:
        made = json.loads(
            run(settings, "create", "a", "--scope", "read", "--json", *options).stdout
        )
        if made["expires_at"] is None:
            return None
        return round((datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)) / DAY)

    assert days(closed) == 365
    assert days(closed, "--expires", "none") is None
    assert days(closed, "--expires", "30d") == 30
    assert days(replace(closed, token_days=7.0)) == 7
    assert days(replace(closed, token_days=None)) is None
    made = create(closed, "read")
    assert rotate(closed, made["token_id"], "--expires", "none")["expires_at"] is None
    assert rotate(closed, made["token_id"])["expires_at"] is None
    assert rotate(closed, made["token_id"], "--expires", "30d")["expires_at"] is not None
    assert rotate(closed, made["token_id"])["expires_at"] is not None
