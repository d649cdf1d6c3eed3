"""``thoth analyze``: what wheels need of a system, and what systems provide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from common.settings import Settings

if TYPE_CHECKING:
    from common.native_interfaces import Analysis, WheelAnalysis
import json
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from common.terminal import printable

if TYPE_CHECKING:
    from common.native_interfaces import (
        Analysis,
        EnvironmentAnalysis,
        Interface,
        UnreadableLibrary,
        WheelAnalysis,
    )
    from graph.missing_interfaces import MissingInterface
    from ingest.native.recorded_analyses import InterfaceDifference, RecordedAnalysis


_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_INGEST = click.option("--ingest", is_flag=True, help="Record what was found.")
_NAME = click.option("--name", metavar="NAME", help="What to call it in the record.")
_INDEX = click.option("--index", metavar="INDEX", help="Name of the index that serves it.")


@click.group()
def analyze() -> None:
    """Native libraries: what wheels need, what machines and images provide."""


@analyze.command()
@click.argument("wheel", metavar="FILE|NAME==VERSION")
@_INDEX
@click.option("--python", metavar="VERSION", help="For another Python than this one, as 3.12.")
@click.option("--platform", metavar="TAG", help="For another platform, as manylinux_2_28_x86_64.")
@_JSON
@_INGEST
@click.pass_context
def wheel(
    context: click.Context, wheel: str, index: str | None, python: str | None,
    platform: str | None, as_json: bool, ingest: bool,
) -> None:  # fmt: skip
    """Libraries and symbol versions that a wheel needs, brings along, and its imports.

    Of NAME==VERSION the wheel is read that an installer would take here, or for the Python
    and the platform that are named. Nothing of it is run. Exit code 1 if a library in it
    is broken.
    """
    from ingest.native.file_trees import is_there

    settings: Settings = context.obj
    if is_there(wheel) or wheel.endswith(".whl"):
        from ingest.native.wheels import analyze_wheel

        if python or platform:
            raise click.UsageError("--python and --platform choose among the wheels of an index")
        analysis = analyze_wheel(Path(wheel), index=index)
        source = str(Path(wheel).absolute())
    else:
        analysis = _of_index(settings, wheel, index, (python, platform))
        source = f"{wheel} ({analysis.package.index})"
    _finish(context, analysis, source, as_json=as_json, ingest=ingest)


def _of_index(
    settings: Settings, wanted: str, index: str | None, target: tuple[str | None, str | None]
) -> WheelAnalysis:
    from common.environments import environment
    from ingest.native.wheel_download import fetched_wheel, pinned
    from ingest.native.wheels import analyze_wheel

    named, chosen = pinned(wanted), environment(*target)
    with fetched_wheel(settings, named, index, chosen) as (path, served_by):
        return analyze_wheel(path, index=served_by)


@analyze.command()
@_NAME
@_JSON
@_INGEST
@click.pass_context
def host(context: click.Context, name: str | None, as_json: bool, ingest: bool) -> None:
    """Libraries and symbol versions that this machine provides."""
    from ingest.native.environments import analyze_host

    _finish(context, analyze_host(name), "this machine", as_json=as_json, ingest=ingest)


@analyze.command()
@click.argument("image", metavar="PATH|NAME")
@_NAME
@_JSON
@_INGEST
@click.pass_context
def image(
    context: click.Context, image: str, name: str | None, as_json: bool, ingest: bool
) -> None:
    """Libraries and symbol versions that an image provides.

    PATH is a root folder, an OCI layout (folder or tar), or what podman's or docker's
    `save` or `export` wrote, packed or not. NAME is an image that one of them has here;
    nothing is fetched, and nothing of the image is run.
    """
    from ingest.native.environments import analyze_image
    from ingest.native.file_trees import is_there

    source = str(Path(image).absolute()) if is_there(image) else image
    _finish(context, analyze_image(image, name), source, as_json=as_json, ingest=ingest)


@analyze.command()
@click.argument("wheel", metavar="SHA256|PURL|NAME==VERSION")
@click.option("--on", "where", required=True, metavar="NAME|DIGEST", help="The environment.")
@_INDEX
@_JSON
@click.pass_context
def missing(
    context: click.Context, wheel: str, where: str, index: str | None, as_json: bool
) -> None:
    """What a recorded wheel needs that a recorded machine or image does not provide.

    Exit code 1 if there is anything. Packages of which a recorded wheel brings a missing
    library along are named: they may be in the same stack.
    """
    from ingest.native.recorded_analyses import differences

    settings: Settings = context.obj
    found = differences(settings, wheel, where, index)
    print_differences(found, as_json=as_json)
    if any(it.missing or it.architectures for it in found):
        context.exit(1)


def _finish(
    context: click.Context, analysis: Analysis, source: str, *, as_json: bool, ingest: bool
) -> None:
    from ingest.native.recorded_analyses import record_analysis

    settings: Settings = context.obj
    recorded = record_analysis(settings, analysis, source) if ingest else None
    print_analysis(analysis, recorded, as_json=as_json)
    if analysis.skipped:
        context.exit(1)


def print_analysis(analysis: Analysis, recorded: RecordedAnalysis | None, *, as_json: bool) -> None:
    """What was found, and what became of it."""
    from common.native_interfaces import WheelAnalysis

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


def print_differences(found: list[InterfaceDifference], *, as_json: bool) -> None:
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
    from common.native_interfaces import highest_versions
    from common.wheels import glibc_floor

    floor = glibc_floor(analysis.tags)
    needed = highest_versions(analysis.needs).get("GLIBC")
    if floor is None or needed is None:
        return
    numbers = tuple(map(int, needed.split(".")))
    promise = ".".join(map(str, floor))
    kept = "no more than" if numbers <= floor else "MORE than"
    _line("promise", f"needs {kept} the glibc {promise} of its name")


def _print_environment(analysis: EnvironmentAnalysis) -> None:
    from common.native_interfaces import highest_versions

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
    from common.native_interfaces import highest_versions

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


def _analysis_json(analysis: Analysis, recorded: RecordedAnalysis | None) -> dict[str, Any]:
    from common.native_interfaces import EnvironmentAnalysis, WheelAnalysis, highest_versions

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


def _difference_json(difference: InterfaceDifference) -> dict[str, Any]:
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
