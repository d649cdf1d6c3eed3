"""What commands load. A module that returns here costs every user a tenth of a second or more."""

import json
import os
import subprocess
import sys
from pathlib import Path

from common.settings import Settings
from graph.engine import Stores
from tests.factories.releases import release
from tests.services.commands import ROOT, WHERE, thoth, variables
from tests.services.projection import deliver

PROGRAM = """
import sys
from cli.main import run, thoth
exit_code = run(thoth, sys.argv[1:])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(exit_code)
"""
#: Loaded by optional parts of what the commands need.
SLOW = {
    "alembic", "bs4", "fsspec", "httpx", "numpy", "ortools", "pandas", "pydantic", "pypi_simple",
    "requests", "scipy", "sqlalchemy.orm",
}  # fmt: skip


def loaded_by(settings: Settings, *arguments: str, **more: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=os.environ | variables(settings, **more), cwd=ROOT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_status_command_imports_no_large_library(stores: Stores) -> None:
    # The embedded stores: SQLAlchemy reads the URL of an external one.
    loaded = loaded_by(stores.settings, "status", DATABASE_URL="", GRAPH_URL="")
    assert "psycopg2" in loaded
    assert not loaded & {*SLOW, "rich", "packaging", "sqlalchemy", "adviser"}


def test_advice_without_measurements_loads_no_statistics_and_no_solver(
    stores: Stores, tmp_path: Path
) -> None:
    deliver(stores, [release("web", "2.0", ["core>=1"]), release("core", "1.1")])
    done = thoth(stores.settings, "status")
    counted = "2 releases of 2 packages, 0 vulnerabilities, 0 measurements of 0 stacks"
    assert f"  knows: {counted}" in done.stdout
    record, _ = json.loads(thoth(stores.settings, "status", "--json").stdout)["stores"]
    assert record["contents"]["releases"] == 2
    (tmp_path / "requirements.in").write_text("web\n", encoding="utf-8")
    loaded = loaded_by(stores.settings, "advise", str(tmp_path), *WHERE)
    assert "graph.tables" in loaded
    assert not loaded & SLOW
