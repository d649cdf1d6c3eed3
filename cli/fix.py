"""``thoth fix``: the smallest change of a lock that removes every removable vulnerability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from adviser.answering.answers import on_hardware
from adviser.answering.lock_fixes import (
    FixOptions,
    LockFixes,
    fix_document,
    fixes_of_lock,
    project_of_lock,
    vulnerability_text,
)
from adviser.fix import Fix, FixResult, settling_command, verdict_of
from adviser.locks.lock_model import UnwritableLock
from adviser.projects.locks import ProjectLock
from adviser.projects.project import Project, ProjectFormat
from adviser.reports.fix_proof import proof_document
from adviser.resolver.results import VersionChange
from adviser.resolver.worker import ResolverWorker
from cli.console import moment_text, print_canonical_json, print_lines, print_note
from cli.guard import LONGEST_COMMENT, code_block, sarif_log, write_versions
from cli.knowledge import knowledge_for, require_projected
from cli.options import as_json_option
from cli.project_files import read_lock_file, read_project, write_file
from cli.project_tools import show_changes, tool_of
from cli.request_options import (
    advice_request_of,
    index_from_project,
    lock_selection,
    project_path,
    request_options,
    requested_environment,
)
from common.formats.locks.entries import LockEntry
from common.settings import Settings
from graph.migrate import migrated_stores
from model.advisories import NO_ADVISORIES, Severity
from model.errors import InvalidArgument, ProjectError
from model.json_documents import canonical_json
from model.packages.candidates import Dependency
from model.packages.environments import Environment
from model.text import counted, first_few

#: Exit codes: nothing is open; every open vulnerability can be removed; some remain.
_NOTHING, _FIXABLE, _REMAINS = 0, 1, 4
_TITLES = {
    "smallest": "smallest fix",
    "not_slower": "smallest fix without a settled slow-down",
    "newest": "newest advised stack",
}
_RULES = {
    "vulnerable": "A locked version has a vulnerability.",
}


@click.command()
@project_path
@index_from_project
@request_options
@click.option("--only", multiple=True, metavar="ID",
              help="Remove only this vulnerability, under any of its aliases; repeat the option for"
                   " more.")  # fmt: skip
@click.option("--min-severity", type=click.Choice([it.value for it in Severity]),
              help="Leave out less severe vulnerabilities; unrated ones count.")  # fmt: skip
@click.option("--apply", "applies", is_flag=True,
              help="Write the first fix into the lock, with the tool that made it.")  # fmt: skip
@click.option("--dry-run", is_flag=True,
              help="With --apply, only show what would change, and the command.")  # fmt: skip
@click.option("--comment", type=click.Path(path_type=Path, dir_okay=False),
              help="Write the first fix to this file, as Markdown for a pull request.")  # fmt: skip
@click.option("--sarif", type=click.Path(path_type=Path, dir_okay=False),
              help="Write open vulnerabilities to this file, as SARIF.")  # fmt: skip
@click.option("--proof", type=click.Path(path_type=Path, dir_okay=False),
              help="Write the proof of the first fix to this file, for `thoth check`.")  # fmt: skip
@as_json_option
@click.pass_context
def fix(context: click.Context, /, path: Path | None, as_json: bool, **options: Any) -> None:
    """Find the smallest change of a lock that removes its vulnerabilities.

    PATH is a lock, or the project's folder; by default, it is the current folder. Without a
    manifest, every package stays that nothing else in the lock requires.

    The fewest vulnerabilities remain; then the fewest packages change; then the steps are the
    smallest. Each of these numbers is proven. For every vulnerability that remains, the command
    says what blocks its removal. With --older-than, a fix may have younger versions if nothing else
    removes a vulnerability.

    Exit code 0 if nothing is open; 1 if a fix removes everything; 4 if something remains, or if no
    advisories were read.
    """
    settings: Settings = context.obj
    if options["dry_run"] and not options["applies"]:
        raise click.UsageError("--dry-run is for --apply")
    lock = _lock_of(path or Path(), options)
    fix_options = FixOptions(
        options["only"], Severity(options["min_severity"]) if options["min_severity"] else None
    )
    with ResolverWorker() as worker:
        worker.start()  # it is needed nearly always, and takes a while
        request = advice_request_of(settings, lock.path, lock.options, project=lock.project)
        with migrated_stores(settings) as stores:
            request = on_hardware(stores, request, options["hardware"])
            more = [Dependency(name) for name in lock.packages]
            known = knowledge_for(stores, request, options, worker.resolve, more)
            fixes = fixes_of_lock(
                known, lock.packages, lock.elsewhere, fix_options, options["threads"]
            )
            if fixes.result.conflict is not None and not known.is_listed:
                require_projected(stores, fixes.snapshot.revisions)
    if as_json:
        print_canonical_json(fix_document(fixes, lock.packages))
    else:
        print_lines(fix_lines(fixes, lock.packages))
    if options["comment"]:
        write_file(options["comment"], _comment(fixes, lock).encode())
    if options["sarif"]:
        write_file(options["sarif"], canonical_json(_sarif(fixes.result, lock.path)))
    if options["proof"] and fixes.result.fixes:
        proof = proof_document(fixes.result.universe.universe, fixes.result.fixes[0])
        if proof is None:
            print_note("the first fix is not proven, so no proof was written")
        else:
            write_file(options["proof"], canonical_json(proof))
    if options["applies"] and fixes.result.fixes:
        _apply(settings, lock, fixes.result.fixes[0], request.environment, options)
    context.exit(exit_code(fixes))


def exit_code(fixes: LockFixes) -> int:
    """The exit code for the fixes of a lock."""
    result = fixes.result
    if fixes.advisories_as_of is None:
        return _REMAINS
    if not result.open:
        return _NOTHING
    return _FIXABLE if result.fixes and not result.fixes[0].remaining else _REMAINS


@dataclass(frozen=True, slots=True)
class LockWithProject:
    """A lock that was read, with its project.

    :param project: requires the packages of the lock in any version if there is no manifest
    :param elsewhere: names of packages that come from no index
    :param options: of the request for this project
    """

    path: Path
    content: ProjectLock
    project: Project
    packages: Mapping[str, LockEntry]
    elsewhere: frozenset[str]
    options: Mapping[str, Any]


def _lock_of(path: Path, options: Mapping[str, Any]) -> LockWithProject:
    """The lock that a path names, or the one of the project in a folder.

    :raises InvalidArgument: if there is no lock
    """
    selection = lock_selection(options)
    if path.is_dir():
        project = read_project(path, selection)
        if project.lock_source is None:
            raise InvalidArgument(
                f"{path} has no lock that can be fixed",
                hint="name the lock, or write one with `thoth advise -o FILE`",
            )
        path /= project.lock_source
    else:
        try:
            project = read_project(path, selection)
            if project.source == path.name and path.is_file():
                # A compiled requirements file belongs to the manifest beside it.
                beside = read_project(path.parent, selection)
                project = beside if beside.lock_source == path.name else project
        except ProjectError:
            project = Project(source=path.name)
    alone = project.format is ProjectFormat.LOCK or project.source == path.name
    where = requested_environment(project, options)
    lock = read_lock_file(path, selection, where.markers)
    packages = lock.packages(where.markers)
    if not packages:
        raise InvalidArgument(f"{path} locks no package of an index")
    for text in dict.fromkeys(it.text for it in lock.warnings):
        print_note(text)
    own = {**options, "extras": (), "groups": (), "dev": False} if alone else options
    project = project_of_lock(project, lock, packages, alone=alone)
    return LockWithProject(
        path, lock, project, packages, frozenset(it.name for it in lock.others), own
    )


def fix_lines(fixes: LockFixes, locked: Mapping[str, LockEntry]) -> Iterator[str]:
    """The fixes as lines: what is open, each fix, what remains and why, and what is proven."""
    result, as_of = fixes.result, fixes.advisories_as_of
    if as_of is None:
        yield NO_ADVISORIES
        return
    age = f" (advisories of {moment_text(as_of)})"
    if not result.open:
        yield f"no open vulnerability in {counted(len(locked), 'package')}{age}"
        return
    affected = len({it.package for it in result.open})
    many = "vulnerability" if len(result.open) == 1 else "vulnerabilities"
    packages = counted(len(locked), "package")
    yield f"{len(result.open)} open {many} in {affected} of {packages}{age}"
    if result.conflict is not None:
        yield "nothing meets the requirements of the project:"
        yield from result.conflict.lines()
    elif not result.fixes:
        yield "no fix was found in time (--time-limit allows more)"
    for fix in result.fixes:
        yield from _lines_of(fix, result)
    yield from _note_lines(result)


def _lines_of(fix: Fix, result: FixResult) -> Iterator[str]:
    first = fix is result.fixes[0]
    changes = counted(len(fix.changes), "package")
    gone = f"{len(fix.fixed)} of {len(result.open)} fixed"
    verb = "change" if len(fix.changes) != 1 else "changes"
    yield f"{_TITLES[fix.kind]}: {changes} {verb}, {gone}{', proven' if fix.is_proven else ''}"
    if fix.kind == "newest":
        yield "  `thoth advise` shows it"
        return
    for change in fix.changes:
        yield f"  {_change_line(change, fix)}"
    for vulnerability in fix.introduced:
        yield f"  introduces {vulnerability_text(vulnerability)}"
    if fix.young:
        yield f"  younger than --older-than allows: {first_few(fix.young, 10)}"
    if fix.upgrade.slower:
        slower = [it.package or "the whole lock" for it in fix.upgrade.slower]
        names = first_few(slower, 5)
        yield f"  settled slower: {names}"
    for vulnerability in fix.remaining if first else ():
        blocker = result.blocked.get(vulnerability.key)
        yield f"  remains: {vulnerability_text(vulnerability)}"
        for line in blocker.reasons if blocker else ():
            yield f"    {line}"
        for line in blocker.unblocked_by if blocker else ():
            yield f"    would help: {line}"


def _change_line(change: VersionChange, fix: Fix) -> str:
    ours = [it.id for it in fix.fixed if it.package == change.name]
    removes = f"; removes {first_few(ours, 5)}" if ours else ""
    measured = verdict_of(fix, change.name)
    speed = "" if change.advised is None or change.forced is None else f"; {measured}"
    command = settling_command(fix, change.name)
    settled_by = f" (`{command}`)" if command and speed else ""
    versions = f"{change.forced or 'none'} → {change.advised or 'none'}"
    return f"{change.name}: {versions}{removes}{speed}{settled_by}"


def _note_lines(result: FixResult) -> Iterator[str]:
    """What restricts the answer."""
    universe = result.universe
    if universe.unknown:
        names = first_few(universe.unknown, 5)
        yield f"kept if possible, because their requirements are unknown here: {names}"
    broken = [f"{name} requires {it.name}{it.specifier}"
              for name, them in universe.unmet.items() for it in them]  # fmt: skip
    if broken:
        yield f"not counted, because the lock itself does not meet it: {first_few(broken, 5)}"


def _comment(fixes: LockFixes, lock: LockWithProject) -> str:
    """The answer as Markdown; all text of documents stands in a code block."""
    result = fixes.result
    left = len(result.fixes[0].remaining) if result.fixes else len(result.open)
    title = f"thoth fix: {len(result.open)} open, {left} cannot be removed"
    lines = list(fix_lines(fixes, lock.packages))
    return "\n".join([f"**{title}**", "", *code_block(lines, LONGEST_COMMENT), ""])


def _sarif(result: FixResult, lock: Path) -> dict[str, Any]:
    """The open vulnerabilities as a SARIF log."""
    fix = result.fixes[0] if result.fixes else None
    results = []
    for vulnerability in result.open:
        name, how = vulnerability.package, "remains"
        if fix is not None and vulnerability in fix.fixed:
            how = f"instead: {name} {fix.versions.get(name, 'left out')}"
        text = f"{vulnerability_text(vulnerability)}; {how}"
        results.append(("vulnerable", name, vulnerability.id, text))
    return sarif_log(lock, "thoth-fix", _RULES, results)


def _apply(
    settings: Settings,
    lock: LockWithProject,
    fix: Fix,
    where: Environment,
    options: Mapping[str, Any],
) -> None:
    """Write a fix into the lock, with the tool that made it if one is known.

    :raises UnwritableLock: if the lock cannot be written here
    :raises ToolFailed: if the tool fails or chooses other versions
    """
    if not fix.changes:
        click.echo(f"{lock.path} stays as it is", err=True)
        return
    tool = tool_of(lock.path)
    if tool is None and lock.elsewhere:
        raise UnwritableLock(
            f"{lock.path} has packages from elsewhere, which would be lost:"
            f" {first_few(sorted(lock.elsewhere), 5)}",
            "take the versions from `thoth fix --json`",
        )
    if options["dry_run"]:
        if tool is not None:
            show_changes(tool, fix.changes)
        return
    before = {name: it.version for name, it in lock.packages.items()}
    how = {**options, "output": None, "stored": True}
    write_versions(settings, fix.versions, lock.path, lock.content, before, where, how)
