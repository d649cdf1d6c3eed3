"""Chooses comparisons of a pack to measure again, and compares both effects; does no I/O."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from random import Random
from typing import Any

from adviser.monkey.documents import NotInstallable, python_part
from adviser.packs.manifest import PackManifest
from adviser.scoring.comparisons import Comparison
from adviser.stack_comparison import StackGroup, StackResult, compare_stacks
from common.formats.locks.entries import LockEntry
from model.measurements.evidence import MeasuredObservation
from model.packages.identity import PackageVersion, changes_between, same_version
from pis.amun.locks import Lock


@dataclass(frozen=True, slots=True)
class PackCell:
    """A stack of a pack, compared with the baseline of its series."""

    group: StackGroup
    stack: StackResult
    comparison: Comparison


def chosen_cells(
    groups: Iterable[StackGroup], hardware: str, number: int | None, seed: str
) -> list[PackCell]:
    """Randomly chosen cells on a hardware class, from as many indicators as possible.

    :param number: ``None`` for all
    :param seed: equal seeds give equal cells
    """
    by_indicator: dict[str, list[PackCell]] = defaultdict(list)
    for group in groups:
        by_indicator[group.indicator] += [
            PackCell(group, stack, stack.comparison)
            for stack in group.stacks
            if group.hardware_digest == hardware
            and stack.comparison is not None
            and math.isfinite(stack.comparison.standard_error)
        ]
    chance = Random(seed)  # noqa: S311 - no secret
    mixed = [chance.sample(cells, len(cells)) for _, cells in sorted(by_indicator.items())]
    chance.shuffle(mixed)
    in_turn = chain.from_iterable(zip_longest(*mixed))
    return [it for it in in_turn if it is not None][:number]


def groups_between(
    observed: Sequence[MeasuredObservation], old: Mapping[str, str], new: Mapping[str, str]
) -> Iterator[StackGroup]:
    """The series with both versions of a package that changes, each with two stacks.

    The baseline has the old version. The most similar stack with the new version is compared.

    :param old: version by name
    """
    series: dict[str, set[tuple[str, str | None]]] = defaultdict(set)
    stacks: dict[str, dict[str, str]] = {}
    for row in observed:
        series[row.reading.stack].add((row.series.comparison_key, row.series.python_version))
        stacks[row.reading.stack] = {it.name: it.version for it in row.packages}
    for change in changes_between(old, new):
        if change.old is None or change.new is None:
            continue
        theirs, ours = (
            [it for it in sorted(stacks) if same_version(stacks[it].get(change.name), version)]
            for version in (change.old, change.new)
        )
        for base in theirs:
            several = [it for it in ours if series[it] & series[base]]
            if not several:
                continue
            nearest = min(several, key=lambda it: len(changes_between(stacks[base], stacks[it])))
            shared = series[base] & series[nearest]
            keys = {key for key, _ in shared}
            alike = (it for it in observed if it.series.comparison_key in keys)
            for group in compare_stacks(alike, base, required=False):
                if (group.comparison_key, group.python_version) in shared:
                    pair = tuple(it for it in group.stacks if it.stack_digest == nearest)
                    yield replace(group, stacks=pair)


def specification_again(
    manifest: PackManifest,
    packages: Iterable[PackageVersion],
    indicator: str,
    parameters: Mapping[str, Any],
    python: str | None,
) -> dict[str, Any]:
    """The specification that measures a stack of a pack, with the hashes of its wheels.

    :raises NotInstallable: if the pack has no hash of a package
    """
    hashes = {it.purl: tuple(f"sha256:{sha256}" for sha256 in it.sha256) for it in manifest.wheels}
    entries = []
    for package in packages:
        name, version, purl = package.name, package.version, package.purl
        if not hashes.get(purl):
            raise NotInstallable(f"the pack has no hash of {name} {version}")
        entries.append(LockEntry(name, version, hashes[purl], None, package.index))
    part = python_part(Lock(tuple(entries), python), ())
    return {"script": indicator, "parameters": dict(parameters), "python": part}


def agrees(packed: Comparison, own: Comparison) -> bool:
    """Whether two effects differ by no more than both 95 % intervals together allow."""
    halves = (
        (math.log1p(it.interval_high_pct / 100) - math.log1p(it.interval_low_pct / 100)) / 2
        for it in (packed, own)
    )
    return abs(packed.d - own.d) <= math.hypot(*halves)
