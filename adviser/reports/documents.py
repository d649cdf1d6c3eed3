"""The report: one JSON document with the advised stacks, the reasons and the certainty.

The report has the keys that existing clients read, and further keys that they ignore. ``result``
depends only on the request, the snapshot and the evidence, so a replay gives the same bytes.
Everything that differs from run to run, such as times, is in ``metadata``.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from adviser.advise import Advice
from adviser.locks.formats import LockFile, LockFormat, UnwritableLock, render_lock
from adviser.reports.manifests import Files, chosen_of, graph_of, lock_options, manifest_of
from adviser.reports.note_codes import NoteCode
from adviser.reports.notes import (
    ReportNote,
    context_notes,
    gap_notes,
    other_wheels_notes,
    product_notes,
    rationales_of,
    shortfall_notes,
    stack_notes,
    unfetched_note,
    vulnerabilities_of,
)
from adviser.reports.serialization import identified_claim, plain
from adviser.reports.summary import summary_of
from adviser.reports.unfetched_versions import UnfetchedVersions
from adviser.reports.version_rationale import candidates_of
from adviser.resolver.listed_versions import may_invite_better
from adviser.resolver.results import Conflict, FactKind, ResolutionStatus, ResolvedStack
from adviser.resolver.specifiers import admits
from adviser.scoring.assessment_types import Claim, NoteLevel, Premises
from adviser.scoring.criteria import SCALE, CriterionName, level_names
from adviser.scoring.next_jobs import next_claims
from adviser.scoring.verdicts import family_document
from model.json_documents import canonical_json, digest
from model.measurements.benchmark_results import ResultContext
from model.packages.candidates import Candidate, ExclusionReason
from model.packages.identity import Purl, version_of
from model.packages.releases import wheel_tags
from model.packages.wheels import installed_wheel, pythons_of
from model.text import counted, first_few

#: Kinds that existing clients expect and that have no counterpart here; always empty.
_UNUSED_KINDS = ("boots", "pseudonyms", "wraps")


def pipeline_of(advice: Advice) -> dict[str, list[dict[str, Any]]]:
    """Rules, criteria and limits of a search, in the terms of existing clients.

    *Sieves* are rules that excluded versions, *steps* criteria that weighed the others, *strides*
    the limits of the search. Clients expect all six kinds; those in :data:`_UNUSED_KINDS` are
    always empty.
    """
    refused = Counter(it.reason for them in advice.universe.refused.values() for it in them)
    criteria, options = advice.assessment.criteria, advice.request.options
    kinds: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _UNUSED_KINDS}
    kinds["sieves"] = [
        _unit(reason.value, {"versions": count}) for reason, count in sorted(refused.items())
    ]
    weighing = ("weight", "unit", "penalty", "newness")
    kinds["steps"] = [_unit(it.name, _values(it, *weighing)) for it in criteria]
    kinds["strides"] = [_unit("search", _values(options, "count", "time_s", "memory_bytes"))]
    return dict(sorted(kinds.items()))


def _unit(name: str, configuration: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "configuration": configuration, "unit_run": True}


def _values(source: object, *names: str) -> dict[str, Any]:
    """Attributes as JSON values, by name."""
    return {name: plain(getattr(source, name)) for name in names}


#: Changes when a key changes its meaning or disappears, not when a key is added.
SCHEMA_VERSION = "report-2"

#: Lock formats of every product; ``pylock`` is written only if URLs are known.
_FORMATS = (LockFormat.REQUIREMENTS, LockFormat.PYLOCK, LockFormat.CONSTRAINTS)


@dataclass(frozen=True, slots=True)
class ProductLocks:
    """The locks of one product.

    :param locks: by format; only formats that could be written
    :param problem: why there is no Pipfile.lock, which every report includes
    """

    locks: Mapping[LockFormat, LockFile]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ReleaseKnowledge:
    """Knowledge that is read from the record after resolving.

    :param files: files of the releases of every stack
    :param urls: URLs of files by name, if an index was queried for them
    :param unread: versions of a conflict's packages that indexes list but that were not read
    :param benchmarks: results of other systems about the required packages and the machine
    :param other_wheels: packages whose requirements were not read from the wheel that would be
        installed
    """

    files: Files = field(default_factory=dict)
    urls: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[UnfetchedVersions, ...] = ()
    benchmarks: tuple[ResultContext, ...] = ()
    other_wheels: tuple[str, ...] = ()


def result_document(advice: Advice, known: ReleaseKnowledge) -> dict[str, Any]:
    """The part of a report that depends only on its inputs."""
    written = [locks_of(advice, stack, known) for stack in advice.resolution.stacks]
    notes = [*stack_notes(advice), *gap_notes(advice), *map(unfetched_note, known.unread)]
    notes += other_wheels_notes(known.other_wheels)
    notes += file_notes(advice, known.files)
    certificate = _certificate(advice, known)
    notes += _invitation_notes(certificate)
    notes += _missing_lock_notes(written)
    notes += context_notes(known.benchmarks)
    failure = written[0].problem if written else failure_of(advice, known)
    report: dict[str, Any] = {
        "summary": summary_of(advice),
        "products": [
            _product(advice, stack, locks)
            for stack, locks in zip(advice.resolution.stacks, written, strict=True)
        ],
        "stack_info": [*advice.request.options.stack_info, *(it.document() for it in notes)],
        "pipeline": pipeline_of(advice) if advice.request.options.debug else None,
        "accepted_final_states_count": len(advice.resolution.stacks),
        "certificate": certificate,
        "search": _search(advice, known),
        "conflict": conflict_document(advice.resolution.conflict),
        "next_jobs": [_next_jobs(it) for it in next_claims(advice.assessment.claims)],
        "family": family_document(advice.assessment.comparisons),
        "baseline": {
            "reason": advice.baseline_reason,
            "versions": None if advice.baseline is None else dict(advice.baseline),
            "settled": advice.premises.settled,
            "locked": advice.request.locked is not None,
        },
        # The baseline, which they include, is a part of its own.
        "premises": {
            key: it
            for key, it in plain(advice.premises).items()
            if key not in ("baseline", "settled")
        },
    }
    if failure is not None:
        report["ERROR"] = failure
    return {
        "error": failure is not None,
        "error_msg": failure,
        "parameters": _parameters(advice),
        "report": report,
    }


def premises_in(report: Mapping[str, Any], locked: Mapping[str, str] | None) -> Premises:
    """The premises that a report names.

    :param report: the part below ``result.report``
    :param locked: the project's lock
    """
    baseline, others = report["baseline"], report.get("premises", {})
    context = others.get("context")
    return Premises(
        baseline["versions"] if locked is None else locked,
        baseline.get("settled", True),
        None if context is None else tuple(map(Purl, context)),
        {Purl(it): reason for it, reason in others.get("slower", {}).items()},
        tuple(others.get("slower_stacks", ())),
        others.get("kept", False),
        others.get("speed_accepted", False),
        # Reports of earlier versions did not look for harm.
        others.get("harm_accepted", True),
    )


def report_document(result: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The whole report; ``metadata`` holds everything that differs from run to run."""
    return {
        "schema_version": SCHEMA_VERSION,
        "metadata": {**metadata, "result_digest": digest(result)},
        "result": result,
    }


