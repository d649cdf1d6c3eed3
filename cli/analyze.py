"""``thoth analyze``: what wheels need of a system, and what systems provide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from common.settings import Settings

if TYPE_CHECKING:
    from common.native_interfaces import Analysis, WheelAnalysis

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
    from ingest.native.trees import is_there

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
    from ingest.native.downloads import fetched_wheel, pinned
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
    from ingest.native.trees import is_there

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
    from cli.native_views import print_differences
    from ingest.native.recording import differences

    settings: Settings = context.obj
    found = differences(settings, wheel, where, index)
    print_differences(found, as_json=as_json)
    if any(it.missing or it.architectures for it in found):
        context.exit(1)


def _finish(
    context: click.Context, analysis: Analysis, source: str, *, as_json: bool, ingest: bool
) -> None:
    from cli.native_views import print_analysis
    from ingest.native.recording import record_analysis

    settings: Settings = context.obj
    recorded = record_analysis(settings, analysis, source) if ingest else None
    print_analysis(analysis, recorded, as_json=as_json)
    if analysis.skipped:
        context.exit(1)
