"""Whether the artifacts of a release can be installed in an environment, and why not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from packaging.tags import InvalidTag, TooManyTagsError, parse_tag
from packaging.utils import (
    BuildTag,
    InvalidWheelFilename,
    canonicalize_name,
    parse_wheel_filename,
)

from common.environments import Environment
from common.errors import InvalidArgument
from common.misfits import NEARNESS, Fit, Miss, floor_of, miss_of

__all__ = [
    "Compatibility",
    "Fit",
    "Wheel",
    "compatibility",
    "cuda_of",
    "cuda_runs",
    "glibc_floor",
    "parse_wheel",
]

#: The longest file name that common file systems can hold.
MAX_FILENAME_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Wheel:
    """What the file name of a wheel says.

    :param name: normalised
    :param version: normalised
    :param tags: the compressed tag set, such as ``py3-none-any``
    """

    filename: str
    name: str
    version: str
    build: BuildTag
    tags: str


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether a release can be installed.

    :param installable: ``False`` where no file can be; ``True`` for ``ARTIFACTS_UNKNOWN``
        too, which ``rank`` tells apart
    :param rank: place of the best wheel's tag among ``Environment.tags``, from 0; ``None``
        where no wheel is known that fits
    :param message: for a person
    """

    installable: bool
    rank: int | None
    reason: Fit
    message: str


def parse_wheel(filename: str) -> Wheel:
    """Read the file name of a wheel.

    :raises InvalidArgument: if it is not one by the binary distribution format

    >>> parse_wheel("Flask-3.0-py3-none-any.whl").tags
    'py3-none-any'
    """
    if len(filename) > MAX_FILENAME_LENGTH:
        raise InvalidArgument(f"a file name of {len(filename)} characters is not a wheel's")
    try:
        name, version, build, _ = parse_wheel_filename(filename)
    except (InvalidWheelFilename, TooManyTagsError) as error:
        raise InvalidArgument(f"{filename!r} is not the name of a wheel: {error}") from None
    tags = "-".join(filename.removesuffix(".whl").split("-")[-3:])
    return Wheel(filename, name, str(version), build, tags)


@lru_cache(maxsize=16_384)
def glibc_floor(tag_set: str) -> tuple[int, int] | None:
    """The oldest glibc that a wheel says it runs with; ``None`` if it names none.

    A wheel of several floors is promised to run with the oldest of them.

    >>> glibc_floor("cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64")
    (2, 17)
    >>> glibc_floor("py3-none-any") is None
    True
    """
    floors = [floor_of(platform) for platform in tag_set.rpartition("-")[2].split(".")]
    return min((floor for floor in floors if floor is not None), default=None)


_CUDA_LOCAL = re.compile(r"(?:^|[.+_-])(?:cu|cuda)\.?(\d{2,3}|\d{1,2}\.\d{1,2})(?!\d|\.\d)")
_CUDA_NAME = re.compile(r"-(?:cu|cuda)-?(\d{2,3})x?(?:-|$)")


@lru_cache(maxsize=16_384)
def cuda_of(name: str, version: str = "") -> str | None:
    """The CUDA that a release is built for, by its name's suffix or its local version.

    ``12`` means any of 12; ``None`` that the release names none.

    >>> cuda_of("torch", "2.9.0+cu128"), cuda_of("nvidia-cublas-cu12", "12.1"), cuda_of("torch")
    ('12.8', '12', None)
    >>> cuda_of("jaxlib", "0.4.1+cuda12.cudnn89"), cuda_of("cupy-cuda11x"), cuda_of("curio", "1")
    ('12', '11', None)
    """
    local = version.partition("+")[2].lower()
    if found := _CUDA_LOCAL.search(local):
        return _dotted(found[1])
    if found := _CUDA_NAME.search(canonicalize_name(name)):
        return _dotted(found[1])
    return None


def _dotted(digits: str) -> str:
    """``121`` is 12.1; two digits are a major version, for CUDA 9 is long gone from wheels."""
    if "." in digits or len(digits) == 2:
        return digits
    return f"{digits[:-1]}.{digits[-1]}"


def cuda_runs(needed: str, environment: Environment) -> bool:
    """Whether the driver runs what is built for CUDA ``needed``; ``False`` without one.

    Within a major version older drivers run newer builds ("minor version
    compatibility", from CUDA 11 on), and newer drivers run all older ones.
    """
    if environment.cuda is None:
        return False
    return int(needed.partition(".")[0]) <= int(environment.cuda.partition(".")[0])


def compatibility(
    wheels: Sequence[str], has_sdist: bool | None, files_complete: bool, environment: Environment
) -> Compatibility:
    """Whether a release can be installed in ``environment`` without building anything.

    :param wheels: compressed tag sets of its wheels, such as ``cp311-cp311-win_amd64``
    :param has_sdist: ``None`` if unknown
    :param files_complete: whether these are all files of the release

    Costs a dictionary look-up a wheel once a tag set was seen.
    """
    known = _known(environment)
    rank, miss = None, None
    for tag_set in wheels:
        verdict = known.get(tag_set)
        if verdict is None:
            verdict = known[tag_set] = _judged(tag_set, environment)
        if isinstance(verdict, int):
            rank = verdict if rank is None else min(rank, verdict)
        elif miss is None or verdict < miss:
            miss = verdict
    if rank is not None:
        return _compatible(rank)
    return _refused(miss, has_sdist, files_complete)


@lru_cache(maxsize=1024)
def _compatible(rank: int) -> Compatibility:
    return Compatibility(True, rank, Fit.COMPATIBLE, "a wheel fits")


@lru_cache(maxsize=4096)
def _refused(miss: Miss | None, has_sdist: bool | None, files_complete: bool) -> Compatibility:
    why = f": {miss[2]}" if miss else ""
    if not files_complete:
        return Compatibility(
            True, None, Fit.ARTIFACTS_UNKNOWN, f"no wheel is known to fit{why}; others may exist"
        )
    if miss is not None:
        also = "; the source distribution would have to be built" if has_sdist else ""
        return Compatibility(False, None, NEARNESS[miss[0]], miss[2] + also)
    if has_sdist:
        return Compatibility(
            False, None, Fit.SDIST_ONLY, "only a source distribution, which would have to be built"
        )
    return Compatibility(False, None, Fit.NO_FILES, "no file that could be installed")


@lru_cache(maxsize=32)
def _known(environment: Environment) -> dict[str, int | Miss]:
    """Verdicts on the tag sets seen so far."""
    return {}


def _judged(tag_set: str, environment: Environment) -> int | Miss:
    """The best rank of a tag set, or why it has none."""
    try:
        tags = parse_tag(tag_set)
    except (InvalidTag, ValueError):
        return len(NEARNESS) - 1, (0, 0), f"tags {tag_set[:80]!r} are not understood"
    ranks = environment.ranks
    found = [ranks[tag] for tag in tags if tag in ranks]
    if found:
        return min(found)
    return min(miss_of(tag, environment) for tag in tags)