def report_bytes(report: Mapping[str, Any]) -> bytes:
    """A report as canonical JSON, as it is stored and printed."""
    return canonical_json(report)


def failure_of(advice: Advice, known: ReleaseKnowledge) -> str | None:
    """Why there is no stack, in one line; ``None`` if there is one."""
    if advice.best is not None:
        return None
    conflict = advice.resolution.conflict
    if conflict is None:
        return f"the search found no stack within its {advice.resolution.limit or 'time'} limit"
    chain = "; ".join(step.message for step in conflict.steps)
    among = " of the versions that were read" if unread_count(advice, known) else ""
    return f"no stack{among} meets the request: {chain}"


def lock_of(
    advice: Advice, stack: ResolvedStack, known: ReleaseKnowledge, form: LockFormat
) -> LockFile:
    """One lock of a stack.

    :raises UnwritableLock: if the format needs something unknown, such as hashes
    """
    chosen = chosen_of(advice, stack, known.files, known.urls)
    return render_lock(form, chosen, advice.request.project, lock_options(advice))


def locks_of(advice: Advice, stack: ResolvedStack, known: ReleaseKnowledge) -> ProductLocks:
    """Every lock that can be written for a stack."""
    locks: dict[LockFormat, LockFile] = {}
    problem = None
    chosen = chosen_of(advice, stack, known.files, known.urls)
    options = lock_options(advice)
    for form in (LockFormat.PIPFILE_LOCK, *_FORMATS):
        try:
            locks[form] = render_lock(form, chosen, advice.request.project, options)
        except UnwritableLock as error:
            if form is LockFormat.PIPFILE_LOCK:
                problem = str(error)
    return ProductLocks(locks, problem)


