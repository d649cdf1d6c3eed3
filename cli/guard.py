"""``thoth guard``: compare two locks, for people and for CI pipelines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from adviser.answering.lock_comparison import (
    LockKnowledge,
    compare_lock_versions,
    guard_document,
    read_knowledge_of_locks,
    request_of_locks,
)
from adviser.answering.target_hardware import own_hardware, requested_hardware
from adviser.exports.parquet import needs_pyarrow
from adviser.guard import (
    GuardResult,
    MissingKnowledge,
    VersionVulnerability,
    YankedVersion,
    lock_texts,
    with_reasons,
)
from adviser.projects.locks import ProjectLock
from adviser.reports.notes import refused_text
from adviser.scoring.assessment_types import Claim
from adviser.scoring.verdicts import family_text
from cli.console import print_canonical_json, print_lines, print_note, shown
from cli.knowledge import TerminalObserver
from cli.options import ExclusiveSwitch, NamedPath, as_json_option
from cli.project_files import read_lock_file, write_file
from cli.request_options import (
    environment_options,
    lock_options,
    lock_selection,
    requested_environment,
)
from cli.service_client import ServiceClient
from common import __version__
from common.settings import Settings
from graph.migrate import migrated_stores
from model.errors import InvalidArgument
from model.json_documents import canonical_json, digest
from model.packages.environments import Environment
from model.text import counted

#: Exit codes by outcome.
_CODES = {"no_harm": 0, "harm": 1, "unknown": 4}
#: The last line, by outcome.
_RESULTS = {
    "no_harm": "result: no harm",
    "harm": "result: harm",
    "unknown": "result: unknown; no harm was found, and data is missing",
}
#: Verdicts in the order of their lines; the first ones are differences.
_SETTLED = ("slower", "faster", "equivalent")
_DIFFERENT = _SETTLED[:2]
#: Why other commands may report fewer differences.
_OTHER_COMMANDS = (
    "`thoth stacks` and `thoth advise` compare more stacks at once, and may claim less:"
    " docs/statistics.md"
)
#: Code hosts refuse comments of more than 65,536 characters.
_LONGEST_COMMENT = 60_000
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
              help="Ask a service for what is known, with the token in THOTH_TOKEN if that is set;"
                   " this machine needs no stores.")  # fmt: skip
@click.option("--from-export", "export", type=NamedPath(path_type=Path), metavar="DIR",
              help="Read what is known from a Parquet export; this machine needs no stores. Needs"
                   " the extra `export`.")  # fmt: skip
@click.option("--allow-vulnerability", "allowed", multiple=True, metavar="ID",
              help="Accept this vulnerability, under any of its aliases.")  # fmt: skip
@click.option("--allow-unknown", is_flag=True, help="Exit with 0 instead of 4 if data is missing.")
@click.option("--comment", type=NamedPath(path_type=Path),
              help="Write the settled differences to this file, as Markdown for a comment; the file"
                   " is empty if there are none.")  # fmt: skip
@click.option("--sarif", type=NamedPath(path_type=Path),
              help="Write the harm to this file, as SARIF for code scanning.")  # fmt: skip
@click.option(
    "--verbose",
    is_flag=True,
    help="Show every comparison by itself, also those of one package in many series.",
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

    Exit code 0 means that no harm was found and that no data is missing.
    """
    settings: Settings = context.obj
    where = requested_environment(None, options)
    selection = lock_selection(options)
    locks = [read_lock_file(path, selection, where.markers) for path in (old, new)]
    if locks[0].entries and not locks[1].entries and not locks[1].elsewhere:
        raise InvalidArgument(f"{new} names no package, and {old} does: was it written completely?")
    for warning in (warning for lock in locks for warning in lock.warnings):
        print_note(warning.text)
    installed = [lock.packages(where.markers) for lock in locks]
    before, after = ({name: it.version for name, it in lock.items()} for lock in installed)
    if service is not None and fetch:
        raise click.UsageError("--service and --fetch: a service reads releases itself", context)
    export: Path | None = options["export"]
    if export is not None and (fetch or service is not None):
        raise click.UsageError("--from-export cannot be used with --fetch or --service", context)
    unmet: Mapping[str, str] | None = None
    if service is not None:
        named = options["hardware"] or own_hardware().digest
        knowledge = ServiceClient(service).knowledge_of_locks(before, after, where, named)
    elif export is not None:
        knowledge = _exported_knowledge(export, before, after, where, options["hardware"])
    else:
        knowledge, unmet = _stored_knowledge(
            settings, locks, before, after, where, options["hardware"], fetch
        )
    hardware = requested_hardware(knowledge.hardware, options["hardware"])
    upgrade = with_reasons(
        compare_lock_versions(knowledge, before, after, where, hardware.digest, options["allowed"]),
        unmet or {},
    )
    print_note(hardware.note)
    if as_json:
        print_canonical_json(guard_document(upgrade))
    else:
        print_lines(guard_lines(upgrade, fetched=unmet is not None, verbose=options["verbose"]))
    if options["comment"]:
        write_file(options["comment"], comment_text(upgrade, new.as_posix()).encode())
    if options["sarif"]:
        write_file(options["sarif"], canonical_json(sarif_document(upgrade, new)))
    code = _CODES[upgrade.outcome.value]
    context.exit(0 if allow_unknown and code == _CODES["unknown"] else code)


