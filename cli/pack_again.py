"""``thoth pack again``: measures comparisons of a pack here, and compares the effects."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from sqlalchemy import Connection

from adviser.answering.target_hardware import own_hardware
from adviser.packs.pack_contents import check_contents
from adviser.packs.pack_evidence import packed_evidence
from adviser.packs.pack_files import Pack, opened
from adviser.packs.repetition import (
    PackCell,
    agrees,
    chosen_cells,
    groups_between,
    specification_again,
)
from adviser.packs.stored_packs import observations_of
from adviser.packs.trust import read_policy
from adviser.scoring.comparisons import Comparison
from adviser.stack_comparison import StackGroup, compare_stacks, short_digest
from adviser.stacks_document import comparison_document
from cli.compare_stacks import pinned_versions, subject_of
from cli.console import print_json, print_lines, print_note
from cli.inspect import ingest_folders, run_rounds
from common.formats.locks.entries import LockSelection
from common.settings import Settings
from graph.record.measurements import measured_observations
from graph.record.observations import inspections_named
from ingest.record import open_record
from model.errors import InvalidArgument, ProjectError
from model.json_documents import digest
from model.measurements.evidence import EvidencePack, MeasuredObservation
from model.text import counted, duration_text
from pis import catalogue
from pis.amun.inspect import InspectOptions
from pis.amun.inspection_folder import InspectionOutcome
from pis.amun.specification import Specification, load_specification
from pis.bundle import script_sha256

#: Duration of a job if it is unknown, s.
_JOB_S = 60.0


def measure_again(  # noqa: PLR0913 - one for each option
    settings: Settings,
    path: Path,
    cells: int,
    between: tuple[str, str] | None,
    jobs: int,
    out: Path | None,
    wait: float,
    *,
    share_machine: bool,
    trust_packages: bool,
    as_json: bool,
) -> bool:
    """Run ``thoth pack again``, and return whether all comparisons agree."""
    pack, policy = opened(path), read_policy(settings)
    if pack.key not in policy.rules and not trust_packages:
        raise InvalidArgument(
            f"{path}: its packages would run as you, and {policy.source} does not trust its key",
            hint="if you would install the packages of the pack, add --trust-packages",
        )
    check_contents(pack)
    purls = [it["purl"] for it in pack.rows("stacks", ("purl",))]
    about = EvidencePack(pack.digest, pack.manifest.name)
    evidence = packed_evidence(pack, about, purls, datetime.now(UTC))
    here, observed = own_hardware(), list(observations_of(pack.manifest, evidence))
    if between is None:
        chosen = chosen_cells(compare_stacks(observed), here.digest, cells, pack.digest)
    else:
        locks = (pinned_versions(subject_of(it, None, LockSelection())) for it in between)
        chosen = chosen_cells(groups_between(observed, *locks), here.digest, None, pack.digest)
    if not chosen:
        raise InvalidArgument(
            f"{path}: the pack compares no such stacks on this machine's class, {here.label}"
        )
    out = (out or settings.home / "again" / short_digest(pack.digest)).absolute()
    plans = [_plan(settings, pack, observed, it, jobs, out) for it in chosen]
    rounds = {it[1].submission: it for it in plans if not isinstance(it, ProjectError)}
    seconds = {
        plan[1].submission: 2 * jobs * (cell.comparison.job_s or _JOB_S)
        for plan, cell in zip(plans, chosen, strict=True)
        if not isinstance(plan, ProjectError)
    }
    total = counted(2 * jobs * len(rounds), "job")
    print_note(f"{total}, about {duration_text(sum(seconds.values()))} and the builds, in {out}")
    outcomes = run_rounds(settings, rounds.values(), "local", wait, share_machine, quiet=as_json)
    if measured := [it.folder for it in outcomes if it.measured]:
        ingest_folders(settings, measured, as_json=True)
    pairs = dict(zip(rounds, zip(outcomes[::2], outcomes[1::2], strict=True), strict=False))
    with open_record(settings) as engine, engine.connect() as connection:
        results = [
            _Result(cell, None, str(plan)) if isinstance(plan, ProjectError)
            else _result(connection, cell, pairs.get(plan[1].submission, ()))
            for cell, plan in zip(chosen, plans, strict=True)
        ]  # fmt: skip
    agreeing = sum(it.agrees is True for it in results)
    if as_json:
        print_json({
            "digest": pack.digest, "hardware": here.digest, "cells": len(results),
            "agree": agreeing, "results": [it.document() for it in results],
        })  # fmt: skip
    else:
        print_lines(map(_line, results))
        click.echo(f"{agreeing} of {counted(len(results), 'comparison')} agree.")
        if agreeing == len(results):
            click.echo("`thoth pack sign --assurance reproduced` can record this.", err=True)
    return agreeing == len(results)


@dataclass(frozen=True, slots=True)
class _Result:
    """A comparison of a pack and of this machine.

    :param own: ``None`` if it could not be measured
    :param problem: why
    """

    cell: PackCell
    own: Comparison | None
    problem: str | None = None

    @property
    def agrees(self) -> bool | None:
        return None if self.own is None else agrees(self.cell.comparison, self.own)

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        group = self.cell.group
        names = ("comparison_key", "indicator", "parameters", "python_version")
        return {
            **{it: getattr(group, it) for it in names},
            **{
                name: stack and {"stack_digest": stack.stack_digest, "label": stack.label}
                for name, stack in (("baseline", group.baseline), ("stack", self.cell.stack))
            },
            "packed": comparison_document(self.cell.comparison),
            "own": self.own and comparison_document(self.own),
            "agrees": self.agrees,
            "problem": self.problem,
        }


def _plan(
    settings: Settings, pack: Pack, observed: Sequence[MeasuredObservation], cell: PackCell,
    jobs: int, out: Path,
) -> tuple[list[Specification], InspectOptions] | ProjectError:  # fmt: skip
    """The specifications of both stacks, or why there are none.

    Cells with equal specifications share a run, and a repeated command finds their finished jobs.
    """
    group, packages = cell.group, {it.reading.stack: it.packages for it in observed}
    try:
        script = _script(pack, group)
        documents = [
            specification_again(pack.manifest, packages[it], *script, group.python_version)
            for it in _digests(cell)
        ]
        pair = [load_specification(it, dict(settings.package_indexes)) for it in documents]
    except ProjectError as error:
        return error
    submission = digest([pack.digest, str(out), documents])
    return pair, InspectOptions(out, jobs, submission=submission, reference_jobs=1)


def _digests(cell: PackCell) -> list[str]:
    """Of the baseline and the other stack."""
    return [str(it.stack_digest) for it in (cell.group.baseline, cell.stack) if it is not None]


def _script(pack: Pack, group: StackGroup) -> tuple[str, dict[str, Any]]:
    """The indicator of a series, with parameters that it takes.

    All operations of a library run in one job, as in the pack.
    """
    sha256 = group.script_sha256
    name = next((it for it in catalogue.INDICATORS if script_sha256(it) == sha256), None)
    if name is None:
        made_by = pack.manifest.checker_version
        raise ProjectError(f"the pack has another {group.indicator}: use version {made_by}")
    known = {it.name for it in catalogue.indicator_of(name).all_parameters()} - {"operation"}
    return name, {it: group.parameters[it] for it in sorted(known & group.parameters.keys())}


def _result(
    connection: Connection, cell: PackCell, outcomes: Sequence[InspectionOutcome]
) -> _Result:
    """The result of the runs of both stacks for a cell."""
    problems = [
        f"{it.label}: {it.failure or it.fault or 'every job failed'}"
        for it in outcomes
        if it.failure is not None or not it.measured
    ]
    if problems or not outcomes:
        return _Result(cell, None, "; ".join(problems) or "it did not run")
    documents = {it for run in outcomes for it in inspections_named(connection, run.inspection_id)}
    own = [
        it
        for it in measured_observations(connection, keys=[cell.group.comparison_key])
        if it.reading.document_id in documents
    ]
    (baseline, *_) = _digests(cell)
    for group in compare_stacks(own, baseline, required=False):
        for stack in group.stacks:
            result = stack.comparison
            known = result is not None and math.isfinite(result.standard_error)
            if known and stack.stack_digest == cell.stack.stack_digest:
                return _Result(cell, result)
    disturbed = counted(sum(it.reading.unstable_reason is not None for it in own), "disturbed job")
    return _Result(cell, None, f"too few jobs of the same series, without {disturbed}")


def _line(result: _Result) -> str:
    group, baseline = result.cell.group, result.cell.group.baseline
    what = f"{group.indicator} {group.parameters.get('operation', '')}".rstrip()
    stacks = f"{baseline.label if baseline else ''} → {result.cell.stack.label}"
    own = result.problem if result.own is None else f"{_text(result.own)} here"
    agreement = {True: ", agrees", False: ", disagrees", None: ""}[result.agrees]
    return f"{what}, {stacks}: {_text(result.cell.comparison)} in the pack, {own}{agreement}"


def _text(comparison: Comparison) -> str:
    low, high = comparison.interval_low_pct, comparison.interval_high_pct
    return f"{comparison.difference_pct:+.1f} % ({low:+.1f} to {high:+.1f})"