def _missing_lock_notes(written: Sequence[ProductLocks]) -> Iterator[ReportNote]:
    """Notes about missing locks: errors for the best stack, warnings for other stacks."""
    for number, locks in enumerate(written, 1):
        if locks.problem is not None:
            stack = f"stack {number}: " if len(written) > 1 else ""
            level = NoteLevel.WARNING if number > 1 else NoteLevel.ERROR
            yield ReportNote(NoteCode.NO_LOCK, level, f"{stack}{locks.problem}")


def _product(advice: Advice, stack: ResolvedStack, written: ProductLocks) -> dict[str, Any]:
    request = advice.request
    pipfile_lock = written.locks.get(LockFormat.PIPFILE_LOCK)
    empty: dict[str, Any] = {"_meta": {}, "default": {}, "develop": {}}
    return {
        "score": stack.score / SCALE,
        "justification": [
            *advice.request.options.justification,
            *(it.document() for it in product_notes(advice, stack)),
            *(it.document() for it in shortfall_notes(advice, stack)),
        ],
        "dependency_graph": graph_of(advice, stack),
        "advised_manifest_changes": [],
        "advised_runtime_environment": None,
        "project": {
            "requirements": manifest_of(advice),
            "requirements_locked": json.loads(pipfile_lock.data) if pipfile_lock else empty,
            "constraints": [
                {"name": it.name, "version": it.specifier, "markers": it.marker or ""}
                for it in request.project.constraints
            ],
            "runtime_environment": _runtime_environment(advice),
        },
        "levels": list(stack.levels),
        "uninvited": stack.uninvited,
        "passed_over": stack.passed_over,
        "packages": _packages(advice, stack),
        "criteria": _criteria(advice, stack),
        "coverage": plain(advice.assessment.coverage_of({it.purl for it in stack.choices})),
        "claims": _claims(advice, {it.purl for it in stack.choices}),
        "artifacts": [
            {
                "format": form.value,
                "name": lock.name,
                "sha256": lock.sha256,
                "size_bytes": len(lock.data),
            }
            for form, lock in written.locks.items()
        ],
    }


def _packages(advice: Advice, stack: ResolvedStack) -> list[dict[str, Any]]:
    rationales = rationales_of(advice, stack)
    candidates = candidates_of(advice.universe, stack)
    yours = advice.request.locked or {}
    packages = []
    for choice in stack.choices:
        rationale = rationales.rationale(choice)
        packages.append(
            {
                "name": choice.name,
                "version": choice.version,
                "purl": choice.purl,
                "index": candidates[choice.name].index,
                "extras": list(choice.extras),
                "yours": yours.get(choice.name),
                "place": choice.place,
                "score": choice.score / SCALE,
                "contributions": list(choice.contributions),
                "why": {
                    "code": rationale.place.value,
                    "message": rationale.message,
                    "newer": rationale.newer,
                    "claims": _claims(
                        advice, {rationale.newer_purl} if rationale.newer_purl else ()
                    ),
                    "vulnerabilities": vulnerabilities_of(advice, rationale),
                },
            }
        )
    return packages


def _claims(advice: Advice, purls: Collection[Purl]) -> list[dict[str, Any]]:
    return [identified_claim(it) for it in advice.assessment.claims_of(purls)]


def _criteria(advice: Advice, stack: ResolvedStack) -> list[dict[str, Any]]:
    """The criteria of a product; their contributions add up to its score."""
    criteria = []
    scores = advice.assessment.scores
    for place, criterion in enumerate(advice.assessment.criteria):
        worth = sum(scores[choice.purl][place] for choice in stack.choices)
        total = sum(choice.contributions[place] for choice in stack.choices)
        criteria.append(
            {
                **plain(criterion),
                "value": None
                if criterion.name is CriterionName.SECURITY and not advice.evidence.knows_advisories
                else criterion.value(worth),
                "contribution": total / SCALE,
            }
        )
    return criteria


def _certificate(advice: Advice, known: ReleaseKnowledge) -> dict[str, Any]:
    """The proof of the search, and its inputs. Times are in the metadata."""
    resolution = advice.resolution
    if resolution.conflict is not None and unread_count(advice, known):
        unknown = ResolutionStatus.UNKNOWN
        resolution = replace(resolution, status=unknown, settled=False, complete=False)
    return {
        **_values(resolution, "status", "objective", "bound", "gap", "settled", "complete"),
        **_values(resolution, "limit", "model", "solver"),
        "levels": level_names(advice.universe.direct),
        "scale": SCALE,
        "bounds_dropped": bool(advice.unbounded),
        "unbounded": sorted(advice.unbounded),
        "unread_invitations_ignored": may_invite_better(advice.universe, resolution),
        "snapshot": advice.snapshot.revision,
        "evidence": advice.evidence.revision,
    }


