"""``thoth guard``: compare two locks, for people and for CI pipelines."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from adviser.advise import in_this_process
from adviser.answering.knowledge import Knowledge, KnowledgeSources
from adviser.answering.lock_comparison import (
    LockKnowledge,
    compare_lock_versions,
    guard_document,
    not_compared,
    not_compared_lines,
    pinned_request,
    proposals_for,
    read_knowledge_of_locks,
    request_of_locks,
    side_document,
)
from adviser.answering.target_hardware import own_hardware, requested_hardware
from adviser.guard import GuardOutcome, GuardResult, with_reasons
from adviser.guard_findings import (
    bisect_command,
    change_lines,
    comparison_lines,
    findings_of,
    group_lines,
    proposal_text,
    remaining_lines,
)
from adviser.guard_proposals import UpgradeProposals, harmful_packages
from adviser.locks.changed_entries import with_changed_entries
from adviser.locks.formats import LockFormat, UnwritableLock
from adviser.projects.locks import OF_OTHERS, ProjectLock
from adviser.projects.project import WarningCode
from adviser.reports.documents import lock_of
from adviser.resolver.specifiers import admits
from cli.console import print_canonical_json, print_lines, print_note, shown
from cli.knowledge import ServiceClient, TerminalObserver, knowledge_of_pack
from cli.options import ExclusiveSwitch, NamedPath, as_json_option, pack_option, vex_option
from cli.own_benchmarks import of_these_files
from cli.project_files import (
    is_stream,
    keep_manifest,
    keep_project_files,
    lock_format_of,
    project_of_lock,
    read_lock_file,
    read_project,
    read_vex_files,
    write_file,
)
from cli.project_tools import ToolFailed, lock_again, own_name, tool_of, write_with_tool
from cli.request_options import (
    environment_options,
    lock_options,
    lock_selection,
    requested_environment,
)
from common import __version__
from common.formats.conda_environment import is_environment
from common.formats.locks.pipfile_lock import read_pipfile_lock
from common.formats.locks.pylock import read_pylock
from common.formats.locks.readers import reader_of
from common.settings import Settings
from graph.migrate import migrated_stores
from model.errors import InvalidArgument
from model.json_documents import canonical_json, digest
from model.packages.candidates import Dependency
from model.packages.environments import Environment
from model.packages.identity import changes_between
from model.text import counted, first_few

#: Exit codes by outcome.
_CODES = {"no_harm": 0, "harm": 1, "unknown": 4}
#: The last line, by outcome.
_RESULTS = {
    "no_harm": "result: no harm",
    "harm": "result: harm",
    "unknown": "result: unknown; no harm was found, and data is missing",
}
#: Code hosts refuse comments of more than 65,536 characters.
LONGEST_COMMENT = 60_000
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: Rules of the SARIF log, with their descriptions; code hosts know alerts by these names.
_RULES = {
    "slower": "A changed package, or the whole lock, is slower on this hardware.",
    "vulnerable": "A new version has a vulnerability that the old lock does not have.",
    "yanked": "The publisher withdrew a new version.",
}


@click.command()
@click.argument("old", type=NamedPath(path_type=Path))
@click.argument("new", type=NamedPath(path_type=Path))
@environment_options
@lock_options
@click.option("--fetch/--offline", "fetch", cls=ExclusiveSwitch, default=None,
              help="Read changed versions from the indexes, or use only what is stored.  [default:"
                   " read if the store lacks one]")  # fmt: skip
@click.option("--service", metavar="URL",
              help="Ask this service instead of the stores of this machine, with the token in"
                   " THOTH_TOKEN if it is set.")  # fmt: skip
@pack_option
@click.option("--allow-vulnerability", "allowed", multiple=True, metavar="ID",
              help="Accept this vulnerability, under any of its aliases; an ID that no version"
                   " has is ignored.")  # fmt: skip
@vex_option
@click.option("--allow-unknown", is_flag=True, help="Exit with 0 instead of 4 if data is missing.")
@click.option("--comment", type=NamedPath(path_type=Path),
              help="Write the settled differences to this file, as Markdown for a comment; the file"
                   " is empty if there are none.")  # fmt: skip
@click.option("--sarif", type=NamedPath(path_type=Path),
              help="Write the harm to this file, as SARIF for code scanning.")  # fmt: skip
@click.option("--propose", is_flag=True,
              help="Write the upgrade without its harmful versions as a lock in the format of -o or"
                   " of NEW; uv and Poetry write their own locks.")  # fmt: skip
@click.option("-o", "--output", type=NamedPath(path_type=Path),
              help="The file for --propose.  [default: NEW itself]")  # fmt: skip
@click.option(
    "--verbose",
    is_flag=True,
    help="Show every comparison separately, even of one package in many series.",
)
@as_json_option
@click.pass_context
def guard(
    context: click.Context,
    /,
    old: Path,
    new: Path,
    fetch: bool | None,
    service: str | None,
    allow_unknown: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare two locks by speed, vulnerabilities and yanked versions.

    Exit code 1 if the lock NEW does harm: a package or the whole stack is slower on this
    hardware, or a new version is yanked or has a vulnerability that OLD does not have.

    Exit code 4 means that no harm was found, but data is missing. The missing data can be the
    metadata of a new version, all advisories, a verdict on speed, or measurements of a changed
    library (such as numpy, torch or tensorflow) on this hardware. The exit code is also 4 if a new
    version cannot be installed here. Other packages without measurements are listed, but do not
    change the exit code.

    For each harm, the nearest version without it is proposed, if the whole lock with it is a valid
    stack. Exit code 0 means that no harm was found and that no data is missing. With --pack, the
    answer and the exit code are about speed only.
    """
    settings: Settings = context.obj
    propose: bool = options["propose"]
    _check(context, old, new, service, {**options, "fetch": fetch})
    where = requested_environment(None, options)
    selection = lock_selection(options)
    locks = [read_lock_file(path, selection, where.markers) for path in (old, new)]
    vex = read_vex_files(new, options["vex"])
    if locks[0].entries and not locks[1].entries and not locks[1].elsewhere:
        raise InvalidArgument(f"{new} names no package, but {old} does: is {new} complete?")
    for note in dict.fromkeys(lock_notes(*locks)):
        print_note(note)
    before, after = (
        {name: it.version for name, it in lock.packages(where.markers).items()} for lock in locks
    )
    pack: Path | None = options["pack"]
    unmet: Mapping[str, str] | None = None
    if service is not None:
        named = options["hardware"] or own_hardware().digest
        knowledge = ServiceClient(service).knowledge_of_locks(before, after, where, named)
    elif pack is not None:
        knowledge = knowledge_of_pack(settings, pack, before, after, where)
    else:
        knowledge, unmet = _stored_knowledge(
            settings, locks, before, after, where, options["hardware"], fetch
        )
    evidence = of_these_files(knowledge.evidence, (Path.cwd(), new.absolute().parent))
    knowledge = replace(knowledge, evidence=evidence)
    hardware = requested_hardware(knowledge.hardware, options["hardware"])
    sides = before, after, where, hardware.digest, options["allowed"]
    upgrade = with_reasons(compare_lock_versions(knowledge, *sides, vex), unmet or {})
    proposals = proposals_for(knowledge, *sides, requirements=_requirements(new, after, where))
    upgrade = proposals.with_proposals(upgrade)
    print_note(hardware.note)
    others = not_compared(locks, where.markers)
    if as_json:
        old_side, new_side = map(side_document, locks, (before, after))
        print_canonical_json({
            **guard_document(upgrade), "not_compared": others, "old": old_side, "new": new_side,
        })  # fmt: skip
    else:
        fetched = unmet is not None
        print_lines(guard_lines(upgrade, others, fetched=fetched, verbose=options["verbose"]))
    if (versions := _proposed(upgrade, proposals) if propose else None) is not None:
        sources = {**options, "fetch": fetch, "stored": service is None and pack is None}
        write_versions(settings, versions, new, locks[1], after, where, sources)
    if options["comment"]:
        write_file(options["comment"], comment_text(upgrade, new.as_posix(), others).encode())
    if options["sarif"]:
        write_file(options["sarif"], canonical_json(sarif_document(upgrade, new)))
    code = _CODES[upgrade.outcome.value]
    context.exit(0 if allow_unknown and code == _CODES["unknown"] else code)


