"""``thoth analyze``: native libraries that wheels need and systems provide."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from cli.console import print_field, print_graph_state, print_json
from cli.options import CommandGroup, as_json_option
from common.settings import Settings
from graph.record.native import MissingInterface
from ingest.native.environments import analyze_host, analyze_image
from ingest.native.file_trees import is_there
from ingest.native.wheels import (
    InterfaceDifference,
    RecordedAnalysis,
    analyze_wheel,
    differences,
    fetched_wheel,
    parse_pin,
    record_analysis,
)
from model.packages.environments import environment
from model.packages.native_libraries import (
    Analysis,
    EnvironmentAnalysis,
    Interface,
    WheelAnalysis,
    highest_versions,
)
from model.packages.wheels import glibc_floor
from model.text import printable

_INGEST = click.option("--ingest", is_flag=True, help="Store the analysis in PostgreSQL.")
_NAME = click.option("--name", metavar="NAME", help="Name of the stored analysis.")
_INDEX = click.option("--index", metavar="INDEX", help="Index that serves the wheel.")


@click.group(cls=CommandGroup)
def analyze() -> None:
    """Show the native libraries that wheels need and that systems provide."""


@analyze.command()
@click.argument("wheel", metavar="FILE|NAME==VERSION")
@_INDEX
@click.option("--python", metavar="VERSION", help="Python version of the wheel, such as 3.12.")
@click.option(
    "--platform", metavar="TAG", help="Platform tag of the wheel, such as manylinux_2_28_x86_64."
)
@as_json_option
@_INGEST
@click.pass_context
def wheel(
    context: click.Context, wheel: str, index: str | None, python: str | None,
    platform: str | None, as_json: bool, ingest: bool,
) -> None:  # fmt: skip
    """Show the native libraries that a wheel needs.

    The command also shows the libraries that the wheel bundles, and its importable modules. For
    NAME==VERSION, the command reads the wheel that an installer would choose on this machine, or
    for the given --python and --platform. No code of the wheel is run. Exit code 1 if a library in
    the wheel is broken.
    """
    settings: Settings = context.obj
    if is_there(wheel) or wheel.endswith(".whl"):
        if python or platform:
            raise click.UsageError("--python and --platform choose among the wheels of an index")
        analysis = analyze_wheel(Path(wheel), index=index)
        source = str(Path(wheel).absolute())
    else:
        named, target = parse_pin(wheel), environment(python, platform)
        with fetched_wheel(settings, named, index, target) as (path, served_by):
            analysis = analyze_wheel(path, index=served_by)
        source = f"{wheel} ({analysis.package.index})"
    _finish(context, analysis, source, as_json=as_json, ingest=ingest)


@analyze.command()
@_NAME
@as_json_option
@_INGEST
@click.pass_context
def host(context: click.Context, name: str | None, as_json: bool, ingest: bool) -> None:
    """Show the native libraries that this machine provides."""
    _finish(context, analyze_host(name), "this machine", as_json=as_json, ingest=ingest)


@analyze.command()
@click.argument("image", metavar="PATH")
@_NAME
@as_json_option
@_INGEST
@click.pass_context
def image(
    context: click.Context, image: str, name: str | None, as_json: bool, ingest: bool
) -> None:
    """Show the native libraries that an image provides.

    PATH is a root folder, an OCI layout (folder or tar), or a file that podman or docker wrote with
    `save` or `export`, compressed or not. Nothing is downloaded, and no program in it is run.
    """
    source = str(Path(image).absolute())
    _finish(context, analyze_image(image, name), source, as_json=as_json, ingest=ingest)


@analyze.command()
@click.argument("wheel", metavar="SHA256|PURL|NAME==VERSION")
@click.option(
    "--on", "where", required=True, metavar="NAME|DIGEST", help="Analysed machine or image."
)
@_INDEX
@as_json_option
@click.pass_context
def missing(
    context: click.Context, wheel: str, where: str, index: str | None, as_json: bool
) -> None:
    """Show the libraries that a wheel needs and a system lacks.

    First store the analyses of the wheel and of the system with --ingest. The command also names
    packages whose stored wheels bundle a missing library, because they may be in the same stack.
    Exit code 1 if a library is missing.
    """
    settings: Settings = context.obj
    compared = differences(settings, wheel, where, index)
    print_differences(compared, as_json=as_json)
    if any(it.missing or it.architectures for it in compared):
        context.exit(1)


def _finish(
    context: click.Context, analysis: Analysis, source: str, *, as_json: bool, ingest: bool
) -> None:
    settings: Settings = context.obj
    recorded = record_analysis(settings, analysis, source) if ingest else None
    print_analysis(analysis, recorded, as_json=as_json)
    if analysis.skipped:
        context.exit(1)


def print_analysis(analysis: Analysis, recorded: RecordedAnalysis | None, *, as_json: bool) -> None:
    """Print an analysis, and whether it is new in PostgreSQL."""
    if as_json:
        print_json(_analysis_json(analysis, recorded))
        return
    if isinstance(analysis, WheelAnalysis):
        _print_wheel(analysis)
    else:
        _print_environment(analysis)
    for file in analysis.skipped:
        print_field("broken", printable(f"{file.path}: {file.message}"), err=True)
    if recorded is not None:
        print_field("record", "new" if recorded.new else "already known")
        print_graph_state(None, recorded.graph_error)


def print_differences(differences: list[InterfaceDifference], *, as_json: bool) -> None:
    """Print the libraries that each wheel needs and the environment lacks."""
    if as_json:
        print_json([_difference_json(each) for each in differences])
        return
    for difference in differences:
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
        by_library: dict[str, list[MissingInterface]] = defaultdict(list)
        for interface in difference.missing:
            by_library[interface.library].append(interface)
        for library, lacking in by_library.items():
            versions = " ".join(it.version or "" for it in lacking)
            message = (
                "missing" if any(it.version is None for it in lacking) else f"lacks {versions}"
            )
            packages = ", ".join(lacking[0].brought_by)
            by = f"; {packages} bundles it" if packages else ""
            click.echo(f"  {printable(library)}: {printable(message)}{by}")


def _print_wheel(analysis: WheelAnalysis) -> None:
    print_field("wheel", analysis.filename)
    print_field("package", analysis.package.purl)
    print_field("sha256", analysis.sha256)
    print_field("imports", _listed(analysis.imports))
    print_field("libraries", str(len(analysis.libraries)))
    print_field("bundled", _listed(analysis.bundled))
    _print_interfaces("needs", analysis.needs)
    highest = highest_versions(analysis.needs)
    if highest:
        print_field("highest", ", ".join(f"{name} {version}" for name, version in highest.items()))
    _print_promise(analysis)


def _print_promise(analysis: WheelAnalysis) -> None:
    """Print whether the libraries are compatible with the platform tag in the file name."""
    floor = glibc_floor(analysis.tags)
    needed = highest_versions(analysis.needs).get("GLIBC")
    if floor is None or needed is None:
        return
    numbers = tuple(map(int, needed.split(".")))
    promise = ".".join(map(str, floor))
    kept = "no more than" if numbers <= floor else "MORE than"
    print_field("promise", f"needs {kept} glibc {promise}, which its name states")


def _print_environment(analysis: EnvironmentAnalysis) -> None:
    system = " ".join(filter(None, (analysis.os_name, analysis.os_version))) or "unknown"
    print_field(analysis.kind.value, printable(analysis.name))
    print_field("system", f"{printable(system)}, {printable(analysis.architecture)}")
    print_field("digest", analysis.digest)
    libraries = {it.library for it in analysis.provides}
    versions = sum(bool(it.version) for it in analysis.provides)
    print_field("provides", f"{len(libraries)} libraries, {versions} versions of their symbols")
    # A system has a hundred families of symbol versions; wheels need only these.
    usual = ("CUDA", "CXXABI", "GCC", "GLIBC", "GLIBCXX", "GOMP")
    highest = highest_versions(analysis.provides)
    shown = [f"{name} {highest[name]}" for name in usual if name in highest]
    print_field("highest", ", ".join(shown) or "none")


def _print_interfaces(heading: str, interfaces: Iterable[Interface]) -> None:
    versions: dict[str, list[str]] = defaultdict(list)
    for interface in interfaces:
        versions[interface.library] += filter(None, [interface.version])
    if not versions:
        print_field(heading, "no native library")
    for library, symbol_versions in versions.items():
        print_field(
            heading, f"{printable(library)}  {printable(' '.join(symbol_versions))}".rstrip()
        )
        heading = ""


def _listed(names: tuple[str, ...]) -> str:
    return printable(" ".join(names)) or "none"


def _analysis_json(analysis: Analysis, recorded: RecordedAnalysis | None) -> dict[str, Any]:
    interfaces = analysis.needs if isinstance(analysis, WheelAnalysis) else analysis.provides
    document: dict[str, Any] = {
        "document_id": analysis.document_id,
        **json.loads(analysis.body),
        "highest": highest_versions(interfaces),
    }
    if isinstance(analysis, EnvironmentAnalysis):
        document["digest"] = analysis.digest
    else:
        document["purl"] = analysis.package.purl
    if recorded is not None:
        error = recorded.graph_error
        document["recorded"] = {"new": recorded.new, "graph_error": str(error) if error else None}
    return document


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
                "interface": interface.interface,
                "library": interface.library,
                "version": interface.version,
                "brought_by": list(interface.brought_by),
            }
            for interface in difference.missing
        ],
    }
