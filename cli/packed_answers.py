"""Answers without a store: from a pack of measurements, and from an archive of advisories."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from adviser.advise import Resolver
from adviser.answering.archive_knowledge import ArchiveKnowledge
from adviser.answering.lock_comparison import LockKnowledge, compare_lock_versions, guard_document
from adviser.answering.target_hardware import requested_hardware
from adviser.guard import MissingKind
from adviser.guard_findings import comparison_lines
from adviser.packs.trust import evidence_pack, read_policy, trust_of
from adviser.stack_request import StackRequest
from cli.console import print_canonical_json, print_lines, print_note
from cli.knowledge import reading_progress
from common.settings import Settings
from graph.record.evidence import day_of, purls_in
from model.errors import InvalidArgument
from model.measurements.evidence import Evidence, EvidencePack
from model.packages.candidates import Dependency
from model.packages.environments import Environment, environment
from model.packages.identity import Purl

if TYPE_CHECKING:
    from adviser.packs.pack_files import Pack


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
    known, _ = knowledge_in_pack(settings, path, {*old, *new}, where)
    return known.of_locks(old, new, where, {it.digest for it in known.hardware})


def knowledge_in_pack(
    settings: Settings, path: Path, names: Collection[str], where: Environment
) -> tuple[LockKnowledge, dict[tuple[str, str], str | None]]:
    """What a pack knows of packages in all their versions; whose it is, is printed.

    :returns: also the declared licences, by name and version
    :raises InvalidPack: if it is damaged or was changed
    """
    # These load pyarrow.
    from adviser.packs.pack_evidence import packed_evidence, packed_hardware, packed_snapshot

    pack, about, now = _opened(settings, path)
    snapshot = packed_snapshot(pack, sorted(names), where)
    evidence = packed_evidence(pack, about, purls_in(snapshot, with_excluded=True), now)
    known = LockKnowledge(snapshot, evidence, {}, packed_hardware(pack), speed_only=True)
    rows = pack.rows("releases", ("name", "version", "license"), name=names)
    return known, {(it["name"], it["version"]): it["license"] for it in rows}


def _opened(settings: Settings, path: Path) -> tuple[Pack, EvidencePack, datetime]:
    from adviser.packs.pack_files import opened

    pack, policy, now = opened(path), read_policy(settings), datetime.now(UTC)
    about = evidence_pack(pack.manifest, pack.key, policy, now.date())
    print_note(f"pack {about.name} ({path}): {trust_of(about, policy).reason}")
    return pack, about, now


def archive_knowledge(
    settings: Settings,
    request: StackRequest,
    resolver: Resolver,
    more: Iterable[Dependency],
    options: Mapping[str, Any],
) -> ArchiveKnowledge:
    """What an archive of advisories and a pack know, without stores.

    :param options: ``advisories``, by default the archive in ADVISORIES; ``pack``; ``hardware``
    :raises InvalidPack: if the pack is damaged or was changed
    :raises InvalidArgument: if no archive is named
    """
    # It loads the calculator of severities.
    from ingest.advisories.archive import AdvisoryArchive

    source = options["advisories"] or settings.advisories
    if source is None:
        raise InvalidArgument(
            "--pack: no advisories are known without stores",
            hint="name an archive in the OSV format with --advisories, or in ADVISORIES",
        )
    measured: Callable[[tuple[Purl, ...]], Evidence] = cache(
        lambda _: Evidence(day_of(datetime.now(UTC)))
    )
    if options["pack"] is not None:
        from adviser.packs.pack_evidence import packed_evidence, packed_hardware

        pack, about, now = _opened(settings, options["pack"])
        measured = cache(lambda purls: packed_evidence(pack, about, purls, now))
        target = requested_hardware(packed_hardware(pack), options["hardware"])
        print_note(target.note)
        request = replace(request, hardware=target.digest, hardware_name=target.name)
    return ArchiveKnowledge(
        settings, request, resolver, AdvisoryArchive(source),
        lambda snapshot: measured(tuple(purls_in(snapshot, with_excluded=True))),
        reading_progress, tuple(more),
    )  # fmt: skip


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
