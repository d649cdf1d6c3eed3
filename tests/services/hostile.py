"""A record whose free texts are hostile: HTML, SVG, direction marks and terminal codes."""

from __future__ import annotations

from pathlib import Path

import orjson
from sqlalchemy import Connection, text

from common.settings import Settings
from graph.engine import relational_engine
from tests.factories.advisories import flask_sessions, write_archive
from tests.factories.affected_stacks import add_affected_stack
from tests.factories.bisects import add_bisects
from tests.factories.foreign_results import foreign_result, store_foreign
from tests.factories.nights import add_night
from tests.services.commands import ROOT, thoth

HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(1)><svg onload=alert(1)>{{7*7}}"
    "</pre></title><a href=javascript:alert(1)>\u202e\x1b[31m"
)
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


def fill_hostile(settings: Settings, folder: Path) -> None:
    """Ingest the samples, a night and foreign results, and replace every free text."""
    archive = write_archive(folder / "all.zip", flask_sessions())
    for command in (
        ("ingest", "inspections", str(ROOT / "samples" / "inspections.tar.gz")),
        ("packages", "import", str(ROOT / "samples" / "packages.jsonl.gz")),
        ("advisories", "sync", str(archive)),
    ):
        done = thoth(settings, *command)
        assert done.returncode == 0, (command, done.stderr)
    engine = relational_engine(settings)
    try:
        with engine.begin() as connection:
            add_night(connection, HOSTILE)
            add_bisects(connection, HOSTILE)
            add_affected_stack(connection, HOSTILE)
            store_foreign(
                connection,
                foreign_result(
                    benchmark=HOSTILE, parameters={HOSTILE: HOSTILE}, reason=HOSTILE,
                    hardware={"cpu": HOSTILE}, software={"tensorflow": HOSTILE},
                ),
            )  # fmt: skip
            poison(connection)
    finally:
        engine.dispose()


def poison(connection: Connection) -> None:
    """Replace every free text; names that must differ keep their value after it."""
    values = {"text": HOSTILE}
    for table, columns in _TEXTS.items():
        for name in columns:
            kept = f" || {name}" if name in {"name", "label"} else ""
            connection.execute(text(f"UPDATE {table} SET {name} = :text{kept}"), values)
    connection.execute(
        text("UPDATE observations SET parameters = parameters || jsonb_build_object(:text, :text)"),
        values,
    )
    # One job of each inspection does not count; the others stay comparable.
    connection.execute(
        text(
            """
            UPDATE observations SET unstable_reason = :text WHERE observation_id IN
            (SELECT min(observation_id) FROM observations GROUP BY document_id)
            """
        ),
        values,
    )
    line = orjson.dumps({"asctime": "2026", "levelname": "INFO", "message": HOSTILE}).decode()
    connection.execute(text("UPDATE analyses SET log = :line"), {"line": line})
