"""Writes and parses analysis documents: canonical JSON, identified by its digest."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from model.errors import InvalidDocument, Reason
from model.json_documents import canonical_json, digest, digest_bytes, fault_in
from model.measurements.inspection import DocumentId
from model.packages.identity import package_version
from model.packages.native_libraries import (
    ANALYSIS_SCHEMA,
    Analysis,
    EnvironmentAnalysis,
    EnvironmentKind,
    Interface,
    NativeLibrary,
    UnreadableLibrary,
    WheelAnalysis,
)
from model.packages.wheels import Wheel


@dataclass(frozen=True, slots=True)
class WheelContent:
    """The unsorted content of a :class:`model.packages.native_libraries.WheelAnalysis`."""

    imports: Iterable[str]
    bundled: Iterable[str]
    needs: Iterable[Interface]
    libraries: Iterable[NativeLibrary]
    skipped: Iterable[UnreadableLibrary]


def wheel_analysis(
    wheel: Wheel, index: str | None, sha256: str, content: WheelContent
) -> WheelAnalysis:
    """Return the analysis of a wheel with its document."""
    package = package_version(wheel.name, wheel.version, index)
    imports, bundled = tuple(sorted(content.imports)), tuple(sorted(content.bundled))
    needs = tuple(sorted(content.needs))
    libraries = tuple(sorted(content.libraries, key=lambda library: library.path))
    skipped = tuple(sorted(content.skipped, key=lambda it: it.path))
    body = canonical_json(
        {
            "schema_version": ANALYSIS_SCHEMA,
            "kind": "wheel",
            "name": package.name,
            "version": package.version,
            "index": package.index,
            "sha256": sha256,
            "filename": wheel.filename,
            "tags": wheel.tags,
            "imports": imports,
            "bundled": bundled,
            "needs": _by_library(needs),
            "libraries": [_library(library) for library in libraries],
            "skipped": _skipped(skipped),
        }
    )
    return WheelAnalysis(
        sha256, wheel.filename, package, wheel.tags, imports, bundled, needs, libraries, skipped,
        DocumentId(digest_bytes(body)), body,
    )  # fmt: skip


def environment_analysis(
    *,
    kind: EnvironmentKind,
    name: str,
    architecture: str,
    os_release: tuple[str | None, str | None],
    provides: Iterable[Interface],
    skipped: Iterable[UnreadableLibrary],
) -> EnvironmentAnalysis:
    """Return the analysis of a machine or an image with its document."""
    interfaces = tuple(sorted(set(provides)))
    left_out = tuple(sorted(skipped, key=lambda it: it.path))
    content = {
        "schema_version": ANALYSIS_SCHEMA,
        "kind": kind.value,
        "name": name,
        "architecture": architecture,
        "os_name": os_release[0],
        "os_version": os_release[1],
        "provides": _by_library(interfaces),
    }
    body = canonical_json({**content, "skipped": _skipped(left_out)})
    return EnvironmentAnalysis(
        digest(content), kind, name, architecture, *os_release, interfaces, left_out,
        DocumentId(digest_bytes(body)), body,
    )  # fmt: skip


def analysis_of(body: bytes) -> Analysis:
    """Parse an analysis from its document, leaving out libraries and skipped files.

    :raises InvalidDocument: if ``body`` is not an analysis
    """
    try:
        value = orjson.loads(body)
        if value["kind"] == "wheel":
            package = package_version(value["name"], value["version"], value["index"])
            needed = {name for library in value["libraries"] for name in library["needed"]}
            return WheelAnalysis(
                value["sha256"], value["filename"], package, value["tags"],
                tuple(value["imports"]), tuple(value["bundled"]),
                _interfaces(value["needs"], needed), (), (), DocumentId(digest_bytes(body)), body,
            )  # fmt: skip
        content = {key: it for key, it in value.items() if key != "skipped"}
        return EnvironmentAnalysis(
            digest(content), EnvironmentKind(value["kind"]), value["name"], value["architecture"],
            value["os_name"], value["os_version"],
            _interfaces(value["provides"], value["provides"]), (),
            DocumentId(digest_bytes(body)), body,
        )  # fmt: skip
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        message = f"not an analysis: {fault_in(error)}"
        raise InvalidDocument(Reason.UNKNOWN_SCHEMA, message) from error


def _interfaces(by_library: dict[str, list[str]], whole: Collection[str]) -> tuple[Interface, ...]:
    """Undo :func:`_by_library`.

    :param whole: libraries that are interfaces themselves, in addition to their symbol versions
    """
    return tuple(
        Interface(library, version)
        for library, versions in by_library.items()
        for version in (("", *versions) if library in whole else versions or ("",))
    )


def _skipped(files: Iterable[UnreadableLibrary]) -> list[dict[str, str]]:
    return [{"path": it.path, "message": it.message} for it in files]


def _by_library(interfaces: Iterable[Interface]) -> dict[str, list[str]]:
    """Group symbol versions by library; a library without versions has an empty list."""
    by_library: dict[str, list[str]] = {}
    for interface in interfaces:
        versions = by_library.setdefault(interface.library, [])
        if interface.version:
            versions.append(interface.version)
    return by_library


def _library(library: NativeLibrary) -> dict[str, Any]:
    return {
        "path": library.path,
        "soname": library.soname,
        "architecture": library.architecture,
        "needed": list(library.needed),
        "needs": _by_library(library.needs),
        "defines": list(library.defines),
        "search": list(library.search),
    }
