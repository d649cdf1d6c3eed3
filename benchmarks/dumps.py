"""Metadata dumps of any size in the shape of a real one, the same for the same seed.

What is drawn was counted in a closure of 137 real projects: some ten requirements a version,
two thirds of them of extras; a few packages that very many require; requirements that change
with every third version or so; pure wheels beside those of four platforms; one version in
thirty without known requirements, one in fifty yanked. A package requires only packages of
lower numbers, and a small dump is the beginning of a large one, so that the closure of some
packages is the same in both.
"""

import gzip
import hashlib
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

#: Versions of each package, and requirements of each version on average.
VERSIONS, REQUIREMENTS = 20, 10
_EXTRAS = ("dev", "docs", "test")
_PLATFORMS = (
    "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64",
    "cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64",
    "cp311-cp311-macosx_11_0_arm64",
    "cp311-cp311-win_amd64",
)
_BEGIN = datetime(2015, 1, 1, tzinfo=UTC)


def write_dump(path: Path, versions: int, seed: int = 1) -> tuple[int, int]:
    """Write ``versions`` releases as packed JSON lines; how many, and their requirements."""
    releases = requirements = 0
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as lines:
        for release in releases_of(versions, seed):
            lines.write(json.dumps(release) + "\n")
            releases += 1
            requirements += len(release["requires_dist"] or ())
    return releases, requirements


def releases_of(versions: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Release documents, a package's together, oldest first."""
    for number in range(-(-versions // VERSIONS)):
        # A generator of its own, so that a dump's length changes nothing in its beginning.
        draw = random.Random(f"{seed}:{number}")
        count = min(VERSIONS, versions - number * VERSIONS)
        yield from _package(draw, number, count)


def name_of(number: int) -> str:
    """The name of the package of a number, from 0."""
    return f"package-{number:05d}"


def _package(draw: random.Random, number: int, count: int) -> Iterator[dict[str, Any]]:
    pure = draw.random() < 0.7
    began = _BEGIN + timedelta(days=draw.randrange(3_000))
    lines = _requirements(draw, number)
    for turn in range(count):
        if turn and draw.random() < 0.3:
            lines = [_line(draw, number) if draw.random() < 0.2 else line for line in lines]
        version = f"{turn // 8}.{turn % 8}.{draw.randrange(3)}"
        uploaded = began + timedelta(days=30 * turn, microseconds=draw.randrange(10**6))
        yield _release(draw, name_of(number), version, lines, pure, uploaded)


def _requirements(draw: random.Random, number: int) -> list[str]:
    count = min(40, int(draw.expovariate(1 / REQUIREMENTS)) + 1)
    return [_line(draw, number) for _ in range(count)] if number else []


def _line(draw: random.Random, number: int) -> str:
    """A requirement of a package of a lower number; the lower, the likelier."""
    required = int(number * draw.random() ** 4)
    low = draw.randrange(2)
    specifier = draw.choice(["", f">={low}.{draw.randrange(4)}", f">={low}.0,<4", f"!={low}.1.0"])
    marker = draw.random()
    if marker < 0.66:
        condition = f'; extra == "{draw.choice(_EXTRAS)}"'
    elif marker < 0.76:
        condition = draw.choice(['; python_version < "3.11"', '; sys_platform == "win32"'])
    else:
        condition = ""
    return f"{name_of(required)}{specifier}{condition}"


def _release(
    draw: random.Random, name: str, version: str, lines: list[str], pure: bool, uploaded: datetime
) -> dict[str, Any]:
    stem = f"{name.replace('-', '_')}-{version}"
    wheels = ["py3-none-any"] if pure else _PLATFORMS
    names = [f"{stem}.tar.gz", *(f"{stem}-{tags}.whl" for tags in wheels)]
    yanked = draw.random() < 0.02
    return {
        "name": name,
        "version": version,
        "index": "pypi",
        "requires_python": draw.choice([">=3.8", ">=3.9", ">=3.10", None]),
        "requires_dist": None if draw.random() < 0.03 else lines,
        "provides_extra": list(_EXTRAS),
        "metadata_source": "wheel-range",
        "yanked": yanked,
        "upload_time": uploaded.isoformat(),
        "license": "MIT",
        "sdist": True,
        "files_complete": True,
        "files": [
            {"filename": it, "sha256": hashlib.sha256(it.encode()).hexdigest(), "yanked": yanked}
            for it in names
        ],
    }