def lock_notes(old: ProjectLock, new: ProjectLock) -> Iterator[str]:
    """Notes on parts of two locks that are not compared; a note on both may come twice."""
    warnings = [it for lock in (old, new) for it in lock.warnings_that("it is not compared")]
    # Two revisions of a file may list different conda packages; those of the new one are named.
    conda = {it.field: it.text for it in warnings if it.code is WarningCode.CONDA}
    yield from (conda.get(it.field, it.text) for it in warnings)
    before, after = ({it.name: it.target for it in lock.others} for lock in (old, new))
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            sides = f"{before.get(name, 'none')} → {after.get(name, 'none')}"
            yield f"{name} differs, but comes from no index, so it is not compared: {sides}"


def _check(
    context: click.Context, old: Path, new: Path, service: str | None, options: Mapping[str, Any]
) -> None:
    """:raises InvalidArgument: if a file would be lost
    :raises UsageError: if options do not fit together
    """
    output, pack, fetch = (options[it] for it in ("output", "pack", "fetch"))
    if output is not None and not options["propose"]:
        raise click.UsageError("--output requires --propose", context)
    if options["propose"] and not new.is_file():
        raise click.UsageError("--propose needs NEW as a file on disk", context)
    inputs = old, new, pack or "", *options["vex"]
    keep_project_files((options["comment"], options["sarif"]), inputs)
    if output is not None:
        keep_manifest(output, like=new.name)
    if service is not None and fetch:
        raise click.UsageError("--service and --fetch: a service reads releases itself", context)
    if pack is not None and (fetch or service is not None):
        raise click.UsageError("--pack cannot be used with --fetch or --service", context)


