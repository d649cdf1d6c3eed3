"""Packages: their releases, what was measured of them, and their vulnerabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flask import Response, request

from api.pages.api_client import read, read_if_any
from api.pages.groups import group_views
from api.pages.site import Pages, next_page, render

blueprint = Pages("packages", __name__)


@blueprint.get("/packages")
def packages() -> Response:
    """All packages that the store knows, by name."""
    listed = read("/api/v2/packages", **request.args)
    return render(
        "packages.html", listed, packages=listed["items"], following=next_page(listed),
        selected=request.args,
    )  # fmt: skip


@blueprint.get("/packages/<name>")
def package(name: str) -> Response:
    """One package."""
    known = read(f"/api/v2/packages/{name}")
    versions = read(f"/api/v2/packages/{name}/versions", limit=50, after=request.args.get("after"))
    modules = read(f"/api/v2/packages/{name}/modules")
    changes = read("/api/v2/changes", package=name, limit=20)
    groups = read("/api/v2/comparison-groups", package=name)
    vulnerabilities = read("/api/v2/vulnerabilities", package=name, withdrawn="false", limit=20)
    return render(
        "package.html", known, versions, modules, changes, groups, vulnerabilities,
        package=known.body, modules=modules.body,
        versions=versions["items"], following=next_page(versions), changes=changes["items"],
        groups=group_views(groups["items"]), effects=_effects(groups["items"], known["name"]),
        vulnerabilities=vulnerabilities["items"], more_vulnerabilities=vulnerabilities["next"],
    )  # fmt: skip


def _effects(
    groups: Iterable[Mapping[str, Any]], name: str
) -> list[tuple[Mapping[str, Any], dict[str, Mapping[str, Any]]]]:
    """Each group with the fastest stack of each measured version of the package."""
    columns = []
    for group in groups:
        by_version: dict[str, Mapping[str, Any]] = {}
        for stack in group["stacks"]:
            if stack["component"] == name and stack["component_version"]:
                by_version.setdefault(stack["component_version"], stack)
        if len(by_version) > 1:
            columns.append((group, by_version))
    return columns


@blueprint.get("/packages/<name>/versions/<version>")
def version(name: str, version: str) -> Response:
    """One release of a package."""
    address = f"/api/v2/packages/{name}/versions/{version}"
    release = read(address)
    vulnerabilities = read(f"{address}/vulnerabilities")
    files = read_if_any(f"{address}/files")
    return render(
        "version.html", *filter(None, (release, vulnerabilities, files)), release=release.body,
        vulnerabilities=vulnerabilities["items"], files=files["items"] if files else [],
    )  # fmt: skip