def unbounded_in(certificate: Mapping[str, Any], packages: Iterable[str]) -> frozenset[str]:
    """The packages whose inferred bounds a report ignores; in earlier reports, all or none.

    :param packages: of the snapshot
    """
    every = packages if certificate["bounds_dropped"] else ()
    return frozenset(certificate.get("unbounded", every))


def _invitation_notes(certificate: Mapping[str, Any]) -> Iterator[ReportNote]:
    if certificate["unread_invitations_ignored"]:
        message = (
            "the proof leaves out stacks with a pre-release or a yanked version that only a version"
            " that was not read requires by name"
        )
        yield ReportNote(NoteCode.UNREAD_INVITATIONS, NoteLevel.INFO, message)


def unread_count(advice: Advice, known: ReleaseKnowledge) -> int:
    """Number of packages and versions that were not read, so that a conflict proves nothing."""
    return len(advice.unread) + sum(it.count for it in known.unread)


def _search(advice: Advice, known: ReleaseKnowledge) -> dict[str, Any]:
    sizes = advice.resolution.sizes
    unread = unread_count(advice, known)
    return {
        **({"unavailable": unread} if unread else {}),
        "candidates": advice.snapshot.candidate_count,
        "read": advice.snapshot.candidate_count - advice.snapshot.unread_count,
        "likely": advice.snapshot.likely_count,
        "packages": len(advice.snapshot.packages),
        "excluded": sum(map(len, advice.snapshot.excluded.values())),
        "refused": sum(
            it.candidate is not None for them in advice.universe.refused.values() for it in them
        ),
        "sizes": plain(sizes) if sizes else None,
    }


def conflict_document(conflict: Conflict | None) -> dict[str, Any] | None:
    """A conflict as JSON values, also as lines for people."""
    if conflict is None:
        return None
    return {**plain(conflict), "lines": conflict.lines()}


def _next_jobs(claim: Claim) -> dict[str, Any]:
    """An undetermined comparison, and the number of jobs that could settle it."""
    return {
        **_values(claim, "package", "purl", "baseline_purl", "stack", "baseline_stack"),
        **_values(claim, "indicator", "parameters", "device", "comparison_key", "hardware_digest"),
        "jobs": claim.jobs_missing,
        "baseline_jobs": claim.baseline_jobs_missing,
        "chance": claim.chance,
    }


def _parameters(advice: Advice) -> dict[str, Any]:
    request = advice.request
    return {
        **plain(request.options),
        "recommendation_type": request.kind.value,
        "environment": plain(request.environment),
        "hardware": request.hardware,
        "requirements": [it.text for it in request.requirements],
        "source": request.project.source,
        # Absent in the reports of most projects, which keep their digests.
        **({"benchmarks": dict(own)} if (own := request.project.benchmarks) else {}),
        **({"benchmark_files": dict(files)} if (files := request.benchmark_files) else {}),
        "rules": plain(request.resolver_request({})),
    }


def _runtime_environment(advice: Advice) -> dict[str, Any]:
    where, described = advice.request.environment, advice.request.options.described
    if described is not None:
        return dict(described)
    return {
        "python_version": where.python_version,
        "platform": where.platform,
        "cuda_version": where.cuda,
    }


#: Why a version must be built or cannot be installed, although it has wheels for other Pythons.
_OTHER_PYTHON = frozenset(
    {ExclusionReason.PYTHON_TAG, ExclusionReason.ABI_TAG, ExclusionReason.SDIST_TOO_OLD}
)
#: Packages that only builds of PyTorch for GPUs require.
_CUDA_PARTS = re.compile(r"(?:nvidia|cuda)-.+|triton")
_NAMED = 5


def file_notes(advice: Advice, files: Files) -> Iterator[ReportNote]:
    """All notes about files.

    :param files: of the releases of the advised stacks
    """
    yield from _other_python(advice, files)
    yield from _cuda_build(advice, files)


