"""``thoth pack again``: measures comparisons of a pack here, and compares the effects."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from adviser.answering.target_hardware import own_hardware
from adviser.packs.manifest import PackManifest
from adviser.packs.pack_contents import check_contents
from adviser.packs.pack_evidence import packed_evidence
from adviser.packs.pack_files import INDICATORS, Pack, opened
from adviser.packs.repetition import PackCell, agrees, chosen_cells, specification_again
from adviser.packs.stored_packs import observations_of
from adviser.packs.trust import read_policy
from adviser.scoring.comparisons import Comparison
from adviser.stack_comparison import StackGroup, StackResult, compare_stacks
from cli.console import print_json, print_lines
from cli.inspect import ingest_folders, inspection_observer
from cli.machine import busy_hint, machine_of_this_command, print_wait
from common.settings import Settings
from graph.record.job_samples import inspections_named
from graph.record.measurements import measured_observations
from ingest.record import open_record
from model.errors import InvalidArgument, ProjectError
from model.json_documents import finite_or_none
from model.measurements.evidence import EvidencePack, MeasuredObservation
from model.packages.identity import PackageVersion
from model.text import counted
from pis import catalogue
from pis.amun.free_machine import wait_until_quiet
from pis.amun.inspect import InspectOptions, inspect
from pis.amun.launchers.local import LocalLauncher
from pis.amun.processes import interrupted_by_signals
from pis.amun.specification import load_specification
from pis.bundle import script_sha256


def measure_again(  # noqa: PLR0913 - one for each option
    settings: Settings,
    path: Path,
    cells: int,
    jobs: int,
    max_minutes: float | None,
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
            hint="if you would install what `thoth pack show` lists, add --trust-packages",
        )
    check_contents(pack)
    here, observed = own_hardware(), _observations(pack)
    chosen = chosen_cells(compare_stacks(observed), here.digest, cells, pack.digest)
    if not chosen:
        raise InvalidArgument(
            f"{path}: the pack compares no stacks on this machine's class, {here.label}"
        )
    packages = {it.reading.stack: it.packages for it in observed}
    contents = pack.contents()
    scripts = {
        it: file.read().decode(errors="replace")
        for it, file in contents
        if it.startswith(INDICATORS)
    }
    repetition = _Repetition(settings, pack.manifest, packages, scripts, jobs)
    limit = math.inf if max_minutes is None else time.monotonic() + 60 * max_minutes
    with ExitStack() as stack:
        stack.enter_context(interrupted_by_signals())
        stack.enter_context(machine_of_this_command(wait, share_machine))
        stack.enter_context(busy_hint())
        launcher = stack.enter_context(closing(LocalLauncher(settings)))
        observer = stack.enter_context(inspection_observer(quiet=as_json))
        if not share_machine:
            observer.before_jobs = partial(
                wait_until_quiet, wait, settings.loop_busy_share, partial(print_wait, wait_s=wait)
            )
        results = [
            repetition.result(cell, launcher, observer, in_time=time.monotonic() < limit)
            for cell in chosen
        ]
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
            click.echo("`thoth pack sign --assurance reproduced` may say so.", err=True)
    return agreeing == len(results)


def _observations(pack: Pack) -> list[MeasuredObservation]:
    purls = [it["purl"] for it in pack.rows("stacks", ("purl",))]
    about = EvidencePack(pack.digest, pack.manifest.name)
    evidence = packed_evidence(pack, about, purls, datetime.now(UTC))
    return list(observations_of(pack.manifest, evidence))


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
        group, baseline = self.cell.group, self.cell.group.baseline
        return {
            "comparison_key": group.comparison_key,
            "indicator": group.indicator,
            "parameters": dict(group.parameters),
            "python_version": group.python_version,
            "baseline": _stack(baseline) if baseline else None,
            "stack": _stack(self.cell.stack),
            "packed": _effect(self.cell.comparison),
            "own": None if self.own is None else _effect(self.own),
            "agrees": self.agrees,
            "problem": self.problem,
        }


def _stack(stack: StackResult) -> dict[str, Any]:
    return {"stack_digest": stack.stack_digest, "label": stack.label}


def _effect(comparison: Comparison) -> dict[str, Any]:
    names = ("difference_pct", "interval_low_pct", "interval_high_pct")
    numbers = {it: finite_or_none(getattr(comparison, it)) for it in names}
    return {**numbers, "jobs": comparison.jobs, "verdict": comparison.verdict.value}


@dataclass(frozen=True, slots=True)
class _Repetition:
    """Measures cells of a pack with the executor.

    :param packages: of each stack, by digest
    :param scripts: texts of the scripts of the pack, by path
    :param jobs: of each stack
    """

    settings: Settings
    manifest: PackManifest
    packages: Mapping[str, Sequence[PackageVersion]]
    scripts: Mapping[str, str]
    jobs: int

    def result(
        self, cell: PackCell, launcher: LocalLauncher, observer: Any, *, in_time: bool
    ) -> _Result:
        """Measure a cell, unless the time is over; what prevents it is part of the result."""
        if not in_time:
            return _Result(cell, None, "the time was over")
        try:
            return _Result(cell, self._measured(cell, launcher, observer))
        except ProjectError as error:
            return _Result(cell, None, str(error))

    def _measured(self, cell: PackCell, launcher: LocalLauncher, observer: Any) -> Comparison:
        """:raises ProjectError: if one of the two stacks cannot be measured"""
        group = cell.group
        script, parameters = self._script(group)
        digests = [str(it.stack_digest) for it in (group.baseline, cell.stack) if it is not None]
        indexes = dict(self.settings.package_indexes)
        specifications = [
            load_specification(
                specification_again(
                    self.manifest, self.packages[stack], script, parameters, group.python_version
                ),
                indexes,
            )
            for stack in digests
        ]  # fmt: skip
        options = InspectOptions(
            self.settings.home / "again", self.jobs, submission=uuid4().hex, reference_jobs=1
        )
        outcomes = inspect(specifications, launcher, options, observer)
        for outcome in outcomes:
            if outcome.failure is not None or not outcome.measured:
                reason = outcome.failure or outcome.fault or "every job failed"
                raise ProjectError(f"{outcome.label}: {reason}")
        ingest_folders(self.settings, [it.folder for it in outcomes], as_json=True)
        with open_record(self.settings) as engine, engine.connect() as connection:
            names = [it.inspection_id for it in outcomes]
            documents = {it for name in names for it in inspections_named(connection, name)}
            own = [
                it
                for it in measured_observations(connection, keys=[group.comparison_key])
                if it.reading.document_id in documents
            ]
        for compared in compare_stacks(own, digests[0], required=False):
            for stack in compared.stacks:
                result = stack.comparison
                known = result is not None and math.isfinite(result.standard_error)
                if result is not None and known and stack.stack_digest == digests[1]:
                    return result
        raise ProjectError("too few jobs of the same series can be used")

    def _script(self, group: StackGroup) -> tuple[str, dict[str, Any]]:
        """Name or text of the script of a series, with parameters that it takes.

        :raises ProjectError: if the pack does not have the script
        """
        sha256 = group.script_sha256
        name = next((it for it in catalogue.INDICATORS if script_sha256(it) == sha256), None)
        if name is not None:
            known = [it.name for it in catalogue.indicator_of(name).all_parameters()]
            return name, {it: group.parameters[it] for it in known if it in group.parameters}
        path = f"{INDICATORS}/{sha256}.py"
        if path not in self.scripts:
            raise ProjectError("neither this version nor the pack has the script")
        return self.scripts[path], {}


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
