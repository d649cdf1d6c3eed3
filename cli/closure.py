"""``thoth packages closure``: all direct and transitive dependencies, and their candidates."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click
from packaging.specifiers import SpecifierSet
from sqlalchemy import Connection

from cli.console import Column, Table, print_json
from cli.knowledge import catch_up_graph
from cli.options import as_json_option
from common.settings import Settings
from graph.engine import GRAPH
from graph.migrate import migrated_stores
from graph.record.freshness import knows_advisories
from graph.record.indexes import reasons_for_missing
from graph.record.release_queries import unread_of
from graph.snapshot_reader import load_snapshot
from graph.watchdog import watchdog
from model.packages.candidate_builder import roots_of
from model.packages.candidates import Candidate, newest_first
from model.packages.environments import environment
from model.packages.snapshot import Snapshot
from model.text import printable, suggestion


@click.command()
@click.argument("requirements", nargs=-1, required=True, metavar="REQUIREMENT...")
@click.option("--python", metavar="VERSION", help="Python version.  [default: this interpreter's]")
@click.option(
    "--platform",
    metavar="TAG",
    help="Platform, such as manylinux_2_28_x86_64.  [default: this host's]",
)
@click.option("--cuda", metavar="VERSION", help="Newest CUDA version that the driver supports.")
@as_json_option
@click.pass_context
def closure(
    context: click.Context,
    requirements: tuple[str, ...],
    python: str | None,
    platform: str | None,
    cuda: str | None,
    as_json: bool,
) -> None:
    """Show all direct and transitive dependencies of requirements.

    The graph is brought up to date first. Candidates are the versions that the adviser can choose
    from. The number of excluded versions is shown by reason. Exit code 1 if a requirement has no
    candidate.
    """
    settings: Settings = context.obj
    target = environment(python, platform, cuda)
    roots_of(requirements, target)  # refuse malformed requirements before a store is opened
    with migrated_stores(settings) as stores:
        catch_up_graph(stores)
        began = time.perf_counter()
        with watchdog(GRAPH, settings.query_timeout_s * 2):
            snapshot = load_snapshot(stores.driver, requirements, target, database=stores.database)
        elapsed_s = time.perf_counter() - began
        with stores.engine.connect() as connection:
            troubles = reasons_for_missing(connection, snapshot.missing)
            unread = _unread_counts(connection, snapshot.packages)
            known = knows_advisories(connection)
    unmet = _unmet(snapshot)
    if as_json:
        troubles = {**troubles, **unmet}
        print_json(summary(snapshot, elapsed_s, troubles, unread, knows_advisories=known))
    else:
        _print(snapshot, elapsed_s, troubles, unmet)
        _print_unread(unread)
    if not all(meeting(snapshot).values()):
        context.exit(1)


def meeting(snapshot: Snapshot) -> dict[str, int]:
    """Return the number of candidates that meet all requirements, by package.

    Pre-releases and yanked versions count: the resolver decides whether they may be chosen.
    """
    return {name: len(admitted) for name, (_, admitted) in _admitted(snapshot).items()}


def _admitted(snapshot: Snapshot) -> dict[str, tuple[tuple[str, ...], list[Candidate]]]:
    """The required extras and the candidates within all specifiers, by package."""
    admitted: dict[str, tuple[tuple[str, ...], list[Candidate]]] = {}
    for name in dict.fromkeys(root.name for root in snapshot.roots):
        roots = [root for root in snapshot.roots if root.name == name]
        specifier = SpecifierSet(",".join(root.specifier for root in roots if root.specifier))
        extras = tuple(sorted({extra for root in roots for extra in root.extras}))
        candidates = snapshot.packages.get(name, ())
        within = [it for it in candidates if specifier.contains(it.version, prereleases=True)]
        admitted[name] = (extras, within)
    return admitted


def _unmet(snapshot: Snapshot) -> dict[str, str]:
    """Which requirements on known packages no candidate meets, and which extras none has."""
    reasons: dict[str, str] = {}
    for name, (extras, within) in _admitted(snapshot).items():
        if not within and snapshot.packages.get(name):
            reasons[name] = f"no candidate of {name} meets the requirement"
        elif within and (missing := _missing_extras(extras, within)):
            reasons[name] = _missing_extras_text(name, missing, within)
    return reasons


def _missing_extras(extras: Iterable[str], candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """The extras that no candidate has. An unread candidate may have any extra."""
    if any(not it.read for it in candidates):
        return ()
    return tuple(extra for extra in extras if not any(extra in it.extras for it in candidates))


def _missing_extras_text(name: str, missing: Sequence[str], fitting: Sequence[Candidate]) -> str:
    """A message for extras that no version has, with the extras of the newest that has any."""
    newest = newest_first([it for it in fitting if it.extras])
    known = sorted(newest[0].extras) if newest else []
    named = " or ".join(f"{extra!r}{suggestion(extra, known, shown=repr)}" for extra in missing)
    rule = f"no version of {name} has the extra {named}; "
    return rule + (f"there are: {', '.join(known)}" if known else "there is none at all")


def _unread_counts(connection: Connection, names: Collection[str]) -> dict[str, int]:
    """Return the number of versions that indexes list and nobody has read, by package.

    Packages without such versions are left out.
    """
    unread = unread_of(connection, sorted(names))
    counts = {name: sum(map(len, indexes.values())) for name, indexes in unread.items()}
    return {name: count for name, count in sorted(counts.items()) if count}


def _print_unread(counts: Mapping[str, int]) -> None:
    if not counts:
        return
    parts = ", ".join(f"{count} of {printable(name)}" for name, count in counts.items())
    click.echo(f"listed but not read: {parts}; `thoth packages add --max-versions N` reads more")


def summary(
    snapshot: Snapshot,
    elapsed_s: float,
    troubles: Mapping[str, str] = MappingProxyType({}),
    unread: Mapping[str, int] = MappingProxyType({}),
    *,
    knows_advisories: bool = True,
) -> dict[str, Any]:
    """Return the document that ``--json`` prints.

    :param troubles: why packages are missing, as far as known, or meet no requirement
    :param unread: number of versions that are listed and not read, by package
    :param knows_advisories: otherwise vulnerabilities are unknown
    """
    layers, met = _layer_by_name(snapshot), meeting(snapshot)
    return {
        "revision": snapshot.revision,
        "environment": snapshot.environment.label,
        "requirements": [_text(root.name, root.extras, root.specifier) for root in snapshot.roots],
        "packages": [
            {
                "name": name,
                "extras": list(snapshot.extras[name]),
                "layer": layers[name],
                "candidates": [candidate.version for candidate in candidates],
                "unread": unread.get(name, 0),
                "meets": met.get(name),
                "excluded": [
                    {"version": it.version, "index": it.index, "reason": it.reason.value,
                     "message": it.message}
                    for it in snapshot.excluded[name]
                ],
                "vulnerable": sum(bool(it.vulnerabilities) for it in candidates)
                if knows_advisories else None,
                "yanked": sum(candidate.yanked for candidate in candidates),
            }
            for name, candidates in snapshot.packages.items()
        ],
        "missing": list(snapshot.missing),
        "troubles": dict(troubles),
        "unmet": sorted(name for name, count in met.items() if not count),
        "layers": len(snapshot.layers),
        "candidates": snapshot.candidate_count,
        "excluded": dict(sorted(_reasons(snapshot).items())),
        "elapsed_s": round(elapsed_s, 6),
    }  # fmt: skip


def _layer_by_name(snapshot: Snapshot) -> dict[str, int]:
    """Return the distance of each package from the roots, which are in layer 1."""
    return {name: at for at, names in enumerate(snapshot.layers, start=1) for name in names}


def _reasons(snapshot: Snapshot) -> Counter[str]:
    return Counter(it.reason.value for versions in snapshot.excluded.values() for it in versions)


def _text(name: str, extras: tuple[str, ...], specifier: str = "") -> str:
    return f"{name}[{','.join(extras)}]{specifier}" if extras else f"{name}{specifier}"


def _print(
    snapshot: Snapshot, elapsed_s: float, troubles: Mapping[str, str], unmet: Mapping[str, str]
) -> None:
    titles = ("package", "newest", "candidates", "meets", "layer", "excluded")
    numbers = {"candidates", "meets", "layer"}
    table = Table([Column(title, right=title in numbers) for title in titles])
    for row in _rows(snapshot):
        table.add(*row)
    table.print()
    for name in snapshot.missing:
        reason = printable(troubles.get(name, "and nothing is known about it"))
        click.echo(f"missing: {name}, {reason}")
    for name, reason in unmet.items():
        click.echo(f"{'warning' if meeting(snapshot)[name] else 'unmet'}: {printable(reason)}")
    click.echo(_last_line(snapshot, elapsed_s))


def _rows(snapshot: Snapshot) -> list[tuple[str, ...]]:
    layers, met = _layer_by_name(snapshot), meeting(snapshot)
    return [
        (
            _text(name, snapshot.extras[name]),
            candidates[0].version if candidates else "none",
            str(len(candidates)),
            str(met.get(name, "")),
            str(layers[name]),
            _reasons_text(Counter(it.reason.value for it in snapshot.excluded[name])),
        )
        for name, candidates in snapshot.packages.items()
    ]


def _reasons_text(reasons: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))


def _last_line(snapshot: Snapshot, elapsed_s: float) -> str:
    excluded = _reasons(snapshot)
    return (
        f"{len(snapshot.packages)} packages in {len(snapshot.layers)} layers, "
        f"{snapshot.candidate_count} candidates, {excluded.total()} excluded, "
        f"{len(snapshot.missing)} missing; {snapshot.environment.label}; "
        f"{elapsed_s * 1000:.0f} ms; {snapshot.revision}"
    )
