"""Snapshots and universes made in memory: of a metadata dump, of a case file, of a dictionary."""

import gzip
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from graph.snapshot_reader import PackageRecord, RequestedPackage, freeze, walk
from model.packages.candidate_builder import VersionRecord, roots_of
from model.packages.candidates import Dependency, KnownVulnerability
from model.packages.environments import Environment, environment
from model.packages.identity import Purl, package_version
from model.packages.releases import ReleaseState, parse_requirement
from model.packages.snapshot import Snapshot

Record = Mapping[str, Any]

#: Case files and tests mean this one.
ENVIRONMENT = environment("3.11.7", "manylinux_2_36_x86_64")

#: Releases by name and version.
Index = Mapping[str, Mapping[str, Record]]


def version_record(name: str, version: str, release: Record) -> list[Any]:
    """A version as the graph's question about a layer gives it."""
    index, requires = release.get("index", "pypi"), release.get("requires", [])
    wheels = release.get("wheels")
    properties = {
        "purl": package_version(name, version, index).purl,
        "version": version,
        "index_name": index,
        "state": _state(release).value,
        "requires_python": release.get("requires_python"),
        "yanked": release.get("yanked", False),
        "uploaded_at": release.get("uploaded_at"),
        "wheels": ["py3-none-any"] if wheels is None else wheels,
        "has_sdist": release.get("sdist", False),
        "files_complete": release.get("files_complete", True),
        "extras": sorted(
            {extra for raw in requires or () for extra in parse_requirement(raw).for_extras}
            | set(release.get("extras", ()))
        ),
        "requires": [_edge(raw) for raw in requires or ()],
        "metadata_source": release.get("metadata_source"),
    }
    return [properties.get(field) for field in VersionRecord._fields]


def _state(release: Record) -> ReleaseState:
    if release.get("unread"):
        return ReleaseState.UNREAD
    unsolvable = release.get("requires", []) is None
    return ReleaseState.UNSOLVABLE if unsolvable else ReleaseState.SOLVED


def _edge(raw: str) -> list[Any]:
    it = parse_requirement(raw)
    return [it.name, it.specifier, it.marker, list(it.extras), it.url, it.problem]


def snapshot_of(index: Index, roots: Iterable[str], where: Environment = ENVIRONMENT) -> Snapshot:
    """The closure of ``roots`` in an index, as the graph would give it.

    A release has ``requires``, and may have ``unread``, ``yanked``, ``requires_python``,
    ``wheels``, ``index``, ``uploaded_at``; the key ``2.0 other`` is version 2.0 on an index of
    that name.
    """

    def read(wanted: Sequence[RequestedPackage]) -> list[PackageRecord]:
        return [
            PackageRecord(name, "", [_version(name, *it) for it in index[name].items()])
            for name, _ in wanted
            if name in index
        ]

    dependencies = roots_of(roots, where)
    return freeze(walk(read, dependencies, where), {}, dependencies, where)


def _version(name: str, key: str, release: Record) -> list[Any]:
    version, _, source = key.partition(" ")
    return version_record(name, version, {**release, "index": source or "pypi"})


def with_vulnerabilities(snapshot: Snapshot, known: Mapping[str, str]) -> Snapshot:
    """The snapshot, in which releases such as ``web==2`` have vulnerabilities of high severity.

    :param known: identifiers of vulnerabilities, separated by spaces, by release
    """
    packages = {
        name: tuple(
            replace(
                it,
                vulnerabilities=tuple(
                    KnownVulnerability(one, "high")
                    for one in known.get(f"{name}=={it.version}", "").split()
                ),
            )
            for it in candidates
        )
        for name, candidates in snapshot.packages.items()
    }
    return replace(snapshot, packages=packages)


def dependency(raw: str) -> Dependency:
    """A requirement without a marker, as requests have them."""
    parsed = parse_requirement(raw)
    assert parsed.name
    return Dependency(parsed.name, parsed.specifier, parsed.extras)


def dump_index(path: Path) -> dict[str, dict[str, Record]]:
    """The releases of a metadata dump in JSON lines."""
    index: dict[str, dict[str, Record]] = {}
    with gzip.open(path) as lines:
        for line in lines:
            row = json.loads(line)
            fits = row["wheel_cp311_linux_x86_64"]
            version = package_version(row["name"], row["version"]).version
            index.setdefault(row["name"], {})[version] = {
                "requires": row["requires_dist"],
                "requires_python": row["requires_python"],
                "extras": row["provides_extra"],
                "yanked": row["yanked"],
                "wheels": ["py3-none-any"] if fits else [],
                "sdist": row["sdist"],
                "uploaded_at": row["upload_time"],
            }
    return index


def newest_scores(snapshot: Snapshot) -> dict[Purl, tuple[int, ...]]:
    """A score that wants the newest: each version passed over costs 1,000, by one criterion."""
    return {
        it.purl: (-1000 * place,)
        for candidates in snapshot.packages.values()
        for place, it in enumerate(candidates)
    }


def moment(text: str | None) -> datetime | None:
    """A time of a case file."""
    return None if text is None else datetime.fromisoformat(text)


def synthetic_index(
    packages: int, versions: int, *, era: int = 6, seed: int = 1
) -> tuple[dict[str, dict[str, Record]], list[str]]:
    """An index whose releases grew up together, and roots: some stack always exists.

    Version ``n`` of a package requires about four others, each in a window around the
    ``n``-th of theirs, six in ten of them open upwards; so newer is mostly, and not always,
    compatible.

    :param era: how many releases in a row have the same requirements
    """
    draw = random.Random(seed)
    names = [f"package-{number:03d}" for number in range(packages)]
    index: dict[str, dict[str, Record]] = {}
    for number, name in enumerate(names):
        needs = draw.sample(names[number + 1 :], min(4, packages - number - 1))
        capped = [draw.random() < 0.4 for _ in needs]
        index[name] = {}
        for version in range(1, versions + 1):
            if version % era == 1 % era:
                requires = [
                    _window(draw, need, version, min(versions, version + era - 1), cap)
                    for need, cap in zip(needs, capped, strict=True)
                ]
            index[name][f"{version}.0"] = {"requires": requires}
    return index, names[: max(1, packages // 10)]


def _window(draw: random.Random, name: str, first: int, last: int, cap: bool) -> str:
    low, high = max(1, first - draw.randint(0, 12)), last + draw.randint(0, 12)
    return f"{name}>={low}" + (f",<={high}" if cap else "")


def drawn_scores(snapshot: Snapshot, seed: int = 1) -> dict[Purl, tuple[int, ...]]:
    """Scores by two criteria: the newer the better, and something that goes its own way."""
    draw = random.Random(seed)
    return {
        it.purl: (-100 * place, draw.randint(-2000, 0))
        for candidates in snapshot.packages.values()
        for place, it in enumerate(candidates)
    }