def _requirements(
    lock: Path, versions: Mapping[str, str], where: Environment
) -> tuple[Dependency, ...]:
    """The requirements of the project that its lock meets; none without the manifest."""
    if (project := project_of_lock(lock)) is None:
        return ()
    return tuple(
        requirement.dependency
        for requirement in (*project.requirements, *project.constraints)
        if requirement.holds(where.markers)
        and (version := versions.get(requirement.name)) is not None
        and admits(requirement.specifier, version)
    )


def _proposed(upgrade: GuardResult, proposals: UpgradeProposals) -> Mapping[str, str] | None:
    """The versions of the new lock without harmful ones; ``None`` without harm.

    :raises UnwritableLock: if no harmless versions are known
    """
    if upgrade.outcome is not GuardOutcome.HARM:
        print_note("no harm is known, so nothing is proposed")
        return None
    if not (harmful := harmful_packages(upgrade)):
        raise UnwritableLock(
            "the whole lock is slower, but which package causes this is unknown",
            f"find the package with `{bisect_command(upgrade)}`",
        )
    lock = proposals.lock_without(harmful, upgrade)
    if not lock.versions:
        raise UnwritableLock(f"no lock without harm is known: {lock.problem}")
    return lock.versions


def write_versions(
    settings: Settings,
    versions: Mapping[str, str],
    new: Path,
    lock: ProjectLock,
    after: Mapping[str, str],
    where: Environment,
    options: Mapping[str, Any],
) -> None:
    """Write versions as a lock, in the format of ``new`` unless the output's name has another.

    :raises UnwritableLock: if the versions are no valid stack, or the format needs something
        unknown
    """
    output: Path = options["output"] or new
    name = new.name if is_stream(output) else output.name
    if reader_of(name) is reader_of(new.name) and (tool := tool_of(new)) is not None:
        changes = changes_between(after, versions)
        made = lock_again(tool, new, changes, lock_selection(options), where)
        if not write_with_tool(output, tool, made, versions):
            raise ToolFailed("the lock differs from the proposal")
        return
    if not is_written(name):
        why = ", and no pyproject.toml is beside it" if own_name(new) is not None else ""
        raise UnwritableLock(
            f"{name}: Thoth does not write this format, and runs no tool for {new.name}{why}",
            "give -o requirements.txt",
        )
    if not options["stored"]:
        raise UnwritableLock(
            "files and hashes of the proposed lock are not known without stores",
            "run it without --service, --pack and --advisories",
        )
    # PEP 751 prescribes the names of its locks; any other file is of Pipenv or requirements.
    form = LockFormat(
        lock_format_of(name) or ("requirements" if reader_of(name) is None else "pipfile-lock")
    )
    # The lock has the hash of the Pipfile beside it.
    beside = new.with_name("Pipfile")
    of_pipenv = form is LockFormat.PIPFILE_LOCK
    manifest = read_project(beside if beside.is_file() else new) if of_pipenv else None
    request = pinned_request(settings, lock, manifest, versions, where)
    with migrated_stores(settings) as stores:
        known = Knowledge.for_request(
            KnowledgeSources(stores), request, options["fetch"], TerminalObserver(stores),
            in_this_process,
        )  # fmt: skip
        answer = known.answer(urls=form is LockFormat.PYLOCK)
    best, unread = answer.advice.best, answer.advice.unread
    if best is None and unread:
        raise UnwritableLock(
            f"whether the proposed versions are a valid stack is unknown: {first_few(unread, 3)}",
            "run it again with --fetch when the index answers",
        )
    if best is None or changes_between(versions, best.versions()):
        raise UnwritableLock(
            "the proposed versions are no valid stack with what the project requires",
            "`thoth advise` finds the best stack of the project",
        )
    data = lock_of(answer.advice, best, answer.known, form).data
    same = reader_of(name) is reader_of(new.name)
    keeps = same and form in {LockFormat.PIPFILE_LOCK, LockFormat.PYLOCK}
    if keeps:
        changes = changes_between(after, versions)
        data = with_changed_entries(form, new.read_bytes(), data, changes)
    if others := sorted({it for it, _ in lock.left_out(where.markers)}):
        fate, many = "kept" if keeps else "left out", counted(len(others), "package")
        print_note(f"{fate}: {many}, {OF_OTHERS}: {first_few(others, 5)}")
    write_file(output, data)
    click.echo(f"wrote {output} ({form.value})", err=True)


