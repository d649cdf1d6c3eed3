"""From a folder as the executor leaves it to the record, the graph and a verdict in pairs."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import select, text

from cli.ingest import ingest
from graph.engine import Stores
from graph.projection import rebuild
from graph.record.measurements import measured_observations
from graph.tables import HardwareRow, InspectionRow, ObservationRow
from tests.factories.inspections import (
    HOST,
    MATMUL,
    OTHER_HOST,
    RUN,
    Record,
    failed_status,
    inspection_files,
    job_document,
    measured,
    printed,
    specification_document,
    stack_jobs,
    write,
)
from tests.services.commands import row_counts, thoth, thoth_json
from tests.services.projection import answer, project, verified

OLD, NEW, BROKEN = (f"inspection-matmul-0000000{digit}" for digit in "abc")
#: A machine that loses a third of its speed over ten blocks, GFLOPS.
FADING = [200.0 * 0.96**block for block in range(10)]
FASTER = [1.06 * rate * (1 + 0.002 * (-1) ** block) for block, rate in enumerate(FADING)]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two stacks in turns, one of them 6 % faster, and one that cannot be built."""
    folder = tmp_path / "inspections"
    deliver_stack(folder, OLD, stack_jobs(FADING, OLD), "2.0.0")
    deliver_stack(folder, NEW, stack_jobs(FASTER, NEW, 1), "2.1.0")
    broken = specification_document({"numpy": "1.15.0"})
    status = failed_status("no-wheel", "numpy 1.15.0 has no wheel for Python 3.11")
    write(folder / BROKEN, inspection_files((), broken, status))
    return folder


def deliver_stack(folder: Path, name: str, jobs: list[Record], version: str) -> None:
    write(folder / name, inspection_files(jobs, specification_document({"numpy": version})))


def take_in(stores: Stores, source: Path, code: int = 0) -> str:
    done = CliRunner().invoke(ingest, ["inspections", str(source)], obj=stores.settings)
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def rows(stores: Stores, *columns: Any) -> list[tuple[Any, ...]]:
    query = (
        select(*columns)
        .join(InspectionRow, InspectionRow.document_id == ObservationRow.document_id)
        .order_by(InspectionRow.name, ObservationRow.position)
    )
    with stores.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query)]


def stacks_of(stores: Stores) -> list[Record]:
    document = thoth_json(stores.settings, "stacks", "--baseline", old_stack(stores))
    (group,) = document["groups"]
    return list(group["stacks"])


def old_stack(stores: Stores) -> str:
    query = select(InspectionRow.stack_digest).where(InspectionRow.name == OLD)
    with stores.engine.connect() as connection:
        return str(connection.scalars(query).first())


def test_inspection_is_projected_with_machine_conditions(stores: Stores, runs: Path) -> None:
    said = take_in(stores, runs)
    assert "3 read: 3 new, 0 already known, 0 quarantined" in said
    assert "20 measured, 1 build failed" in said
    seen = rows(
        stores,
        InspectionRow.name, ObservationRow.unit, ObservationRow.host, ObservationRow.block,
        ObservationRow.turn, ObservationRow.steal_share, ObservationRow.unstable_reason,
    )  # fmt: skip
    assert seen[0] == (OLD, "FLOP/s", HOST, f"{RUN}:0", 0, 0.001, None)
    assert seen[13] == (NEW, "FLOP/s", HOST, f"{RUN}:3", 1, 0.001, None)
    built = rows(
        stores,
        ObservationRow.outcome, ObservationRow.failure_reason, ObservationRow.failure_message,
        ObservationRow.rate, ObservationRow.unit, InspectionRow.job_count,
    )[-1]  # fmt: skip
    message = "numpy 1.15.0 has no wheel for Python 3.11"
    assert built == ("build_failed", "no-wheel", message, None, None, 0)
    with stores.engine.connect() as connection:
        labels = set(connection.scalars(select(HardwareRow.label)))
    assert labels == {"Example CPU, 4 CPUs, quota 2, threads 2", "unknown hardware"}
    query = (
        "MATCH (i:Inspection {name: $name})-[:OBSERVED]->(o) WHERE o.turn = 1"
        " RETURN o.unit, o.host, o.block, o.turn ORDER BY o.block LIMIT 1"
    )
    assert answer(stores, query, name=NEW) == [["FLOP/s", HOST, f"{RUN}:0", 1]]
    failed = (
        "MATCH (s:Stack)<-[:INSPECTED]-(i)-[:OBSERVED]->(o {outcome: 'build_failed'})"
        " RETURN i.name, o.failure_reason, o.unit, o.host"
    )
    assert answer(stores, failed) == [[BROKEN, "no-wheel", None, None]]
    before = verified(stores)
    assert before.equal
    rebuild(stores.engine, stores.driver, database=stores.database)
    assert verified(stores).kinds == before.kinds


