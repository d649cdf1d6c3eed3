"""Results of other benchmark systems are named in advice, and decide nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from graph.engine import Stores
from graph.record.benchmark_entries import context_of
from graph.tables import HardwareRow
from ingest.inspections.pipeline import ingest_inspections
from ingest.sources.source_items import SourceLimits
from tests.factories.foreign_results import foreign_result, store_foreign
from tests.factories.inspections import inspection_files, specification_document, stack_jobs, write
from tests.factories.releases import release
from tests.services.commands import thoth, thoth_json
from tests.services.projection import deliver

WHERE = ("--python", "3.11", "--platform", "manylinux_2_28_x86_64", "--type", "performance")
RATES = [200.0 * 0.96**block for block in range(10)]


@pytest.fixture
def measured(stores: Stores, tmp_path: Path) -> tuple[Stores, str]:
    """Two releases that were measured, and the hardware class."""
    for turn, version in enumerate(("2.0.0", "2.1.0")):
        name = f"inspection-matmul-0000000{turn}"
        rates = [
            rate * (1 + 0.06 * turn) * (1 + 0.002 * (-1) ** block)
            for block, rate in enumerate(RATES)
        ]
        files = inspection_files(
            stack_jobs(rates, name, turn), specification_document({"numpy": version})
        )
        write(tmp_path / "inspections" / name, files)
    ingest_inspections(
        stores.settings, stores.engine, [str(tmp_path / "inspections")], SourceLimits()
    )
    deliver(stores, [release("numpy", version) for version in ("2.0.0", "2.1.0")])
    with stores.engine.connect() as connection:
        return stores, str(connection.scalars(select(HardwareRow.digest)).one())


def store(stores: Stores) -> None:
    """Two results here with the package, one elsewhere, and three here with other software."""
    here = {"cpu": "Intel(R) Example CPU @ 3.0GHz"}
    numpy: dict[str, str | None] = {"numpy": "2.1.0"}
    results = [
        *(foreign_result(1.0, system="a", source=it, hardware=here, software=numpy) for it in "xy"),
        foreign_result(1e9, system="b", source="z", software={"numpy": None}),
        *(foreign_result(1.0, system="c", source=it, hardware=here) for it in "uvw"),
    ]
    with stores.engine.begin() as connection:
        store_foreign(connection, *results)


def advice(stores: Stores, folder: Path, hardware: str) -> dict[str, Any]:
    (folder / "requirements.in").write_text("numpy\n", encoding="utf-8")
    report = thoth_json(
        stores.settings, "advise", str(folder), *WHERE, "--hardware", hardware, "--count", "2"
    )
    return dict(report)


def test_foreign_benchmark_results_are_mentioned_without_changing_advice(
    measured: tuple[Stores, str], tmp_path: Path
) -> None:
    stores, hardware = measured
    before = advice(stores, tmp_path, hardware)
    store(stores)
    after = advice(stores, tmp_path, hardware)
    notes = after["result"]["report"]["stack_info"]
    context = [it for it in notes if it["code"] == "benchmarks"]
    assert [(it["type"], it["message"]) for it in context] == [
        ("INFO", "a has 2 results with numpy on this hardware (example); "
                 "see `thoth benchmarks --system a --software numpy --hardware example`"),
        ("INFO", "b has 1 result with numpy, none on this hardware; "
                 "see `thoth benchmarks --system b --software numpy`"),
        ("INFO", "c has 3 results on this hardware (example); "
                 "see `thoth benchmarks --system c --hardware example`"),
    ]  # fmt: skip
    assert any(it["claims"] for it in before["result"]["report"]["products"])
    # Products, verdicts, certificate and everything else: the same bytes.
    after["result"]["report"]["stack_info"] = [it for it in notes if it not in context]
    assert json.dumps(after["result"]) == json.dumps(before["result"])
    # The command in a note lists what the note counts.
    rows = thoth_json(
        stores.settings, "benchmarks", "--system", "a", "--software", "numpy",
        "--hardware", "example",
    )  # fmt: skip
    assert len(rows) == 2


def test_advice_that_mentions_foreign_results_can_be_replayed_and_checked(
    measured: tuple[Stores, str], tmp_path: Path
) -> None:
    """More results do not change advice of before."""
    stores, hardware = measured
    store(stores)
    report = advice(stores, tmp_path, hardware)
    (tmp_path / "report.json").write_text(json.dumps(report), encoding="utf-8")
    with stores.engine.begin() as connection:
        store_foreign(connection, foreign_result(system="d", software={"numpy": "2.1.0"}))
    for command in (("replay", report["metadata"]["document_id"]),
                    ("check", str(tmp_path / "report.json"))):  # fmt: skip
        done = thoth(stores.settings, *command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_foreign_benchmark_results_are_not_mentioned_for_unknown_hardware(stores: Stores) -> None:
    with stores.engine.begin() as connection:
        store_foreign(connection, foreign_result())
        assert context_of(connection, ["flask"], None) == []
        assert context_of(connection, ["flask"], "sha256:unknown") == []