def is_written(name: str) -> bool:
    """Whether the format that a file name indicates is written here, without its tool."""
    reader = reader_of(name)
    if reader is None:
        return not is_environment(name)
    return reader.read in (read_pipfile_lock, read_pylock)


def _stored_knowledge(
    settings: Settings,
    locks: Sequence[ProjectLock],
    before: Mapping[str, str],
    after: Mapping[str, str],
    where: Environment,
    hardware: str | None,
    fetch: bool | None,
) -> tuple[LockKnowledge, Mapping[str, str] | None]:
    """The knowledge of the stores about two locks.

    :param hardware: as for :func:`adviser.answering.target_hardware.requested_hardware`
    :returns: also why the indexes cannot provide a version, by package; ``None`` if these were not
        read
    """
    with migrated_stores(settings) as stores:
        request, observer = request_of_locks(settings, locks, where), TerminalObserver(stores)
        return read_knowledge_of_locks(stores, request, before, after, fetch, observer, hardware)


def guard_lines(
    upgrade: GuardResult,
    others: Sequence[str] = (),
    *,
    fetched: bool = False,
    verbose: bool = False,
) -> Iterator[str]:
    """The result as lines; the other parameters are those of :func:`comparison_lines`.

    :param others: packages that differ, but are not compared
    """
    if others and not upgrade.changes:
        yield "the locks install the same versions"
    else:
        yield from comparison_lines(upgrade, fetched=fetched, verbose=verbose)
    yield from not_compared_lines(others)
    if upgrade.changes:
        yield _result_text(upgrade)


def _result_text(upgrade: GuardResult) -> str:
    unseen = "; vulnerabilities and newly yanked versions were not looked at" * upgrade.speed_only
    return f"{_RESULTS[upgrade.outcome.value]}{unseen}"


