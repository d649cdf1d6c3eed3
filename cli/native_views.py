"""Analyses and differences for people and for scripts."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import click

from common.native_interfaces import (
    Analysis,
    EnvironmentAnalysis,
    Interface,
    UnreadableLibrary,
    WheelAnalysis,
    highest_versions,
)
from common.terminal import printable
from common.wheels import glibc_floor
from graph.queries.native import MissingInterface
from ingest.native.recording import Difference, Recorded


def print_analysis(analysis: Analysis, recorded: Recorded | None, *, as_json: bool) -> None:
    """What was found, and what became of it."""
    if as_json:
        click.echo(json.dumps(_analysis_json(analysis, recorded), indent=2))
        return
    if isinstance(analysis, WheelAnalysis):
        _print_wheel(analysis)
    else:
        _print_environment(analysis)
    _print_skipped(analysis.skipped)
    if recorded is not None:
        _line("record", "new" if recorded.new else "already known")
        if recorded.graph_error is not None:
            click.echo(f"graph         behind: {recorded.graph_error}", err=True)


def print_differences(found: list[Difference], *, as_json: bool) -> None:
    """What each wheel needs and the environment does not provide."""
    if as_json:
        click.echo(json.dumps([_difference_json(it) for it in found], indent=2))
        return
    for difference in found:
        where = f"{difference.environment.name} ({difference.environment.digest[:19]}…)"
        if difference.architectures:
            machines = ", ".join(difference.architectures)
            click.echo(
                f"{difference.artifact.filename} is for {machines}, {where} is "
                f"{difference.environment.architecture}"
            )
        elif not difference.missing:
            click.echo(f"{where} provides all that {difference.artifact.filename} needs")
        else:
            click.echo(f"{difference.artifact.filename} needs what {where} does not provide:")
        _print_missing(difference.missing)


def _print_missing(missing: Iterable[MissingInterface]) -> None:
    """A line a library: the versions that it lacks, or that there is none of it."""
    by_library: dict[str, list[MissingInterface]] = defaultdict(list)
    for interface in missing:
        by_library[interface.library].append(interface)
    for library, lacking in by_library.items():
        versions = " ".join(it.version or "" for it in lacking)
        words = "not there" if any(it.version is None for it in lacking) else f"lacks {versions}"
        packages = ", ".join(lacking[0].brought_by)
        by = f"; {packages} brings it along" if packages else ""
        click.echo(f"  {printable(library)}: {printable(words)}{by}")


def _print_wheel(analysis: WheelAnalysis) -> None:
    _line("wheel", analysis.filename)
    _line("package", analysis.package.purl)
    _line("sha256", analysis.sha256)
    _line("imports", _listed(analysis.imports))
    _line("libraries", str(len(analysis.libraries)))
    _line("bundled", _listed(analysis.bundled))
    _print_interfaces("needs", analysis.needs)
    _print_highest(analysis.needs)
    _print_promise(analysis)


def _print_promise(analysis: WheelAnalysis) -> None:
    """Whether the libraries keep what the file's name promises."""
    floor = glibc_floor(analysis.tags)
    needed = highest_versions(analysis.needs).get("GLIBC")
    if floor is None or needed is None:
        return
    numbers = tuple(map(int, needed.split(".")))
    promise = ".".join(map(str, floor))
    kept = "no more than" if numbers <= floor else "MORE than"
    _line("promise", f"needs {kept} the glibc {promise} of its name")


def _print_environment(analysis: EnvironmentAnalysis) -> None:
    system = " ".join(filter(None, (analysis.os_name, analysis.os_version))) or "unknown"
    _line(analysis.kind.value, printable(analysis.name))
    _line("system", f"{printable(system)}, {printable(analysis.architecture)}")
    _line("digest", analysis.digest)
    libraries = {it.library for it in analysis.provides}
    versions = sum(bool(it.version) for it in analysis.provides)
    _line("provides", f"{len(libraries)} libraries, {versions} versions of their symbols")
    # A system has a hundred families of symbols; wheels of others ask for these.
    usual = ("CUDA", "CXXABI", "GCC", "GLIBC", "GLIBCXX", "GOMP")
    highest = highest_versions(analysis.provides)
    shown = [f"{name} {highest[name]}" for name in usual if name in highest]
    _line("highest", ", ".join(shown) or "none")


def _print_interfaces(heading: str, interfaces: Iterable[Interface]) -> None:
    versions: dict[str, list[str]] = defaultdict(list)
    for interface in interfaces:
        versions[interface.library] += filter(None, [interface.version])
    if not versions:
        _line(heading, "no native library")
    for library, some in versions.items():
        _line(heading, f"{printable(library)}  {printable(' '.join(some))}".rstrip())
        heading = ""


def _print_highest(interfaces: Iterable[Interface]) -> None:
    highest = highest_versions(interfaces)
    if highest:
        _line("highest", ", ".join(f"{name} {version}" for name, version in highest.items()))


def _print_skipped(skipped: Iterable[UnreadableLibrary]) -> None:
    for file in skipped:
        words = f"{file.path}: {file.message}"
        click.echo(f"{'broken':<14}{printable(words)}", err=True)


def _listed(names: tuple[str, ...]) -> str:
    return printable(" ".join(names)) or "none"


def _line(heading: str, words: str) -> None:
    click.echo(f"{heading:<14}{words}")


def _analysis_json(analysis: Analysis, recorded: Recorded | None) -> dict[str, Any]:
    interfaces = analysis.needs if isinstance(analysis, WheelAnalysis) else analysis.provides
    found: dict[str, Any] = {
        "document_id": analysis.document_id,
        **json.loads(analysis.body),
        "highest": highest_versions(interfaces),
    }
    if isinstance(analysis, EnvironmentAnalysis):
        found["digest"] = analysis.digest
    else:
        found["purl"] = analysis.package.purl
    if recorded is not None:
        error = recorded.graph_error
        found["recorded"] = {"new": recorded.new, "graph_error": str(error) if error else None}
    return found


def _difference_json(difference: Difference) -> dict[str, Any]:
    return {
        "sha256": difference.artifact.sha256,
        "filename": difference.artifact.filename,
        "purl": difference.artifact.purl,
        "environment": difference.environment.name,
        "digest": difference.environment.digest,
        "other_architecture": list(difference.architectures),
        "missing": [
            {
                "interface": it.interface,
                "library": it.library,
                "version": it.version,
                "brought_by": list(it.brought_by),
            }
            for it in difference.missing
        ],
    }
