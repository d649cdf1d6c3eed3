"""One property at every door: hostile text harms no reader, and no command breaks on it.

Doors are addresses and forms of pages, arguments and files of commands, and rows of the record.
"""

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import orjson
import pytest
import sqlalchemy
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from api.store_access import EXTENSION
from common.settings import Settings
from graph.engine import relational_engine
from graph.record.access import Scope
from tests.factories.advisories import flask_sessions, write_archive
from tests.factories.affected_stacks import AFFECTED_STACK, add_affected_stack
from tests.factories.bisects import add_bisects
from tests.factories.foreign_results import foreign_result, store_foreign
from tests.factories.nights import add_night
from tests.services.commands import ROOT, thoth
from tests.services.databases import new_database
from tests.services.jobs import client_of

#: HTML, SVG, a template, a direction mark and a terminal code.
HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(1)><svg onload=alert(1)>{{7*7}}"
    "</pre></title><a href=javascript:alert(1)>\u202e\x1b[31m"
)
#: What no page may have, and no terminal.
MARKUP = ("<script>alert", "<img src=x", "<svg onload", "<a href=javascript")
CODES = ("\x1b", "\u202e")
NOT_UTF8 = os.fsdecode(b"caf\xe9")
SECRET = "w0rd-that-nobody-shows"

#: Columns with free text, by table.
_TEXTS = {
    "inspections": ("name", "stack_note"),
    "hardware": ("label",),
    "runtime_environments": ("os_name",),
    "indicators": ("name",),
    "observations": ("failure_message", "block", "device"),
    "package_versions": ("license", "problem_message", "yanked_reason", "requires_python"),
    "requirements": ("raw",),
    "vulnerabilities": ("summary",),
    "advisories": ("summary",),
    "index_projects": ("status", "status_reason"),
    "analyses": ("reason",),
}
_BEGIN = (
    "/", "/packages", "/packages/flask", "/packages/flask/versions/3.1.0", "/inspections",
    "/stacks", "/reports", "/compare", "/changes", "/benchmarks", "/loop", "/trust", "/operator",
    "/ask", "/questions", "/bisects", "/bisects/bisect-ended",
    f"/stacks/{AFFECTED_STACK}", "/vulnerabilities/CVE-2023-30861",
)  # fmt: skip
#: Kinds of pages that show such a text.
_SHOWN = {
    "/inspections", "/inspections/N", "/jobs/N", "/hardware/N", "/stacks", "/benchmarks", "/loop",
    "/bisects", "/bisects/bisect-ended", "/vulnerabilities/N", "/operator", "/series/N",
    "/requests/N", "/packages/flask/versions/N",
}  # fmt: skip
#: How many links of a kind are followed.
_EACH = 2

ADDRESSES = (
    "/inspections?indicator={0}", "/changes?package={0}", "/stacks?package={0}", "/packages/{0}",
    "/jobs/{0}", "/compare?baseline={0}&candidate={0}", "/ask?text={0}", "/advice/{0}",
    "/advice/{0}/why-not?requirement={0}", "/requests/{0}", "/series/{0}", "/sign-in?next={0}",
    "/hardware/{0}", "/packages?after={0}", "/reports/{0}", "/reports?indicator={0}",
    "/bisects/{0}", "/bisects?package={0}&indicator={0}", "/vulnerabilities/{0}",
    "/packages/numpy?hardware={0}",
)  # fmt: skip
#: Commands that show rows of the record.
SHOWING = (
    "packages show flask", "packages show flask==3.1.0", "packages status",
    "packages whatprovides flask", "stacks --all --verbose", "changes", "bisects",
    "bisects bisect-ended", "benchmarks", "advisories list flask", "loop status",
    "ingest quarantine", "queue list", "audit",
)  # fmt: skip
#: Commands with an argument from outside.
ASKING = (
    "packages show {0}", "packages whatprovides {0}", "packages add {0} --index {0}",
    "advisories list {0}", "advisories sync {0}", "stacks --indicator {0}", "stacks --baseline {0}",
    "explain {0}", "bisects {0}", "report {0}", "changes --package {0}",
    "benchmarks --hardware {0}", "analyze wheel {0}", "analyze missing {0} --on {0}",
    "why {0} --project {0}", "advise {0}", "guard {0} {0}", "check {0}", "provenance {0}",
    "replay {0}", "token revoke {0}", "queue cancel {0}", "notices retry {0}",
    "ingest inspections {0} --dry-run", "inspect {0}",
)  # fmt: skip
#: Files of a project, as far as they may say something.
READING = ("requirements.in", "Pipfile", "pyproject.toml", "pylock.toml", "uv.lock", "report.json")
CONTENTS = (
    HOSTILE.encode(), b"caf\xe9\n", b"a\0b\n",
    f"no such thing @ https://me:{SECRET}@host.example/x?token={SECRET}\n".encode(),
)  # fmt: skip


def poison(connection: Connection) -> None:
    """Replace every free text; names that must differ keep their value after it."""
    values = {"text": HOSTILE}
    for table, columns in _TEXTS.items():
        for name in columns:
            kept = f" || {name}" if name in {"name", "label"} else ""
            connection.execute(text(f"UPDATE {table} SET {name} = :text{kept}"), values)
    # One job of each inspection does not count; the others stay comparable.
    for statement in (
        "UPDATE observations SET parameters = parameters || jsonb_build_object(:text, :text)",
        "UPDATE observations SET unstable_reason = :text WHERE observation_id IN"
        " (SELECT min(observation_id) FROM observations GROUP BY document_id)",
    ):
        connection.execute(text(statement), values)
    line = orjson.dumps({"asctime": "2026", "levelname": "INFO", "message": HOSTILE}).decode()
    connection.execute(text("UPDATE analyses SET log = :line"), {"line": line})


