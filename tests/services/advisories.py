"""The record of a test, and archives of advisories to take into it."""

from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import text

from common.settings import Settings
from graph.record.packages import refresh_revisions
from graph.record.vulnerabilities import match_versions
from ingest.advisories.sync import AdvisoryReport, sync_source
from tests.factories.advisories import add_versions, write_archive


class Record:
    """The record of a test, and archives to take into it."""

    def __init__(self, settings: Settings, engine: sqlalchemy.Engine, folder: Path) -> None:
        self.settings, self.engine, self.folder = settings, engine, folder

    def sync(self, *documents: dict[str, Any], name: str = "all.zip") -> AdvisoryReport:
        archive = write_archive(self.folder / name, documents)
        return sync_source(self.settings, self.engine, str(archive))

    def add(self, *versions: str) -> None:
        with self.engine.begin() as connection:
            match_versions(connection, add_versions(connection, *versions))
            refresh_revisions(connection, {version.partition("==")[0] for version in versions})

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(query))]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        rows = self.rows("SELECT vulnerability_id, purl FROM affected_versions ORDER BY 1, 2")
        return [(row[0], row[1].removeprefix("pkg:pypi/")) for row in rows]

    @property
    def revisions(self) -> dict[str, str]:
        return dict(self.rows("SELECT name, revision FROM packages"))

    def taken(self) -> list[tuple[str, str]]:
        """The outbox, emptied."""
        rows = self.rows("SELECT DISTINCT kind, key FROM outbox ORDER BY kind, key")
        with self.engine.begin() as connection:
            connection.execute(text("DELETE FROM outbox"))
        return [(row[0], row[1].removeprefix("pkg:pypi/")) for row in rows]
