"""``thoth why`` and ``thoth why-not``: the same request, with one version forced."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from adviser import why as explanations
from adviser.advise import Advice, Resolver
from adviser.answering.answers import on_hardware
from adviser.reports.serialization import plain
from adviser.reports.unfetched_versions import missing_packages
from adviser.resolver.worker import ResolverWorker
from adviser.why import ForcedOutcome, ForcedStack, ForcedVersion, PackagePresence
from cli.console import print_canonical_json, print_lines, print_note
from cli.knowledge import knowledge_for, require_projected
from cli.options import as_json_option
from cli.request_options import (
    advice_request_of,
    dependencies,
    index_from_project,
    project_path,
    request_options,
)
from common.settings import Settings
from graph.migrate import migrated_stores
from model.errors import InvalidArgument
from model.packages.candidates import Dependency

Explanation = TypeVar("Explanation", "PackagePresence", "ForcedStack")


@click.command()
@click.argument("name")
@project_path
@index_from_project
@request_options
@as_json_option
@click.pass_context
def why(
    context: click.Context, /, name: str, path: Path | None, as_json: bool, **options: Any
) -> None:
    """Explain why a package is in the advised stack.

    NAME is the package. PATH is the project; by default, it is the current folder. The command
    shows which packages require NAME, why NAME has this version, and the next best choice. Exit
    code 1 if NAME is not in the stack, or if there is no stack.
    """
    (package,) = dependencies([name], "NAME")
    if package.specifier or package.extras:
        raise InvalidArgument(
            f"NAME: {name!r} is more than the name of a package; `thoth why-not` takes versions"
        )

    def explain(advice: Advice, resolver: Resolver) -> PackagePresence:
        return explanations.why(advice, package.name, resolver=resolver)

    explanation = _explain_advice(context.obj, path, options, explain)
    _print(explanation, presence_lines, as_json=as_json)
    if explanation.version is None:
        context.exit(3 if explanation.no_stack and explanation.unread else 1)


@click.command("why-not")
@click.argument("requirement")
@project_path
@index_from_project
@request_options
@as_json_option
@click.pass_context
def why_not(
    context: click.Context, /, requirement: str, path: Path | None, as_json: bool, **options: Any
) -> None:
    """Explain what choosing another version would cost.

    REQUIREMENT names the version, such as 'numpy==1.26.4'. PATH is the project; by default, it is
    the current folder. The command shows the loss of score and further changes, or why the
    requirement cannot be met. Exit code 1 if no stack meets the requirement.
    """
    (wanted,) = dependencies([requirement], "REQUIREMENT")

    def explain(advice: Advice, resolver: Resolver) -> ForcedStack:
        return explanations.why_not(advice, wanted, resolver=resolver)

    explanation = _explain_advice(context.obj, path, options, explain, [wanted])
    _print(explanation, forced_lines, as_json=as_json)
    if explanation.outcome not in (ForcedOutcome.ADVISED, ForcedOutcome.POSSIBLE):
        context.exit(3 if explanation.unread else 1)


def _explain_advice(
    settings: Settings,
    path: Path | None,
    options: dict[str, Any],
    explain: Callable[[Advice, Resolver], Explanation],
    more: Sequence[Dependency] = (),
) -> Explanation:
    """Advise on a project, and explain the result.

    :param more: requirements besides those of the project
    """
    with ResolverWorker() as worker:
        request = advice_request_of(settings, path, options)
        with migrated_stores(settings) as stores:
            request = on_hardware(stores, request, options["hardware"])
            print_note(request.hardware_note)
            known = knowledge_for(stores, request, options, worker.resolve, more)
            explanation = known.explain(explain, options["threads"])
            snapshot = None if known.is_listed else known.stored[0]
            if snapshot is not None and snapshot.missing:
                require_projected(stores, snapshot.missing)
    missing = snapshot and missing_packages(request, snapshot)
    print_note(missing.message(options["fetch"]) if missing else None)
    return explanation


def _print(
    explanation: Explanation, lines: Callable[[Explanation], Iterator[str]], *, as_json: bool
) -> None:
    if as_json:
        print_canonical_json(plain(explanation))
    else:
        print_lines((*lines(explanation), *explanation.unread))


def presence_lines(presence: PackagePresence) -> Iterator[str]:
    """Explain why a package is in the advised stack."""
    if presence.no_stack:
        read = " of the versions that were read" if presence.unread else ""
        limit = f"{read} meets the request" if presence.conflict else " was found within the limit"
        yield f"{presence.name} is in no advised stack: no stack{limit}"
        yield from (
            f"  {line}" for line in (presence.conflict.lines() if presence.conflict else ())
        )
        return
    if presence.version is None:
        yield f"{presence.name} is not in the advised stack"
        return
    yield f"{presence.name} {presence.version}"
    yield from (f"  because {step}" for step in presence.path)
    yield from (f"  also, {step}" for step in presence.askers if step not in presence.path)
    if presence.placing is not None:
        yield f"  this version: {presence.placing.message}"
    for forced in (presence.without, presence.otherwise):
        if forced is not None:
            yield from forced_lines(forced)


def forced_lines(forced: ForcedStack) -> Iterator[str]:
    """Explain the cost of forcing a version into the stack or out of it."""
    if forced.outcome is ForcedOutcome.ADVISED:
        yield f"{forced.what}: the advised stack has it"
    elif forced.outcome is ForcedOutcome.UNKNOWN:
        unread = "no stack of the versions that were read meets the request"
        why = unread if forced.conflict else "the search ended at its limit"
        yield f"{forced.what}: unknown, {why}"
        yield from (f"  {line}" for line in (forced.conflict.lines() if forced.conflict else ()))
    elif forced.outcome is ForcedOutcome.CONFLICT and forced.problem is not None:
        yield f"{forced.what}: impossible: {forced.problem}"
    elif forced.outcome is ForcedOutcome.CONFLICT:
        yield f"{forced.what}: impossible with the known versions"
        yield from (f"  {line}" for line in (forced.conflict.lines() if forced.conflict else ()))
    else:
        loss = "" if forced.points is None else f", at a loss of {forced.points:.3f} points"
        if forced.level is not None and forced.points is not None and forced.points <= 0:
            loss = f", with a worse score in {forced.level}, which comes first"
        losses = [it for it in forced.losses if round(it.points, 3)]
        yield f"{forced.what}: possible{loss}"
        yield from (f"  {loss.criterion}: {-loss.points:+.3f} points" for loss in losses)
        yield from (f"  {change_text(change)}" for change in forced.changes)
        yield from (f"  {text}" for text in forced.measured)
    if forced.outcome is not ForcedOutcome.CONFLICT and forced.problem is not None:
        yield f"  {forced.problem}"


def change_text(change: ForcedVersion) -> str:
    """``click 8.1 instead of 8.2``."""
    if change.forced is None:
        return f"{change.name} {change.advised} is removed"
    if change.advised is None:
        return f"{change.name} {change.forced} is added"
    return f"{change.name} {change.forced} instead of {change.advised}"
