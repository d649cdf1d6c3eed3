"""Answers from a pack of measurements alone: no store, no network."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from adviser.answering.lock_comparison import LockKnowledge, compare_lock_versions, guard_document
from adviser.answering.target_hardware import requested_hardware
from adviser.guard import MissingKind
from adviser.guard_findings import findings_of
from adviser.packs.trust import evidence_pack, read_policy, trust_of
from adviser.scoring.verdicts import family_text
from cli.console import print_canonical_json, print_lines, print_note
from common.settings import Settings
from graph.record.evidence import purls_in
from model.packages.environments import Environment
from model.text import first_few


def knowledge_of_pack(
    settings: Settings,
    path: Path,
    old: Mapping[str, str],
    new: Mapping[str, str],
    environment: Environment,
) -> LockKnowledge:
    """What a pack knows of two locks; whose it is, and what it may decide, is printed.

    :raises InvalidPack: if it is damaged or was changed
    """
    # These load pyarrow.
    from adviser.packs.pack_evidence import packed_evidence, packed_hardware, packed_snapshot
    from adviser.packs.pack_files import opened

    pack, policy, now = opened(path), read_policy(settings), datetime.now(UTC)
    about = evidence_pack(pack.manifest, pack.key, policy, now.date())
    trust = trust_of(pack.manifest, pack.key, None, policy, now.date())
    print_note(f"pack {about.name} ({path}): {trust.reason}")
    snapshot = packed_snapshot(pack, sorted({*old, *new}), environment)
    evidence = packed_evidence(pack, about, purls_in(snapshot, with_excluded=True), now)
    known = LockKnowledge(snapshot, evidence, {}, packed_hardware(pack), speed_only=True)
    return known.of_locks(old, new, environment, {it.digest for it in known.hardware})


def answer_from_pack(
    settings: Settings,
    path: Path,
    subjects: Sequence[str],
    sides: Sequence[Mapping[str, str]],
    environment: Environment,
    *,
    as_json: bool,
) -> int:
    """Print what a pack knows of the speed of two stacks here, and return the exit code.

    :param subjects: how the person named the stacks
    :param sides: version of each package of the stacks
    """
    old, new = sides
    knowledge = knowledge_of_pack(settings, path, old, new, environment)
    hardware = requested_hardware(knowledge.hardware, None)
    answer = compare_lock_versions(knowledge, old, new, environment, hardware.digest)
    known = [it.line for it in findings_of(answer) if it.known_by is not None] + answer.context
    lacking = [it.package for it in answer.missing if it.kind is MissingKind.MEASUREMENT]
    lines = known if answer.changes else ["both have the same versions"]
    if unknown := sorted([*filter(None, lacking), *answer.unmeasured]):
        names = first_few(unknown, 5)
        lines.append(f"unknown: the pack has no jobs that compare both versions of {names} here")
    settled = not (answer.changes and (answer.undetermined or unknown))
    print_note(hardware.note)
    if not settled:
        measured = " ".join(map(shlex.quote, subjects))
        lines.append(f"to measure it here: thoth compare {measured} --ingest -- COMMAND")
    if as_json:
        print_canonical_json({**guard_document(answer), "settled": settled, "sentences": lines})
        return 0 if settled else 4
    print_lines(lines)
    if answer.comparisons:
        print_note(family_text(answer.comparisons))
    return 0 if settled else 4
