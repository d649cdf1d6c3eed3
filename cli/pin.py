"""``thoth pi pin``: a specification with every package pinned, from a few wishes."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import click

from cli.inspect import UnusableSpecification
from common.packages import DEFAULT_INDEX
from common.settings import Settings

_VERSION = re.compile(r"3\.[0-9]{1,2}(\.[0-9]{1,2})?")


@click.command()
@click.argument("indicator")
@click.argument("requirements", nargs=-1, required=True, metavar="REQUIREMENT…")
@click.option("--python", "python_version", metavar="VERSION", help="Such as 3.11.")
@click.option("-p", "--parameter", "parameters", multiple=True, metavar="NAME=VALUE",
              help="A parameter of the indicator; repeat for more.")  # fmt: skip
@click.option("--index", default=DEFAULT_INDEX, help="A package index that settings name.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path),
              help="Write here instead of to standard output.")  # fmt: skip
@click.pass_obj
def pin(
    settings: Settings,
    indicator: str,
    requirements: tuple[str, ...],
    python_version: str | None,
    parameters: tuple[str, ...],
    index: str,
    output: Path | None,
) -> None:
    """Pin a stack for INDICATOR, such as `thoth pi pin matmul numpy==2.1.0`.

    All that the requirements need is locked with the hashes of its wheels, for this
    platform. `thoth inspect` measures what comes out.
    """
    from pis.amun.pinning import pinned_specification
    from pis.amun.problems import InvalidSpecification

    if python_version is not None and not _VERSION.fullmatch(python_version):
        raise UnusableSpecification(f"--python: {python_version!r} is no version such as 3.11")
    if output is not None and not output.exists():
        folder = output.absolute().parent
        if not os.access(folder, os.W_OK | os.X_OK) or not folder.is_dir():
            raise UnusableSpecification(f"-o: {folder} is no folder to write to")
    try:
        specification = pinned_specification(
            indicator,
            requirements,
            python_version,
            dict(_pair(text) for text in parameters),
            index=index,
            indexes=dict(settings.package_indexes),
        )
    except InvalidSpecification as error:
        raise UnusableSpecification(str(error)) from None
    text = json.dumps(specification, indent=2, ensure_ascii=False) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UnusableSpecification(f"-o: {output}: {error.strerror}") from None
    packages = specification["python"]["requirements_locked"]["default"]
    named = ", ".join(f"{name} {entry['version'][2:]}" for name, entry in packages.items())
    click.echo(f"{output}: {named}", err=True)
    click.echo(f"next: thoth inspect {shlex.quote(str(output))} --jobs 10", err=True)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="-p")
    return name, value
