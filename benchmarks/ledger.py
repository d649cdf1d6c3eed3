"""The ledger with 10,000 pieces of past advice: time and memory of scoring them, and of the answer.

A run without new knowledge is what most nights do: it reads everything and stores nothing. The
share per piece must not grow with their number, and neither must the memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from sqlalchemy import select

from adviser.advise import advise, in_this_process
from adviser.answering.advice_scoring import recorded_ledger, score_past_advice
from adviser.reports.record_links import links_in
from adviser.scoring.criteria import RecommendationType
from benchmarks.homes import fresh_home
from graph.engine import Stores
from graph.migrate import migrated_stores
from graph.record.advice import add_advice
from graph.tables import HardwareRow
from tests.factories.inspections import inspection_files, specification_document, stack_jobs, write
from tests.factories.reports import report_of, stored_report
from tests.factories.requests import NOTHING, request_for, snapshot_for
from tests.factories.universes import Index

ADVICE = 10_000
#: Projects that ask in turn; each has versions, and so a snapshot, of its own.
_PROJECTS = 50


def main(arguments: Sequence[str] = ()) -> None:
    """Print time and memory after each tenth of the advice."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger")
    parser.add_argument("--advice", type=int, default=ADVICE, help="pieces of past advice")
    count: int = parser.parse_args(arguments).advice
    with fresh_home() as home:
        folder = home.path / "measured"
        for turn, (version, rate) in enumerate((("2.2.0", 160.0), ("2.1.0", 200.0))):
            _write_inspection(folder, turn, version, rate)
        home.thoth("ingest", "inspections", str(folder))
        with migrated_stores(home.settings, graph=False) as stores:
            print(f"pieces of advice   {'first run':>22} {'again':>22} {'answer':>8} {'memory':>9}")
            for share in (0.1, 1.0):
                _store_advice(stores, round(share * count))
                _print_row(stores, round(share * count))


def _print_row(stores: Stores, count: int) -> None:
    seconds = []
    for _ in range(2):
        began = perf_counter()
        scored = score_past_advice(stores.engine, stores.settings, in_this_process).scored
        seconds.append(perf_counter() - began)
        seconds.append(1000 * seconds[-1] / (scored or count))
    began = perf_counter()
    months = recorded_ledger(stores.engine)
    answer = perf_counter() - began
    if sum(it.advices for it in months) != count:
        raise RuntimeError(f"{months}: not all of the {count} pieces of advice were scored")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{count:>16} {seconds[0]:>10.1f} s, {seconds[1]:>5.1f} ms {seconds[2]:>10.1f} s,"
        f" {seconds[3]:>5.1f} ms {answer:>6.2f} s {memory:>5.0f} MiB",
        flush=True,
    )


def _store_advice(stores: Stores, count: int) -> None:
    """Store pieces of advice up to this number; those that exist stay."""
    with stores.engine.connect() as connection:
        hardware = connection.scalar(select(HardwareRow.digest))
    made = []
    for project in range(_PROJECTS):
        name = f"project-{project}"
        request = request_for(f"numpy\n{name}\n", RecommendationType.PERFORMANCE, hardware=hardware)
        index: Index = {"numpy": {"2.2.0": {}, "2.1.0": {}}, name: {"1.0": {}}}
        made.append(advise(request, snapshot_for(request, index), NOTHING))
    for number in range(count):
        advice = made[number % _PROJECTS]
        report = report_of(advice)
        report["metadata"]["document_id"] = f"adviser-260101000000-{number:016x}"
        stored = stored_report(advice, report)
        links = links_in(json.loads(stored.report)["result"])
        with stores.engine.begin() as connection:
            add_advice(connection, stores.settings, stored, links)


def _write_inspection(folder: Path, turn: int, version: str, rate: float) -> None:
    """Ten jobs of a release of NumPy, in turns with those of the other."""
    rates = [rate * (1 + 0.002 * (-1) ** (block + turn)) for block in range(10)]
    name = f"inspection-matmul-0000000{'ab'[turn]}"
    document = specification_document({"numpy": version})
    write(folder / name, inspection_files(stack_jobs(rates, name, turn), document))


if __name__ == "__main__":
    main(sys.argv[1:])