def comment_text(upgrade: GuardResult, lock: str, others: Sequence[str] = ()) -> str:
    """The settled differences as Markdown, with everything else folded; empty if there are none.

    Equivalence is no difference. All text of documents stands in code blocks, so that it makes
    neither links nor mentions.

    :param others: packages that differ, but are not compared
    """
    findings = findings_of(upgrade)
    first = [it for it in findings if it.settled_difference]
    if not first:
        return ""
    settled = list(group_lines(upgrade, first))
    folded = [
        *change_lines(upgrade),
        *group_lines(replace(upgrade, proposals=()), [it for it in findings if it not in first]),
        *remaining_lines(upgrade, fetched=True),
        *not_compared_lines(others),
    ]
    differences = sum(it.settled_difference for it in findings_of(upgrade, every=True))
    title = f"thoth guard: {counted(differences, 'settled difference')}"
    name = re.sub(r"[^ -_a-~]", "?", lock)
    summary = f"{counted(len(upgrade.changes), 'changed package')}, and what is missing"
    return "\n".join([
        f"**{title}** in `{name}`, {_result_text(upgrade)}",
        "",
        *code_block(settled, LONGEST_COMMENT // 2),
        "",
        f"<details><summary>{summary}</summary>",
        "",
        *code_block(folded, LONGEST_COMMENT // 2),
        "",
        "</details>",
        "",
    ])  # fmt: skip


def code_block(lines: Sequence[str], longest: int) -> list[str]:
    """Lines as a fenced block of at most about ``longest`` characters."""
    kept: list[str] = []
    for line in map(shown, lines):
        longest -= len(line) + 1
        if longest < 0:
            kept.append(f"… and {len(lines) - len(kept)} more")
            break
        kept.append(line)
    fence = "`" * max(3, 1 + max(len(it) for it in re.findall("`*", "\n".join(kept))))
    return [f"{fence}text", *kept, fence]


def sarif_document(upgrade: GuardResult, lock: Path) -> dict[str, Any]:
    """The harm as a SARIF log; vulnerabilities that documents close are suppressed."""
    return sarif_log(lock, "thoth-guard", _RULES, _harm(upgrade))


def sarif_log(
    lock: Path,
    tool: str,
    rules: Mapping[str, str],
    findings: Iterable[tuple[str, str | None, str, str, str | None]],
) -> dict[str, Any]:
    """A SARIF log, each result at the line of its package in the lock.

    Fingerprints contain neither lines nor measured numbers, so that a result keeps its identity
    while the lock grows and measurements are added.

    :param tool: part of the identifier that distinguishes logs of several commands
    :param rules: descriptions by name
    :param findings: rule, package, further identity of the result, message, and why it is
        suppressed, if it is
    """
    resolved, here = lock.resolve(), Path.cwd()
    inside = resolved.is_relative_to(here)
    uri = quote(resolved.relative_to(here).as_posix()) if inside else resolved.as_uri()
    # A lock of a revision may not be on disk.
    lines = resolved.read_text("utf-8", "replace").splitlines() if resolved.is_file() else []
    results = [
        {
            "ruleId": rule,
            "level": "error",
            "message": {"text": shown(message)},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": uri},
                        "region": {"startLine": _line_of(package, lines)},
                    }
                }
            ],
            "partialFingerprints": {"thothGuard/v1": digest([rule, package, identity])},
        }
        | ({"suppressions": [{"kind": "external", "justification": shown(why)}]} if why else {})
        for rule, package, identity, message, why in findings
    ]
    listed = [{"id": it, "shortDescription": {"text": text}} for it, text in rules.items()]
    driver = {"name": "thoth", "version": __version__, "rules": listed}
    # The identifier tells apart the logs of several locks.
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"{tool}/{uri}/"},
        "results": results,
    }
    return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _harm(upgrade: GuardResult) -> Iterator[tuple[str, str | None, str, str, str | None]]:
    """Rule, package, further identity of the harm, message, and why it is suppressed."""
    proposals = {it.package: f"; {proposal_text(it)}" for it in upgrade.proposals}
    closed = {(it.name, it.id): it.vex.text(closed=True) for it in upgrade.closed if it.vex}
    for finding in findings_of(upgrade, every=True):
        why = closed.get((finding.package or "", finding.identity))
        rule = "vulnerable" if why else finding.rule
        if rule is not None:
            proposal = "" if why else proposals.get(finding.package or "", "")
            message = f"{rule}: {finding.line}{proposal}"
            yield rule, finding.package, finding.identity, message, why


def _line_of(package: str | None, lines: Sequence[str]) -> int:
    """Number of the line that pins a package; 1 if there is none.

    >>> _line_of("a-b", ["# via a-b", "c==1", "A_b[x]==2"]), _line_of("c", ["", 'name = "c"'])
    (3, 2)
    """
    name = re.sub(r"-", "[-_.]+", package or "")
    pin = re.compile(rf"""\s*(?:name\s*=\s*)?["']?{name}["']?\s*(?:[=\[:@;]|$)""", re.IGNORECASE)
    return next((n for n, line in enumerate(lines, 1) if package and pin.match(line)), 1)
