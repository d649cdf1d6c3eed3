"""Answers from a pack of measurements alone: no store, no network."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence, Sized
from datetime import UTC, datetime
from pathlib import Path

import click

from adviser.answering.lock_comparison import LockKnowledge, compare_lock_versions, guard_document
from adviser.answering.target_hardware import requested_hardware
from adviser.guard import MissingKind
from adviser.guard_findings import comparison_lines
from adviser.packs.trust import evidence_pack, read_policy, trust_of
from cli.console import print_canonical_json, print_lines, print_note
from common.settings import Settings
from graph.record.evidence import purls_in
from model.packages.environments import Environment, environment


def knowledge_of_pack(
    settings: Settings,
    path: Path,
    old: Mapping[str, str],
    new: Mapping[str, str],
    where: Environment,
) -> LockKnowledge:
    """What a pack knows of two locks; whose it is, and what it may decide, is printed.

    :raises InvalidPack: if it is damaged or was changed
    """
    # These load pyarrow.
    from adviser.packs.pack_evidence import packed_evidence, packed_hardware, packed_snapshot
    from adviser.packs.pack_files import opened

    pack, policy, now = opened(path), read_policy(settings), datetime.now(UTC)
    about = evidence_pack(pack.manifest, pack.key, policy, now.date())
    print_note(f"pack {about.name} ({path}): {trust_of(about, policy).reason}")
    snapshot = packed_snapshot(pack, sorted({*old, *new}), where)
    evidence = packed_evidence(pack, about, purls_in(snapshot, with_excluded=True), now)
    known = LockKnowledge(snapshot, evidence, {}, packed_hardware(pack), speed_only=True)
    return known.of_locks(old, new, where, {it.digest for it in known.hardware})


def answer_from_pack(
    settings: Settings,
    path: Path,
    subjects: Sequence[tuple[str, Mapping[str, str]]],
    python_version: str | None,
    hardware: str | None,
    measuring: Sequence[Sized],
    *,
    as_json: bool,
) -> int:
    """Print what a pack knows of the speed of two stacks, and return the exit code.

    :param subjects: how a person named each stack, and the version of each package
    :param hardware: as for :func:`requested_hardware`
    :param measuring: what was given for a measurement; nothing may be
    """
    if any(measuring) or len(subjects) != 2:
        raise click.UsageError("--pack measures nothing: give only two stacks")
    (old, new), where = (it for _, it in subjects), environment(python_version)
    knowledge = knowledge_of_pack(settings, path, old, new, where)
    target = requested_hardware(knowledge.hardware, hardware)
    answer = compare_lock_versions(knowledge, old, new, where, target.digest)
    unmeasured = any(it.kind is MissingKind.MEASUREMENT for it in answer.missing)
    settled = not (answer.undetermined or answer.unmeasured or unmeasured)
    lines = [*comparison_lines(answer), *answer.context]
    if not settled:
        measured = " ".join(shlex.quote(it) for it, _ in subjects)
        lines.append(f"to measure it here: thoth compare {measured} --ingest -- COMMAND")
    print_note(target.note)
    if as_json:
        print_canonical_json({**guard_document(answer), "settled": settled, "sentences": lines})
    else:
        print_lines(lines)
    return 0 if settled else 4