def _other_python(advice: Advice, files: Files) -> Iterator[ReportNote]:
    """A note about the nearest Python for which most of the packages without a wheel have one."""
    environment, stack = advice.request.environment, advice.best
    chosen = candidates_of(advice.universe, stack) if stack else {}
    pythons = _of_stack(advice, chosen, files) if stack else _of_conflict(advice)
    counts = Counter(minor for minors in pythons.values() for minor in minors)
    counts = Counter({it: n for it, n in counts.items() if _may_run(advice, chosen, f"3.{it}")})
    own = version_of(environment.python_version)
    if not counts or own is None:
        return
    minor = max(counts, key=lambda it: (counts[it], -abs(it - own.minor), it))
    names = sorted(name for name, minors in pythons.items() if minor in minors)
    packages = counted(len(names), "package has", "packages have")
    message = (
        f"{packages} wheels for Python 3.{minor}, but not for {environment.python_version}:"
        f" add `--python 3.{minor}` ({first_few(names, _NAMED)})"
    )
    yield ReportNote(NoteCode.OTHER_PYTHON, NoteLevel.WARNING, message)


def _may_run(advice: Advice, names: Iterable[str], python: str) -> bool:
    """Whether the project supports a Python, and a suitable version of each package does."""
    project = (advice.request.project.requires_python or "").split("||")
    universe = advice.universe
    wanted: dict[str, list[str]] = {}
    for root in universe.roots:
        wanted.setdefault(root.name, []).append(universe.specifier_of(root))
    return any(admits(it, python) for it in project) and all(
        any(
            admits(it.requires_python or "", python)
            and all(admits(text, it.version) for text in wanted.get(name, ()))
            for it in universe.packages[name]
        )
        for name in names
    )


def _of_stack(
    advice: Advice, chosen: Mapping[str, Candidate], files: Files
) -> dict[str, frozenset[int]]:
    """Minor versions of Python 3 that the wheels of versions without a fitting wheel are for."""
    return {
        name: pythons_of(wheel_tags(files.get(it.purl, ())), advice.request.environment)
        for name, it in chosen.items()
        if it.wheel_mismatch in _OTHER_PYTHON
    }


def _of_conflict(advice: Advice) -> dict[str, frozenset[int]]:
    """The same for versions of a conflict's packages that only the environment excludes."""
    conflict, pythons = advice.resolution.conflict, dict[str, frozenset[int]]()
    wanting = FactKind.ASKED, FactKind.REQUIRES
    steps = [it for it in conflict.steps if it.kind in wanting] if conflict else []
    for name in dict.fromkeys(it.required for it in steps if it.required):
        wanted = [it.specifier for it in steps if it.required == name]
        messages = [
            it.message.partition(", this ")[0]
            for it in advice.snapshot.excluded.get(name, ())
            if it.reason in _OTHER_PYTHON and all(admits(text, it.version) for text in wanted)
        ]
        minors = (int(it) for text in messages for it in re.findall(r"\bcp3(\d+)\b", text))
        pythons[name] = frozenset(minors)
    return pythons


def _cuda_build(advice: Advice, files: Files) -> Iterator[ReportNote]:
    """A note about the download that a build of PyTorch for CPUs saves where there is no GPU."""
    environment, stack = advice.request.environment, advice.best
    if stack is None or environment.cuda is not None:
        return
    candidates = candidates_of(advice.universe, stack)
    extras = {it.name: it.extras for it in stack.choices}
    pending = [it.name for it in advice.universe.roots]
    kept: set[str] = set()
    while pending:
        name = pending.pop()
        if name in kept or name not in candidates:
            continue
        kept.add(name)
        required = (it.name for it in candidates[name].requirements(extras[name]))
        pending += (it for it in required if name != "torch" or not _CUDA_PARTS.fullmatch(it))
    sizes = {}
    for name in candidates.keys() - kept:
        wheel = installed_wheel(files.get(candidates[name].purl, ()), environment)
        if wheel is not None and wheel.size_bytes is not None:
            sizes[name] = wheel.size_bytes
    if sizes:
        packages = counted(len(sizes), "package")
        message = (
            f"there is no GPU here, and torch is a build for CUDA: its build for CPUs saves the"
            f" download of {packages} ({sum(sizes.values()) / 1e9:.1f} GB). To take it, make"
            " PyTorch's index of builds for CPUs the owner of torch (INDEX_NAMESPACES), as"
            " docs/guides/advise.md shows; for a machine with a GPU, add `--cuda`"
        )
        link = "docs/guides/advise.md#pytorch-without-a-gpu"
        version = candidates["torch"].version
        yield ReportNote(NoteCode.CUDA_BUILD, NoteLevel.INFO, message, "torch", version, link)
