"""Downloads a wheel by name and version from a configured index into a temporary folder."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from common.index.client import IndexClient
from common.index.configuration import Index, index_of
from common.settings import Settings
from model.errors import InvalidArgument
from model.packages.environments import Environment
from model.packages.identity import version_of
from model.packages.project_pages import IndexFile
from model.packages.wheels import compatibility, parse_wheel


@dataclass(frozen=True, slots=True)
class Pinned:
    """One version of one package.

    >>> parse_pin("Flask==3.0")
    Pinned(name='Flask', version=<Version('3.0')>)
    """

    name: str
    version: Version


def parse_pin(text: str) -> Pinned:
    """Parse ``NAME==VERSION``.

    :raises InvalidArgument: if ``text`` has another form
    """
    try:
        wanted = Requirement(text)
        ((operator, version),) = [(it.operator, it.version) for it in wanted.specifier]
        if operator == "==" and wanted.marker is None and wanted.url is None:
            return Pinned(wanted.name, Version(version))
    except (InvalidRequirement, InvalidVersion, ValueError):
        pass
    raise InvalidArgument(f"{text!r} is neither a file nor has the form NAME==VERSION")


@contextmanager
def fetched_wheel(
    settings: Settings, wanted: Pinned, index_name: str | None, environment: Environment
) -> Iterator[tuple[Path, str]]:
    """Yield the wheel that an installer would choose, and the name of its index.

    :raises InvalidArgument: if no wheel fits, with the reason
    :raises IndexProblem: if the index does not serve the wheel, or its hash differs
    """
    index = index_of(settings, index_name)
    with tempfile.TemporaryDirectory(prefix="thoth-wheel-") as folder:
        yield asyncio.run(_fetch(settings, index, wanted, environment, Path(folder))), index.name


async def _fetch(
    settings: Settings, index: Index, wanted: Pinned, environment: Environment, folder: Path
) -> Path:
    async with IndexClient(settings, index) as client:
        page = await client.project(wanted.name)
        file = best_wheel(page.files, wanted, environment)
        target = folder / parse_wheel(file.filename).filename
        await client.download(file, target)
    return target


def best_wheel(files: Sequence[IndexFile], wanted: Pinned, environment: Environment) -> IndexFile:
    """Return the version's wheel whose tag ranks first in the environment.

    :raises InvalidArgument: if none fits, with the reason
    """
    fitting: list[tuple[int, str, IndexFile]] = []
    tags: list[str] = []
    sdist = False
    for file in files:
        if version_of(file.version) != wanted.version:
            continue
        sdist = sdist or file.kind == "sdist"
        if file.kind == "wheel":
            tags.append(parse_wheel(file.filename).tags)
            rank = compatibility(tags[-1:], None, True, environment).rank
            if rank is not None:
                fitting.append((rank, file.filename, file))
    if fitting:
        return min(fitting, key=lambda it: it[:2])[2]
    name = f"{wanted.name} {wanted.version}"
    if not tags and not sdist:
        raise InvalidArgument(f"the index has no {name}")
    reason = compatibility(tags, sdist, True, environment).message
    raise InvalidArgument(f"no wheel of {name} for {environment.label}: {reason}")
