"""``thoth fix``: the smallest change of a lock that removes every removable vulnerability."""

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from adviser.advice_request import StackRequest
from adviser.advise import Resolver
from adviser.answering.answers import on_hardware
from adviser.answering.lock_fixes import FixOptions, LockFixes, fixes_of_lock
from adviser.fix import NOT_MEASURED, ChangedPackage, Fix, FixResult, OpenVulnerability
from adviser.locks.formats import UnwritableLock
from adviser.projects.locks import OF_OTHERS, ProjectLock
from adviser.projects.project import Project, ProjectFormat, ProjectRequirement
from adviser.reports.checking import proof_document
from adviser.resolver.worker import ResolverWorker
from adviser.vex import VEX_FILE, VexStatement, VexStatus, with_acceptance
from cli.console import moment_text, print_canonical_json, print_lines, print_note
from cli.guard import LONGEST_COMMENT, code_block, is_written, sarif_log, write_versions
from cli.knowledge import archive_knowledge, knowledge_for, require_projected
from cli.measuring_options import machine_options
from cli.options import SHIPPED_PACK, BudgetOfTime, NamedPath, as_json_option, vex_option
from cli.own_benchmarks import confirmation_option, of_these_files
from cli.project_files import (
    keep_project_files,
    lock_content,
    read_lock_file,
    read_project,
    read_vex_files,
    write_file,
)
from cli.project_tools import show_changes, tool_of
from cli.request_options import (
    advice_request_of,
    environment_text,
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
from model.packages.identity import VersionChange, changes_between
from model.text import counted, first_few

#: Exit codes: nothing is open; every open vulnerability can be removed; something was not read, or
#: nothing of the lock is known, so that this is unknown; some remain.
_NOTHING, _FIXABLE, _UNKNOWN, _REMAINS = 0, 1, 3, 4
_TITLES = {
    "smallest": "smallest fix",
    "not_slower": "smallest fix without a settled slow-down",
    "newest": "newest advised stack",
}
_RULES = {"vulnerable": "A locked version has a vulnerability."}
_OUTPUT = click.Path(path_type=Path, dir_okay=False)


@click.command()
@project_path
@index_from_project
@request_options
@click.option("--only", multiple=True, metavar="ID",
              help="Remove only this vulnerability, under any of its aliases; repeat the option for"
                   " more.")  # fmt: skip
@click.option("--min-severity", type=click.Choice([it.value for it in Severity]),
              help="Ignore less severe vulnerabilities, but not unrated ones.")  # fmt: skip
@click.option("--advisories", metavar="SOURCE",
              help="Read advisories from an archive in the OSV format; use no store.")  # fmt: skip
@click.option("--pack", type=NamedPath(path_type=Path), is_flag=False, flag_value=str(SHIPPED_PACK),
              metavar="[PATH]",
              help="Take verdicts on speed from a pack of measurements, by default the one that"
                   " ships; use no store. Give --pack last, or as --pack=PATH.")  # fmt: skip
@click.option("--measure", "budget", type=BudgetOfTime(), metavar="BUDGET",
              help="First measure for this time, such as 15m, whether the fix is slower. Runs the"
                   " project's benchmarks, or LOOP_INDICATORS if it has none.")  # fmt: skip
@confirmation_option
@machine_options
@click.option("--accept", "accepted", multiple=True, metavar="ID",
              help="Accept this vulnerability, and record this in thoth.vex.json beside the lock"
                   " or in the first --vex; repeat the option for more.")  # fmt: skip
@click.option("--reason", help="Reason for --accept.")
@click.option("--until", metavar="DATE",
              help="Last day on which --accept is valid (UTC), such as 2027-01-31.")  # fmt: skip
@vex_option
@click.option("--apply", "applies", is_flag=True,
              help="Write the first fix into the lock, with the tool that made it. In Pipfile.lock"
                   " and pylock.toml, Thoth itself changes only these packages.")  # fmt: skip
@click.option("--dry-run", is_flag=True,
              help="With --apply, only show the changes and the command.")  # fmt: skip
@click.option("--comment", type=_OUTPUT,
              help="Write the first fix to this file, as Markdown for a pull request.")  # fmt: skip
@click.option("--sarif", type=_OUTPUT, help="Write open vulnerabilities to this file, as SARIF.")
@click.option("--proof", type=_OUTPUT,
              help="Write the proof of the first fix to this file, for `thoth check`.")  # fmt: skip
@as_json_option
@click.pass_context
def fix(context: click.Context, /, path: Path | None, as_json: bool, **options: Any) -> None:
    """Find the smallest change of a lock that removes its vulnerabilities.

    PATH is a lock, or the project's folder; by default, it is the current folder. Without a
    manifest, packages that no other package in the lock requires are kept.

    The fewest vulnerabilities remain; then the fewest packages change; then the steps are the
    smallest. Each of these numbers is proven. For every remaining vulnerability, the command
    says what blocks its removal. With --older-than, a fix may have younger versions if nothing else
    removes a vulnerability.

    Exit code 0 if nothing is open; 1 if a fix removes all vulnerabilities; 3 if there is no stack
    and something required was not read, or if no index has any package of the lock; 4 if a
    vulnerability remains, or if no advisories were read.
    """
    settings: Settings = context.obj
    _check(options)
    accepted, record = _accepted_statements(options), next(iter(options["vex"]), None)
    if accepted and record is not None and not record.exists():
        options["vex"] = options["vex"][1:]
    lock = lock_at(path or Path(), options)
    outputs = options["comment"], options["sarif"], options["proof"]
    sources = options["advisories"] or "", options["pack"] or ""
    keep_project_files(outputs, (lock.path, *sources, *options["vex"]))
    lock = replace(lock, vex=(*lock.vex, *accepted))
    with ResolverWorker() as worker:
        worker.start()  # it is needed nearly always, and takes a while
        if options["budget"] is not None:
            # Measuring loads the executor.
            from cli.advise_measure import measure_for_advice

            measure_for_advice(
                settings, _request_of(settings, lock), lock.path, options["budget"],
                worker.resolve, {**options, "as_json": as_json},
                partial(fixes_of, settings, lock, options, worker.resolve),
            )  # fmt: skip
        fixes = fixes_of(settings, lock, options, worker.resolve)
    if not options["dry_run"]:
        _record(record or lock.path.with_name(VEX_FILE), accepted, fixes.result.closed)
    where = environment_text(options)
    if as_json:
        print_canonical_json(fixes.document())
    else:
        print_lines(fix_lines(fixes, datetime.now(UTC), where))
    result = fixes.result
    if options["comment"]:
        write_file(options["comment"], _comment(fixes, where).encode())
    if options["sarif"]:
        write_file(options["sarif"], canonical_json(_sarif(result, lock.path)))
    if options["proof"] and result.fixes:
        if (proof := proof_document(result)) is None:
            print_note("the first fix is not proven, so no proof was written")
        else:
            write_file(options["proof"], canonical_json(proof))
    if options["applies"] and result.fixes:
        if result.resolution is None:
            raise InvalidArgument(
                "the advised stack is no smallest fix, so it is not applied",
                hint=f"use `thoth advise{where} --apply`; a larger --time-limit may find a smaller"
                " change",
            )
        _apply(settings, lock, result.fixes[0], options)
    context.exit(exit_code(fixes))


def _check(options: Mapping[str, Any]) -> None:
    """:raises UsageError: if options do not fit together"""
    if options["dry_run"] and not options["applies"]:
        raise click.UsageError("--dry-run is for --apply")
    measures, offline = options["budget"] is not None, options["fetch"] is False
    if (measures or offline) and _needs_no_store(options):
        name = "--measure" if measures else "--offline"
        raise click.UsageError(f"{name} needs the stores: leave out --advisories and --pack")


def _needs_no_store(options: Mapping[str, Any]) -> bool:
    return options["advisories"] is not None or options["pack"] is not None


def exit_code(fixes: LockFixes) -> int:
    """The exit code for the fixes of a lock."""
    result = fixes.result
    if fixes.advisories_as_of is None:
        return _REMAINS
    if fixes.nothing_known:
        return _UNKNOWN
    if not result.open:
        return _NOTHING
    if result.conflict is not None and result.unread:
        return _UNKNOWN
    return _FIXABLE if result.fixes and not result.fixes[0].remaining else _REMAINS


@dataclass(frozen=True, slots=True)
class LockWithProject:
    """A lock that was read, with its project.

    :param project: requires the packages of the lock in any version if there is no manifest
    :param where: the environment in which the lock is installed
    :param options: of the request for this project
    :param vex: VEX statements on vulnerabilities
    """

    path: Path
    content: ProjectLock
    project: Project
    where: Environment
    options: Mapping[str, Any]
    vex: Sequence[VexStatement] = ()

    @property
    def packages(self) -> Mapping[str, LockEntry]:
        """The packages that it installs, by name."""
        return self.project.locked or {}

    @property
    def elsewhere(self) -> frozenset[str]:
        """Names of packages that come from no index."""
        return frozenset(it.name for it in self.content.others)


def lock_at(path: Path, options: Mapping[str, Any]) -> LockWithProject:
    """The lock that a path names, or the lock of the project in a folder.

    :param options: values of :func:`request_options` by name, and of ``--vex``
    :raises InvalidArgument: if there is no lock
    """
    selection, project = lock_selection(options), Project(source=path.name)
    if path.is_dir():
        project = read_project(path, selection)
        if project.lock_source is None:
            raise InvalidArgument(
                f"{path} has no lock that can be fixed",
                hint="name the lock, or write one with `thoth advise -o FILE`",
            )
        path /= project.lock_source
    else:
        # A compiled requirements file belongs to the manifest beside it.
        for place in (path.parent, path) if path.is_file() else (path,):
            with suppress(ProjectError):
                beside = read_project(place, selection)
                if place == path or beside.lock_source == path.name:
                    project = beside
                    break
    where = requested_environment(project, options)
    content = read_lock_file(path, selection, where.markers)
    locked = {
        name: replace(it, dev=False, marker=None)
        for name, it in content.packages(where.markers).items()
    }
    if not locked:
        if content.pins:
            raise InvalidArgument(
                f"{path} installs no package of an index here",
                hint="--extra, --group, --python or --platform may add some",
            )
        raise InvalidArgument(f"{path} locks no package of an index")
    # All that a project requires may come from elsewhere.
    required = any(it.name in locked and it.holds(where.markers) for it in project.requirements)
    alone = project.format is ProjectFormat.LOCK or project.source == path.name or not required
    for text in dict.fromkeys(it.text for it in content.warnings_that("it is not looked at")):
        print_note(text)
    project = replace(
        project, locked=locked, lock_entries=tuple(locked.values()), lock_source=content.source,
        lock_indexes=content.indexes, python=project.python or content.python,
    )  # fmt: skip
    if alone:
        requirements = tuple(ProjectRequirement(it.name, "", it.extras) for it in locked.values())
        project = replace(
            project, requirements=requirements, constraints=(), dev=(), extras={}, groups={},
            format=ProjectFormat.LOCK,
        )  # fmt: skip
        options = {**options, "extras": (), "groups": (), "dev": False}
    vex = read_vex_files(path, options.get("vex", ()))
    return LockWithProject(path, content, project, where, options, vex)


def _accepted_statements(options: Mapping[str, Any]) -> list[VexStatement]:
    """The statements of ``--accept``."""
    reason, until = " ".join((options["reason"] or "").split()), options["until"]
    if not options["accepted"] and not reason and until is None:
        return []
    if not (options["accepted"] and reason and until):
        raise click.UsageError("give --accept, --reason and --until together")
    try:
        last, now = date.fromisoformat(until), datetime.now(UTC).replace(microsecond=0)
    except ValueError:
        raise InvalidArgument(f"--until: {until!r} is not a day such as 2027-01-31") from None
    if last < now.date():
        raise InvalidArgument(f"--until: {last} has passed")
    source = next(iter(options["vex"]), Path(VEX_FILE)).as_posix()
    accepted = VexStatement(frozenset(), VexStatus.AFFECTED, reason, source, str(last), made_at=now)
    names = [frozenset({it.strip().upper()}) for it in options["accepted"]]
    return [replace(accepted, names=it) for it in names]


def _record(
    path: Path, accepted: Sequence[VexStatement], closed: Sequence[OpenVulnerability]
) -> None:
    """Write acceptances into a VEX document, if there are any."""
    if not accepted:
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # two commands at once would lose one acceptance
        data = lock_content(path) if path.exists() else None
        for statement in accepted:
            matching = [
                it for it in closed if statement.names & {a.upper() for a in (it.id, *it.aliases)}
            ]
            if not matching:
                raise InvalidArgument(
                    f"--accept: the lock has no vulnerability {', '.join(statement.names)}",
                    hint="`thoth fix` lists the vulnerabilities of the lock",
                )
            for vulnerability in matching:
                names = vulnerability.id, *vulnerability.aliases
                data = with_acceptance(data, vulnerability.package, names, statement)
        write_file(path, data or b"")
    finally:
        os.close(folder)
    print_note(f"recorded in {path}")


def _request_of(settings: Settings, lock: LockWithProject) -> StackRequest:
    return advice_request_of(settings, lock.path, lock.options, project=lock.project)


def fixes_of(
    settings: Settings, lock: LockWithProject, options: Mapping[str, Any], resolver: Resolver
) -> LockFixes:
    """The fixes of a lock by the stores, or by an archive and a pack.

    :param options: of ``thoth fix``
    """
    folders, notes = (Path.cwd(), lock.path.absolute().parent), dict[str, None]()
    # Each round of the search reads evidence anew, and would say the same.
    of_these = partial(of_these_files, folders=folders, note=notes.setdefault)
    least = options["min_severity"]
    wanted = FixOptions(
        options["only"], Severity(least) if least else None, lock.elsewhere,
        of_these, lock.vex, options["proof"] is not None,
    )  # fmt: skip
    request = _request_of(settings, lock)
    more = [Dependency(name) for name in lock.packages]
    if _needs_no_store(options):
        known = archive_knowledge(settings, request, resolver, more, options)
        fixes = fixes_of_lock(known, wanted, options["threads"])
        if refused := known.advisories.refused:
            named = first_few([f"{place or 'the source'}: {it.message}"
                               for place, it in sorted(refused.items())], 3)  # fmt: skip
            many = counted(len(refused), "document")
            notes[f"{many} of the advisories cannot be read: {named}"] = None
    else:
        with migrated_stores(settings) as stores:
            request = on_hardware(stores, request, options["hardware"])
            stored = knowledge_for(stores, request, options, resolver, more)
            fixes = fixes_of_lock(stored, wanted, options["threads"])
            if fixes.result.conflict is not None and not stored.is_listed:
                require_projected(stores, fixes.snapshot.revisions)
    for text in notes:
        print_note(text)
    _require_known(options["only"], fixes)
    return replace(fixes, not_looked_at=len(lock.content.left_out(lock.where.markers)))


def _require_known(only: Sequence[str], fixes: LockFixes) -> None:
    """:raises InvalidArgument: if no version of the locked packages has one of them"""
    if fixes.advisories_as_of is None or fixes.result.unread:
        return
    known = {it.id for one in fixes.result.universe.locked.values() for it in one.vulnerabilities}
    known |= {it for key, details in fixes.evidence.vulnerabilities.items()
              for it in (key, *details.aliases)}  # fmt: skip
    if unknown := sorted({it.strip().upper() for it in only}.difference(map(str.upper, known))):
        raise InvalidArgument(
            f"--only: no advisory about a package of the lock is called {first_few(unknown, 5)}",
            hint="`thoth fix` without --only lists the open vulnerabilities of the lock",
        )


def fix_lines(fixes: LockFixes, now: datetime, where: str = "") -> Iterator[str]:
    """The fixes as lines: open vulnerabilities, each fix, remaining ones and why, and the proof.

    :param where: options of the environment, which suggested commands repeat
    """
    result, as_of = fixes.result, fixes.advisories_as_of
    if as_of is None:
        yield NO_ADVISORIES
        return
    unknown = fixes.unknown
    packages = counted(len(fixes.locked) - len(unknown), "package")
    old = f", {counted(days, 'day')} old" if (days := (now - as_of).days) > 0 else ""
    age = f"(advisories of {moment_text(as_of)}{old})"
    what = counted(len(result.open), "open vulnerability", "open vulnerabilities")
    affected = f"{len({it.package for it in result.open})} of " if result.open else ""
    if fixes.nothing_known:
        yield f"what is open is unknown {age}"
    else:
        yield f"{what if result.open else 'no open vulnerability'} in {affected}{packages} {age}"
    if unknown:
        names = first_few([f"{name} {version}" for name, version in unknown.items()], 10)
        yield f"unknown: {names}: no index that was read has them"
    if others := fixes.not_looked_at:
        yield f"not looked at: {counted(others, 'other locked version')}, {OF_OTHERS}"
    if result.open:
        yield from _fix_lines(result, where)
    for vulnerability in (*result.open, *result.closed):
        if (statement := vulnerability.vex) is not None:
            closed = vulnerability in result.closed
            yield f"{'not ' * closed}open: {vulnerability.text}: {statement.text(closed=closed)}"
    if left := result.not_counted:
        many = counted(left, "other vulnerability", "other vulnerabilities")
        yield f"not counted: {many}, by --only, --min-severity or --allow-vulnerability"


def _fix_lines(result: FixResult, where: str) -> Iterator[str]:
    if result.conflict is not None:
        read = " of the versions that were read" if result.unread else ""
        yield f"no stack{read} meets the requirements of the project:"
        yield from result.conflict.lines()
    elif result.resolution is None:
        yield "no smallest fix was found in time (--time-limit allows more)"
    for fix in result.fixes:
        yield from _lines_of(fix, result, where)
    yield from _note_lines(result, where)


def _lines_of(fix: Fix, result: FixResult, where: str) -> Iterator[str]:
    changes = counted(len(fix.changed), "package")
    gone = f"{len(fix.fixed)} of {len(result.open)} fixed"
    verb = "change" if len(fix.changed) != 1 else "changes"
    yield f"{_TITLES[fix.kind]}: {changes} {verb}, {gone}{', proven' if fix.is_proven else ''}"
    if fix.kind == "newest":
        yield f"  `thoth advise{where}` shows it"
        return
    for change in fix.changed:
        yield f"  {_change_line(change, fix)}"
    if len(fix.changed) > 1 and fix.verdict != NOT_MEASURED:
        yield f"  the whole lock: {fix.verdict}"
    for vulnerability in fix.introduced:
        yield f"  introduces {vulnerability.text}"
    if fix.younger_than_allowed:
        names = first_few(fix.younger_than_allowed, 10)
        yield f"  younger than --older-than allows, because nothing older is a fix: {names}"
    if fix.slower:
        names = first_few([it or "the whole lock" for it in fix.slower], 5)
        yield f"  settled slower: {names}"
    alike: dict[object, list[OpenVulnerability]] = {}
    for vulnerability in fix.remaining:
        if (blocker := vulnerability.blocked_by) is not None:
            key = vulnerability.package, blocker.requirers, blocker.unblocked_by
            alike.setdefault(key, []).append(vulnerability)
    for first, *others in alike.values():
        more = f", and {first_few([it.id for it in others], 3)}" if others else ""
        yield f"  remains: {first.text}{more}"
        if (blocker := first.blocked_by) is not None:
            yield from (f"    {line}" for line in blocker.reasons)
            yield from (f"    would help: {line}" for line in blocker.unblocked_by)


def _change_line(change: ChangedPackage, fix: Fix) -> str:
    ours = [it.id for it in fix.fixed if it.package == change.name]
    removes = f"; removes {first_few(ours, 5)}" if ours else ""
    speed = f"; {change.verdict}" if change.verdict else ""
    settled_by = f" (`{change.settled_by}`)" if change.settled_by and speed else ""
    versions = f"{change.old or 'none'} → {change.new or 'none'}"
    return f"{change.name}: {versions}{removes}{speed}{settled_by}"


def _note_lines(result: FixResult, where: str) -> Iterator[str]:
    """Limits of the answer."""
    universe = result.universe
    proof = result.fixes[0].proof if result.fixes else None
    if proof is not None and proof.assumption is not None:
        yield f"the proof assumes that {proof.assumption}"
    if result.unread:
        yield (
            f"nothing is proven, because something was not read; `thoth fix{where} --fetch` reads"
            f" it if its index answers: {first_few(result.unread, 3)}"
        )
    if universe.unknown:
        names = first_few(universe.unknown, 5)
        yield f"kept if possible, because their requirements are unknown here: {names}"
    broken = [f"{name} requires {it.name}{it.specifier}"
              for name, them in universe.unmet.items() for it in them]  # fmt: skip
    if broken:
        yield f"not counted, because the lock itself does not meet it: {first_few(broken, 5)}"


def _comment(fixes: LockFixes, where: str) -> str:
    """The answer as Markdown; all text of documents stands in a code block."""
    result = fixes.result
    left = len(result.fixes[0].remaining) if result.fixes else len(result.open)
    title = f"thoth fix: {len(result.open)} open, {left} remain"
    if fixes.advisories_as_of is None or fixes.nothing_known:
        title = "thoth fix: what is open is unknown"
    lines = list(fix_lines(fixes, datetime.now(UTC), where))
    return "\n".join([f"**{title}**", "", *code_block(lines, LONGEST_COMMENT), ""])


def _sarif(result: FixResult, lock: Path) -> dict[str, Any]:
    """The open vulnerabilities as a SARIF log; those that documents close are suppressed."""
    fix = result.fixes[0] if result.fixes else None
    results: list[tuple[str, str | None, str, str, str | None]] = []
    for vulnerability in result.open:
        name, how = vulnerability.package, "remains"
        if fix is not None and vulnerability in fix.fixed:
            how = f"instead: {name} {fix.versions.get(name, 'left out')}"
        text = f"{vulnerability.text}; {how}"
        results.append(("vulnerable", name, vulnerability.id, text, None))
    for closed in result.closed:
        why = closed.vex.text(closed=True) if closed.vex else None
        results.append(("vulnerable", closed.package, closed.id, closed.text, why))
    return sarif_log(lock, "thoth-fix", _RULES, results)


def _apply(settings: Settings, lock: LockWithProject, fix: Fix, options: Mapping[str, Any]) -> None:
    """Write a fix into the lock, with the tool that made it if one is known."""
    before = {name: it.version for name, it in lock.packages.items()}
    if not (changes := changes_between(before, fix.versions)):
        click.echo(f"{lock.path} stays as it is", err=True)
        return
    tool = tool_of(lock.path)
    if tool is None and lock.elsewhere:
        raise UnwritableLock(
            f"{lock.path} has packages that come from no index and would be lost:"
            f" {first_few(sorted(lock.elsewhere), 5)}",
            "take the versions from `thoth fix --json`",
        )
    if tool is None and not is_written(lock.path.name):
        pins = [f"{it.name}=={it.new}" for it in changes if it.new is not None]
        raise UnwritableLock(
            f"Thoth does not write {lock.path.name}, and runs no tool that does",
            f"lock {first_few(pins, 20)} with the project's own tool",
        )
    if options["dry_run"]:
        if tool is not None:
            show_changes(tool, changes)
        return
    data = lock.path.read_bytes()
    if tool is None and (edited := with_other_pins(data, changes)) is not None:
        write_file(lock.path, edited)
        again = read_lock_file(lock.path, lock_selection(options), lock.where.markers)
        written = {it.name: it.version for it in again.packages(lock.where.markers).values()}
        if not changes_between(fix.versions, written):
            click.echo(f"wrote {lock.path}: only the pins changed", err=True)
            return
        write_file(lock.path, data)
    how = {**options, "output": None, "stored": not _needs_no_store(options)}
    write_versions(settings, fix.versions, lock.path, lock.content, before, lock.where, how)


def with_other_pins(data: bytes, changes: Iterable[VersionChange]) -> bytes | None:
    """A requirements file in which only pins changed; ``None`` if that is not possible.

    >>> text = "# mine\\nA_b[x]==1.0  # why\\nc==2\\n"
    >>> changes = VersionChange("a-b", "1.0", "1.1"), VersionChange("c", "2", None)
    >>> with_other_pins(text.encode(), changes)
    b'# mine\\nA_b[x]==1.1  # why\\n'
    >>> with_other_pins(text.encode("utf-16"), changes)
    >>> with_other_pins(b"\\xef\\xbb\\xbfa-b==1.0", changes[:1])
    b'\\xef\\xbb\\xbfa-b==1.1'
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    for change in changes:
        name = change.name.replace("-", "[-_.]+")
        old = re.escape(change.old or "")
        pin = re.compile(
            rf"^(\ufeff?[ \t]*{name}[ \t]*(?:\[[^]]*\])?[ \t]*===?[ \t]*){old}(?![\w.+!*-])(.*\n?)",
            re.IGNORECASE | re.MULTILINE,
        )
        if change.old is None:
            text = f"{text.rstrip()}\n{change.name}=={change.new}\n"
            continue
        if "--hash" in text or len(pin.findall(text)) != 1:
            return None
        text = pin.sub(rf"\g<1>{change.new}\g<2>" if change.new else "", text)
    return text.encode()
