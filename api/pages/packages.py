"""Packages and vulnerabilities: releases, their measurements, and their vulnerabilities."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from flask import Response, request

from adviser.scoring.claim_texts import TitledSeries, differing_settings
from api.pages.site import Pages, next_page, other_url, read, read_if_any, render, render_list
from api.pages.stack_groups import group_views
from model.packages.identity import version_key

#: Series that are read; those of one hardware class are shown.
_GROUPS = 50
blueprint = Pages("packages", __name__)
#: Maximum number of affected releases that are listed.
_MOST = 500


@dataclass(frozen=True, slots=True)
class _EffectColumn:
    """A group as a column: the fastest stack of each measured version of the package.

    :param details: settings that distinguish it from other groups of its indicator
    """

    group: Mapping[str, Any]
    details: Sequence[str]
    stacks: Mapping[str, Mapping[str, Any]]


@blueprint.get("/packages")
def packages() -> Response:
    """All packages that the store knows, by name."""
    return render_list("packages")


@blueprint.get("/packages/<name>")
def package(name: str) -> Response:
    """One package."""
    known = read(f"/api/v2/packages/{name}")
    versions = read(f"/api/v2/packages/{name}/versions", limit=50, after=request.args.get("after"))
    modules = read(f"/api/v2/packages/{name}/modules")
    changes = read("/api/v2/changes", package=name, limit=20)
    # Verdicts depend on all hardware classes together, so that none is left out here.
    groups = read("/api/v2/comparison-groups", package=name, limit=_GROUPS)
    vulnerabilities = read("/api/v2/vulnerabilities", package=name, withdrawn="false", limit=20)
    classes = _classes(groups["items"])
    digest = request.args.get("hardware") or (classes[0]["digest"] if classes else None)
    chosen = [it for it in groups["items"] if it["hardware"]["digest"] == digest]
    return render(
        "package.html", known, versions, modules, changes, groups, vulnerabilities,
        package=known.body, modules=modules.body,
        versions=versions["items"], following=next_page(versions), changes=changes["items"],
        groups=group_views(chosen), more_groups=groups["next"],
        effects=_effect_columns(chosen, known["name"]),
        classes=classes, hardware=digest, other_url=other_url,
        vulnerabilities=vulnerabilities["items"], more_vulnerabilities=vulnerabilities["next"],
    )  # fmt: skip


def _classes(groups: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Hardware classes of groups; classes with the most groups and jobs come first."""
    known: dict[str, Mapping[str, Any]] = {}
    numbers, jobs = Counter[str](), Counter[str]()
    for group in groups:
        digest = group["hardware"]["digest"]
        known.setdefault(digest, group["hardware"])
        numbers[digest] += 1
        jobs[digest] += group["recent"]["observations"]
    return sorted(known.values(), key=lambda it: (-numbers[it["digest"]], -jobs[it["digest"]]))


def _effect_columns(groups: Iterable[Mapping[str, Any]], name: str) -> list[_EffectColumn]:
    """The groups with several measured versions of a package, by indicator and parameters.

    :param groups: of one hardware class
    """
    compared = []
    for group in groups:
        by_version: dict[str, Mapping[str, Any]] = {}
        for stack in group["stacks"]:
            if stack["component"] == name and stack["component_version"]:
                by_version.setdefault(stack["component_version"], stack)
        if len(by_version) > 1:
            compared.append((group, by_version))
    compared.sort(key=lambda it: _order(it[0]))
    details = differing_settings(
        [
            TitledSeries(
                group["indicator"], None, group["hardware"]["digest"],
                {**group["parameters"], "device": group["device"],
                 "Python": group["python_version"], "script": (group["script_sha256"] or "")[:8]},
            )
            for group, _ in compared
        ]
    )  # fmt: skip
    return [
        _EffectColumn(group, settings, stacks)
        for (group, stacks), settings in zip(compared, details, strict=True)
    ]


def _order(group: Mapping[str, Any]) -> tuple[str, list[tuple[str, float, str]]]:
    """Numbers are ordered by their value."""
    parameters = sorted(group["parameters"].items())
    return group["indicator"], [
        (name, value, "") if isinstance(value, int | float) else (name, math.inf, str(value))
        for name, value in parameters
    ]


@blueprint.get("/packages/<name>/versions/<version>")
def version(name: str, version: str) -> Response:
    """One release of a package."""
    address = f"/api/v2/packages/{name}/versions/{version}"
    release = read(address)
    vulnerabilities = read(f"{address}/vulnerabilities")
    files = read_if_any(f"{address}/files")
    return render(
        "version.html", release, vulnerabilities, files, release=release.body,
        vulnerabilities=vulnerabilities["items"], files=files["items"] if files else [],
    )  # fmt: skip


@blueprint.get("/vulnerabilities/<identifier>")
def vulnerability(identifier: str) -> Response:
    """One vulnerability with its advisories, affected releases and stacks."""
    known = read(f"/api/v2/vulnerabilities/{quote(identifier)}")
    name = known["vulnerability_id"]
    versions = read(f"/api/v2/vulnerabilities/{quote(name)}/versions", limit=_MOST)
    stacks = read("/api/v2/stacks", vulnerability=name, after=request.args.get("after"))
    releases: dict[str, list[str]] = defaultdict(list)
    for it in versions["items"]:
        releases[it["name"]].append(it["version"])
    return render(
        "vulnerability.html", known, versions, stacks, vulnerability=known.body,
        releases={name: sorted(it, key=version_key) for name, it in releases.items()},
        more_versions=versions["next"], stacks=stacks["items"], following=next_page(stacks),
    )  # fmt: skip