def _exported_knowledge(
    folder: Path,
    before: Mapping[str, str],
    after: Mapping[str, str],
    where: Environment,
    prefix: str | None,
) -> LockKnowledge:
    """What an export knows of two locks; its age is printed."""
    with needs_pyarrow():
        from adviser.answering.exported_lock_knowledge import knowledge_of_exported_locks

    knowledge, as_of = knowledge_of_exported_locks(
        folder, before, after, where, lambda classes: requested_hardware(classes, prefix).digest
    )
    print_note(f"{folder} shows the record at {as_of:%Y-%m-%d %H:%M} UTC")
    return knowledge


def _stored_knowledge(
    settings: Settings,
    locks: Sequence[ProjectLock],
    before: Mapping[str, str],
    after: Mapping[str, str],
    where: Environment,
    hardware: str | None,
    fetch: bool | None,
) -> tuple[LockKnowledge, Mapping[str, str] | None]:
    """What the stores know of two locks.

    :param hardware: as for :func:`adviser.answering.target_hardware.requested_hardware`
    :returns: also why the indexes cannot provide a version, by package; ``None`` if these were not
        read
    """
    with migrated_stores(settings) as stores:
        request, observer = request_of_locks(settings, locks, where), TerminalObserver(stores)
        return read_knowledge_of_locks(stores, request, before, after, fetch, observer, hardware)


def guard_lines(
    upgrade: GuardResult, *, fetched: bool = False, verbose: bool = False
) -> Iterator[str]:
    """The result as lines.

    :param fetched: whether the indexes were just read, so that no line suggests it
    :param verbose: whether each comparison has its own line
    """
    if not upgrade.changes:
        yield "the locks are the same"
        return
    yield from _change_lines(upgrade)
    yield from _claim_lines(upgrade, verbose=verbose)
    yield from _release_lines(upgrade)
    yield from _remaining_lines(upgrade, fetched=fetched, verbose=verbose)
    claims = (*upgrade.stacks, *upgrade.claims, *upgrade.undetermined)
    if not verbose and len(_sentences(upgrade, claims)) < len(claims):
        yield "`--verbose` shows each series by itself"
    yield _RESULTS[upgrade.outcome.value]


def _change_lines(upgrade: GuardResult) -> Iterator[str]:
    for change in upgrade.changes:
        yield f"{change.name}: {change.forced or 'none'} → {change.advised or 'none'}"


def _claim_lines(
    upgrade: GuardResult, verdicts: Sequence[str] = _SETTLED, *, verbose: bool = False
) -> Iterator[str]:
    """Settled comparisons; unless verbose, several series of one package may share a line."""
    settled = (*upgrade.stacks, *upgrade.claims)
    for verdict in verdicts:
        claims = [it for it in settled if it.verdict.value == verdict]
        yield from (f"{verdict}: {it}" for it in _sentences(upgrade, claims, verbose=verbose))


def _sentences(
    upgrade: GuardResult, claims: Iterable[Claim], *, verbose: bool = False
) -> list[str]:
    texts = lock_texts((*upgrade.stacks, *upgrade.claims, *upgrade.undetermined))
    return [it.message for it in texts.notes(claims, every=verbose)]


def _release_lines(upgrade: GuardResult) -> Iterator[str]:
    yield from map(_introduced_line, upgrade.introduced)
    for each in upgrade.removed:
        yield f"fixed: {each.name} {each.version} had {each.id} ({each.severity or 'unrated'})"
    yield from map(_yanked_line, upgrade.yanked)


def _introduced_line(each: VersionVulnerability) -> str:
    return f"vulnerable: {each.name} {each.version} has {each.id} ({each.severity or 'unrated'})"


def _yanked_line(version: YankedVersion) -> str:
    reason = f": {version.reason}" if version.reason else ""
    return f"yanked: {version.name} {version.version}{reason}"