@pytest.fixture(scope="module")
def poisoned(
    postgresql: sqlalchemy.Engine,
    embedded_settings: Settings,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Settings]:
    """The samples, a night and foreign results in a record whose free texts are hostile."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    with new_database(postgresql, replace(embedded_settings, rate_limit=None)) as settings:
        archive = write_archive(folder / "all.zip", flask_sessions())
        for command in (
            ("ingest", "inspections", str(ROOT / "samples" / "inspections.tar.gz")),
            ("packages", "import", str(ROOT / "samples" / "packages.jsonl.gz")),
            ("advisories", "sync", str(archive)),
        ):
            done = thoth(settings, *command)
            assert done.returncode == 0, (command, done.stderr)
        engine = relational_engine(settings)
        with engine.begin() as connection:
            for add in (add_night, add_bisects, add_affected_stack):
                add(connection, HOSTILE)
            foreign = foreign_result(
                benchmark=HOSTILE, parameters={HOSTILE: HOSTILE}, reason=HOSTILE,
                hardware={"cpu": HOSTILE}, software={"tensorflow": HOSTILE},
            )  # fmt: skip
            store_foreign(connection, foreign)
            poison(connection)
        engine.dispose()
        yield settings


@pytest.fixture(scope="module")
def client(poisoned: Settings) -> Iterator[FlaskClient]:
    with client_of(poisoned, Scope.ADMIN) as client:
        yield client


def test_every_page_escapes_hostile_text(client: FlaskClient) -> None:
    waiting, seen, kinds = [*_BEGIN, _request(client)], set(_BEGIN), dict[str, int]()
    escaped = set[str]()
    while waiting:
        address = waiting.pop()
        with client.get(address) as response:
            content = response.get_data(as_text=True)
        if response.mimetype != "text/html" or address.startswith("/docs"):
            continue
        assert response.status_code == 200, (address, content)
        assert [it for it in (*MARKUP, *CODES) if it in content] == [], address
        if "&lt;script&gt;alert" in content:
            escaped.add(_kind(address))
        for link in sorted(re.findall(r'href="(/[^"#&]*)"', content)):
            kind = _kind(link)
            if link not in seen and not link.startswith("/api/"):
                seen.add(link)
                kinds[kind] = kinds.get(kind, 0) + 1
                if kinds[kind] <= _EACH:
                    waiting.append(link)
    assert escaped >= _SHOWN


def _kind(address: str) -> str:
    return re.sub(r"[^/]*\d[^/]*", "N", address.partition("?")[0])


def _posted(client: FlaskClient, form: str, target: str, **fields: str) -> tuple[str, str]:
    """Where a form leads, and what it shows."""
    match = re.search(r'name="form_token" value="([^"]+)"', client.get(form).text)
    assert match is not None
    answer = client.post(target, data={"form_token": match[1], **fields})
    return str(answer.location), answer.text


def _request(client: FlaskClient) -> str:
    """A request whose log and reason are hostile."""
    address, _ = _posted(client, "/ask", "/ask", text="flask\n", python="3.12")
    with client.application.extensions[EXTENSION].writing() as connection:
        poison(connection)
    return address


@pytest.mark.parametrize("address", ADDRESSES)
def test_hostile_text_in_a_page_url_is_escaped(client: FlaskClient, address: str) -> None:
    response = client.get(address.format(quote(HOSTILE, safe="")))
    assert response.status_code in {200, 400, 404}
    assert [it for it in (*MARKUP, *CODES) if it in response.get_data(as_text=True)] == []


def test_hostile_text_in_a_form_is_escaped(client: FlaskClient) -> None:
    for old in (HOSTILE, f"numpy==2.0.2 # {HOSTILE}", '{"<script>alert": {"x": 1}}'):
        fields = {"old": old, "new": "numpy==2.4.6", "python": HOSTILE}
        _, shown = _posted(client, "/compare", "/compare/locks", **fields)
        assert [it for it in (*MARKUP, *CODES) if it in shown] == [], old


def unharmed(settings: Settings, *arguments: str) -> int:
    """The exit code of a command that prints neither terminal codes nor a traceback."""
    done = thoth(settings, *arguments, ADVISORIES="", PACKAGE_INDEXES="local=http://127.0.0.1:9/simple",
                 FETCH_MISSING="0")  # fmt: skip
    for unwanted in (*CODES, SECRET, "Traceback"):
        assert unwanted not in done.stdout + done.stderr, (arguments, unwanted, done.stderr)
    return done.returncode


@pytest.mark.parametrize("command", SHOWING)
def test_hostile_text_in_rows_does_not_reach_the_terminal(poisoned: Settings, command: str) -> None:
    assert unharmed(poisoned, *command.split()) in {0, 1}


@pytest.mark.parametrize("command", ASKING)
def test_hostile_argument_neither_breaks_a_command_nor_reaches_the_terminal(
    poisoned: Settings, command: str
) -> None:
    for value in (HOSTILE, NOT_UTF8):
        arguments = [it.replace("{0}", value) for it in shlex.split(command)]
        assert unharmed(poisoned, *arguments) in {0, 1, 2, 3}


@pytest.mark.parametrize("name", READING)
def test_hostile_file_neither_breaks_a_command_nor_reaches_the_terminal(
    poisoned: Settings, tmp_path: Path, name: str
) -> None:
    for content in CONTENTS:
        (tmp_path / name).write_bytes(content)
        command = ("check",) if name == "report.json" else ("advise", "--offline")
        assert unharmed(poisoned, *command, str(tmp_path / name)) in {1, 2}, content