def test_interleaved_stacks_are_compared_in_pairs_and_pooled_over_hosts(
    stores: Stores, runs: Path
) -> None:
    take_in(stores, runs)
    fast, base = stacks_of(stores)
    assert (fast["component_version"], base["component_version"]) == ("2.1.0", "2.0.0")
    found = fast["comparison"]
    assert (found["method"], found["pairs"], found["hosts"]) == ("paired", 10, 1)
    assert found["verdict"] == "faster"
    assert found["difference_pct"] == pytest.approx(6.0, abs=0.1)
    assert found["degrees_of_freedom"] == 9
    shown = thoth(stores.settings, "stacks", "--verbose", "--baseline", old_stack(stores)).stdout
    assert "10 pairs" in shown
    slow = [0.7 * rate for rate in FADING], [0.7 * rate for rate in FASTER]
    for turn, (name, rates, version) in enumerate(
        ((OLD, slow[0], "2.0.0"), (NEW, slow[1], "2.1.0"))
    ):
        jobs = stack_jobs(rates, name, turn, host=OTHER_HOST, hostname="bench-2")
        deliver_stack(runs / "elsewhere", name, jobs, version)
    take_in(stores, runs)
    found = stacks_of(stores)[0]["comparison"]
    assert (found["method"], found["hosts"], found["pairs"]) == ("pooled", 2, 20)
    assert (found["tau"], found["verdict"]) == (0.0, "faster")


def test_identical_stacks_are_compared_as_a_self_check(stores: Stores, tmp_path: Path) -> None:
    first, again = stack_jobs(FADING[:1] * 6, OLD), stack_jobs(FADING[:1] * 6, NEW, 1)
    deliver_stack(tmp_path, OLD, first, "2.0.0")
    deliver_stack(tmp_path, NEW, again, "2.0.0")
    take_in(stores, tmp_path)
    told = thoth_json(stores.settings, "stacks", "--self-check")
    assert (told["comparisons"], told["faster"], told["slower"]) == (1, 0, 0)
    assert told["problems"] == []
    done = thoth(stores.settings, "stacks", "--self-check", "--indicator", "unheard-of")
    assert (done.returncode, done.stdout.split(":")[0]) == (
        0, "No stack was measured twice with five stable jobs",
    )  # fmt: skip


def test_several_results_of_a_job_are_separate_comparison_groups(
    stores: Stores, tmp_path: Path
) -> None:
    parts = [
        measured(rate, unit, parameters={**MATMUL, "dtype": dtype})
        for rate, unit, dtype in ((200.0, "GFLOPS", "float32"), (400.0, "GOPS", "int8"))
    ]
    deliver_stack(tmp_path, OLD, stack_jobs([printed(*parts)] * 5, OLD), "2.0.0")
    take_in(stores, tmp_path)
    project(stores)
    assert verified(stores).equal
    groups = thoth_json(stores.settings, "stacks", "--all")["groups"]
    found = {group["unit"]: group["stacks"][0] for group in groups}
    assert found["FLOP/s"]["median_flop_per_s"] == pytest.approx(200e9)
    assert found["OP/s"]["median_flop_per_s"] is None
    assert found["OP/s"]["median_rate"] == pytest.approx(400e9)
    assert {stack["jobs"] for stack in found.values()} == {5}
    with stores.engine.connect() as connection:
        seen = list(measured_observations(connection))
    assert len(seen) == 10
    assert {it.reading.host for it in seen} == {HOST}


def test_host_problem_marks_are_corrected_by_a_later_delivery(
    stores: Stores, tmp_path: Path
) -> None:
    killed = job_document(1, "", exit_code=-9, ended="signalled")
    unbuilt = inspection_files((), None, failed_status("cannot-confine", "bwrap is not installed"))
    write(tmp_path / OLD, inspection_files([job_document(0), killed]))
    write(tmp_path / NEW, unbuilt)
    columns = (ObservationRow.outcome, ObservationRow.quarantine_reason, InspectionRow.job_count)
    assert "3 new: 2 host problem, 1 measured" in take_in(stores, tmp_path)
    right = rows(stores, *columns)
    assert sorted(it[0] for it in right) == ["host_problem", "host_problem", "measured"]
    with stores.engine.begin() as connection:  # as an earlier release stored them
        connection.execute(
            text(
                "UPDATE observations SET quarantine_reason = NULL, outcome ="
                " CASE failure_reason WHEN 'signalled' THEN 'crashed' ELSE 'build_failed' END"
                " WHERE outcome = 'host_problem'"
            )
        )
        connection.execute(text("UPDATE inspections SET job_count = 2 WHERE job_count = 1"))
    rebuild(stores.engine, stores.driver, database=stores.database)
    take_in(stores, tmp_path)
    assert rows(stores, *columns) == right
    query = "MATCH (o:Observation) RETURN o.outcome AS outcome, count(o) AS seen ORDER BY outcome"
    assert answer(stores, query) == [["host_problem", 2], ["measured", 1]]
    assert verified(stores).equal
    before = row_counts(stores.engine)
    take_in(stores, tmp_path)
    assert row_counts(stores.engine) == before