def _remaining_lines(
    upgrade: GuardResult, *, fetched: bool, verbose: bool = False
) -> Iterator[str]:
    """What is missing, and how far the comparisons hold."""
    others = (it for it in upgrade.missing if it.kind.value != "verdict")
    yield from (_missing_line(it, fetched=fetched) for it in others)
    undetermined = _sentences(upgrade, upgrade.undetermined, verbose=verbose)
    yield from (f"missing: {it} (`thoth inspect`)" for it in undetermined)
    if upgrade.unmeasured:
        yield f"not measured on this hardware: {', '.join(upgrade.unmeasured)}"
    if upgrade.refused:
        yield refused_text(upgrade.refused)
    if upgrade.comparisons:
        yield family_text(upgrade.comparisons)
        yield _OTHER_COMMANDS


def _missing_line(missing: MissingKnowledge, *, fetched: bool) -> str:
    if missing.remedy is None:
        return f"missing: {missing.message}"
    fetch = " or --fetch" if missing.kind.value == "metadata" and not fetched else ""
    return f"missing: {missing.message} (`{missing.remedy}`{fetch})"


def comment_text(upgrade: GuardResult, lock: str) -> str:
    """The settled differences as Markdown, with everything else folded; empty if there are none.

    Equivalence is no difference. All text of documents stands in code blocks, so that it makes
    neither links nor mentions.
    """
    releases = list(_release_lines(upgrade))
    settled = [*_claim_lines(upgrade, _DIFFERENT), *releases]
    if not settled:
        return ""
    folded = [
        *_change_lines(upgrade),
        *_claim_lines(upgrade, ["equivalent"]),
        *_remaining_lines(upgrade, fetched=True),
    ]
    claims = (*upgrade.stacks, *upgrade.claims)
    differences = sum(it.verdict.value in _DIFFERENT for it in claims) + len(releases)
    title = f"thoth guard: {counted(differences, 'settled difference')}"
    name = re.sub(r"[^ -_a-~]", "?", lock)
    summary = f"{counted(len(upgrade.changes), 'changed package')}, and what is missing"
    return "\n".join([
        f"**{title}** in `{name}`, {_RESULTS[upgrade.outcome.value]}",
        "",
        *_code_block(settled, _LONGEST_COMMENT // 2),
        "",
        f"<details><summary>{summary}</summary>",
        "",
        *_code_block(folded, _LONGEST_COMMENT // 2),
        "",
        "</details>",
        "",
    ])  # fmt: skip


def _code_block(lines: Sequence[str], longest: int) -> list[str]:
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
    """The harm as a SARIF log, each result at the line of its package in the lock.

    Fingerprints contain neither lines nor measured numbers, so that a result keeps its identity
    while the lock grows and measurements are added.
    """
    resolved, here = lock.resolve(), Path.cwd()
    inside = resolved.is_relative_to(here)
    uri = quote(resolved.relative_to(here).as_posix()) if inside else resolved.as_uri()
    lines = resolved.read_text("utf-8", "replace").splitlines()
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
        for rule, package, identity, message in _harm(upgrade)
    ]
    rules = [{"id": it, "shortDescription": {"text": text}} for it, text in _RULES.items()]
    driver = {"name": "thoth", "version": __version__, "rules": rules}
    # The identifier tells apart the logs of several locks.
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"thoth-guard/{uri}/"},
        "results": results,
    }
    return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _harm(upgrade: GuardResult) -> Iterator[tuple[str, str | None, str, str]]:
    """Rule, package, what identifies the harm beside them, and message."""
    for claim in upgrade.slower:
        (sentence,) = _sentences(upgrade, [claim])
        yield "slower", claim.package, claim.comparison_key, f"slower: {sentence}"
    for each in upgrade.introduced:
        yield "vulnerable", each.name, each.id, _introduced_line(each)
    for version in upgrade.yanked:
        yield "yanked", version.name, version.version, _yanked_line(version)


def _line_of(package: str | None, lines: Sequence[str]) -> int:
    """Number of the line that pins a package; 1 if there is none.

    >>> _line_of("a-b", ["# via a-b", "c==1", "A_b[x]==2"]), _line_of("c", ["", 'name = "c"'])
    (3, 2)
    """
    name = re.sub(r"-", "[-_.]+", package or "")
    pin = re.compile(rf"""\s*(?:name\s*=\s*)?["']?{name}["']?\s*(?:[=\[:@;]|$)""", re.IGNORECASE)
    return next((n for n, line in enumerate(lines, 1) if package and pin.match(line)), 1)
