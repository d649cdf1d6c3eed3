"""A machine on which nothing was ever started, used by its commands alone."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.services.commands import ROOT, THOTH, program
from tests.services.waiting import DEADLINE_S

EXTERNAL = ("DATABASE_URL", "GRAPH_URL", "DOCUMENT_STORE_URL", "INGEST_SOURCES")


@dataclass(frozen=True, slots=True)
class Installation:
    """A machine on which nothing was ever started: an empty home, no settings."""

    home: Path

    def run(self, *command: str, timeout_s: float = DEADLINE_S) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name not in EXTERNAL}
        path = f"{Path(THOTH).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {
            **kept,
            "THOTH_HOME": str(self.home),
            "INDEX_CACHE": str(self.home / "cache"),
            "PATH": path,
        }
        name, *arguments = command
        if name == "thoth":
            # The program that is loaded already: a new one spends more on imports than it works.
            return program().run(tuple(arguments), environment, ROOT)
        return subprocess.run(
            command,
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def thoth(self, *arguments: str, code: int = 0) -> str:
        done = self.run("thoth", *arguments)
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.thoth(*arguments))
