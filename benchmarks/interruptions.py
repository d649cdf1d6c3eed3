"""``kill -9`` at random points: after a restart nothing is missing, doubled or different."""

import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.documents import write_documents
from benchmarks.fresh_stores import THOTH, FreshHome, fresh_home, time_command
from graph.engine import open_stores
from graph.tables import Base, GraphCheckpointRow, table_of
from ingest.inspections.pipeline import ingest_inspections
from ingest.sources.source_items import SourceLimits

DOCUMENTS, POINTS = 1_000, 20


def main() -> None:
    """Interrupt ingest, projector included, at 20 points; takes some three minutes."""
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        documents = Path(folder, "documents")
        write_documents(documents, DOCUMENTS, seed=3)
        outcome = interrupt(documents, POINTS, seed=7)
    print(
        f"killed at {POINTS} points of a batch of {DOCUMENTS}: {outcome['partial']} runs left "
        f"part of the documents behind; after a restart {outcome['equal']} of {POINTS} equal an "
        "uninterrupted run in every count and digest"
    )
    if outcome["equal"] != POINTS:
        raise SystemExit(1)


def interrupt(documents: Path, points: int, seed: int) -> dict[str, int]:
    """Kill and resume ``points`` times, each time on fresh stores.

    Every other time the documents come in whole and the projector alone is killed.
    """
    draw = random.Random(seed)
    with fresh_home() as home:
        ingest: tuple[str, ...] = ("ingest", "inspections", str(documents))
        duration = time_command(home, *ingest).wall_s
        expected = state_of(home)
    partial = equal = 0
    for point in range(points):
        with fresh_home() as home:
            command = ingest
            if point % 2:
                _record_only(home, documents)
                command = ("graph", "sync")
            _kill(home, command, duration * draw.uniform(0.05, 1.0))
            left = state_of(home)
            partial += left != expected and any(left["rows"].values())
            time_command(home, *ingest)
            time_command(home, "graph", "sync")
            equal += state_of(home) == expected
    return {"partial": partial, "equal": equal}


def _record_only(home: FreshHome, documents: Path) -> None:
    with open_stores(home.settings, graph=False) as stores:
        ingest_inspections(home.settings, stores.engine, [str(documents)], SourceLimits())


def _kill(home: FreshHome, command: tuple[str, ...], after_s: float) -> None:
    process = subprocess.Popen(
        [THOTH, *command], env=home.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(after_s)
    process.kill()
    process.wait()


def state_of(home: FreshHome) -> dict[str, Any]:
    """Counts and digests of every table and of every kind in the graph.

    Times of arrival, numbers of sequences and names of batches differ between any two runs and are
    left out.
    """
    # The graph shows times of arrival, so its digests are compared with the record's alone. This
    # comparison leaves a row in the record, so it comes first.
    graph = {
        it["kind"]: (it["graph_count"], it["graph_digest"] == it["record_digest"])
        for it in home.thoth("graph", "verify")["kinds"]
    }
    rows: dict[str, tuple[int, str]] = {}
    with open_stores(home.settings, graph=False) as stores, stores.engine.connect() as connection:
        tables = set(Base.metadata.tables.values()) - {table_of(GraphCheckpointRow)}
        for table in sorted(tables, key=lambda it: it.name):
            columns = ", ".join(
                column.name
                for column in table.columns
                if not column.name.endswith(("_at", "entry_id")) or column.name == "created_at"
            )
            count, digest = connection.exec_driver_sql(
                f"SELECT count(*), md5(coalesce(string_agg(md5(r::text), '' ORDER BY md5(r::text)),"
                f" '')) FROM (SELECT {columns} FROM {table.name}) AS r"
            ).one()
            rows[table.name] = (count, digest)
    return {"rows": rows, "graph": graph}
