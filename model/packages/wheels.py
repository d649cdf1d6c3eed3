"""Wheel compatibility: whether a release can be installed in an environment, and why not."""

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import inf
from typing import Protocol, TypeVar

from packaging.tags import InvalidTag, Tag, TooManyTagsError, parse_tag
from packaging.utils import BuildTag, InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from model.errors import InvalidArgument
from model.packages.environments import LEGACY_MANYLINUX, Environment
from model.text import first_few


class Fit(StrEnum):
    """Why a release can or cannot be installed; the nearest wheels decide."""

    COMPATIBLE = "compatible"
    #: The C library, or macOS, is older than the wheel requires.
    LIBC_TOO_OLD = "libc_too_old"
    #: For another operating system, machine or C library.
    PLATFORM_TAG = "platform_tag"
    #: For another build of this version of Python.
    ABI_TAG = "abi_tag"
    #: For another version or implementation of Python.
    PYTHON_TAG = "python_tag"
    #: It would have to be built, which this project never does.
    SDIST_ONLY = "sdist_only"
    NO_FILES = "no_files"
    #: Not all files are known, and none of the known ones can be installed.
    ARTIFACTS_UNKNOWN = "artifacts_unknown"


#: Mismatches, nearest first: the nearest wheel explains why a release cannot be installed.
NEARNESS = (Fit.LIBC_TOO_OLD, Fit.PLATFORM_TAG, Fit.ABI_TAG, Fit.PYTHON_TAG)

#: Position in NEARNESS, required version, what the environment has, and what a wheel needs.
Miss = tuple[int, tuple[int, int], str, str]
#: What wheels with a mismatch need, by position in NEARNESS.
_NEEDS = ("needs", "built for", "built for the ABI", "built for")
#: Maximum number of tags in a message.
_NAMED = 6


_FLOOR = re.compile(r"manylinux_(\d+)_(\d+)_\w+|(manylinux\d+)_\w+")


def floor_of(platform: str) -> tuple[int, int] | None:
    """The minimum glibc of a platform tag."""
    tag = _FLOOR.fullmatch(platform)
    if tag is None:
        return None
    return LEGACY_MANYLINUX.get(tag[3]) if tag[3] else (int(tag[1]), int(tag[2]))


def miss_of(tag: Tag, environment: Environment) -> Miss:
    """How a tag differs from an environment; the interpreter is compared first."""
    pythons, abis = _interpreters(environment)
    own = tag.interpreter == pythons[0]
    # cp310-cp310 and cp310-none on CPython 3.11: of cp310, only cp310-abi3 is compatible.
    older = not own and tag.abi != "abi3" and not tag.interpreter.startswith("py")
    if tag.interpreter not in pythons or older:
        return _explained(Fit.PYTHON_TAG, tag.interpreter, pythons[0])
    if (tag.interpreter, tag.abi) not in abis:
        return _explained(Fit.ABI_TAG, tag.abi, environment.tags[0].abi)
    return _platform_miss(tag.platform, environment)


def _explained(fit: Fit, needs: str, has: str, version: tuple[int, int] = (1, 0)) -> Miss:
    return NEARNESS.index(fit), version, has, needs


def _message(misses: Collection[Miss]) -> str:
    """The needs of the nearest of several wheels, newest first."""
    nearest = min(misses)[:3]
    needs = {it[3] for it in misses if it[:3] == nearest}
    newest = sorted(needs, key=lambda it: ([*map(int, re.findall(r"\d+", it))], it), reverse=True)
    return f"{_NEEDS[nearest[0]]} {first_few(newest, _NAMED)}, this environment has {nearest[2]}"


@lru_cache(maxsize=32)
def _interpreters(environment: Environment) -> tuple[tuple[str, ...], frozenset[tuple[str, str]]]:
    """Compatible interpreters, best first, and the compatible pairs of interpreter and ABI."""
    pythons = tuple(dict.fromkeys(tag.interpreter for tag in environment.tags))
    return pythons, frozenset((tag.interpreter, tag.abi) for tag in environment.tags)


_MACHINE = re.compile(r"(?:manylinux_\d+_\d+|manylinux\d+|musllinux_\d+_\d+|linux)_(\w+)")
_MUSL = re.compile(r"musllinux_(\d+)_(\d+)_\w+")
_MACOS = re.compile(r"macosx_(\d+)_(\d+)_(\w+)")
_MACOS_MACHINES = {"universal2": ("arm64", "x86_64"), "universal": ("x86_64",)}


def _platform_miss(platform: str, environment: Environment) -> Miss:
    if environment.macos and (tag := _MACOS.fullmatch(platform)):
        floor = int(tag[1]), int(tag[2])
        if environment.platform_machine in _MACOS_MACHINES.get(tag[3], (tag[3],)):
            return _too_old("macOS", floor, environment.macos)
    machine = _MACHINE.fullmatch(platform)
    if environment.libc and machine and machine[1] == environment.platform_machine:
        return _libc_miss(platform, environment.libc)
    return _explained(Fit.PLATFORM_TAG, platform, environment.platform)


def _libc_miss(platform: str, libc: tuple[str, tuple[int, int]]) -> Miss:
    """The mismatch of a tag that fits the machine, but needs another or a newer C library."""
    has = f"{libc[0]} {_text(libc[1])}"
    glibc, musl = floor_of(platform), _MUSL.fullmatch(platform)
    if glibc is not None and libc[0] == "glibc":
        return _too_old("glibc", glibc, libc[1])
    if musl is not None and libc[0] == "musl":
        return _too_old("musl", (int(musl[1]), int(musl[2])), libc[1])
    # Nearer than another operating system.
    return _explained(Fit.PLATFORM_TAG, "musl" if musl else "glibc", has, (0, 0))


def _too_old(what: str, floor: tuple[int, int], has: tuple[int, int]) -> Miss:
    return _explained(Fit.LIBC_TOO_OLD, f"{what} {_text(floor)}", _text(has), floor)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


__all__ = [
    "Compatibility",
    "Fit",
    "Wheel",
    "compatibility",
    "cuda_of",
    "cuda_runs",
    "glibc_floor",
    "installed_rank",
    "installed_wheel",
    "parse_wheel",
    "pythons_of",
]

#: The longest file name that common file systems can hold.
MAX_FILENAME_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Wheel:
    """The parsed file name of a wheel.

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

    :param installable: also ``True`` for ``ARTIFACTS_UNKNOWN``, where ``rank`` is ``None``
    :param rank: position of the best wheel's tag in ``Environment.tags``, from 0; ``None`` if no
        known wheel is compatible
    :param message: explanation for a person
    """

    installable: bool
    rank: int | None
    reason: Fit
    message: str


def parse_wheel(filename: str) -> Wheel:
    """Parse the file name of a wheel.

    :raises InvalidArgument: if it violates the binary distribution format

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
    """The minimum glibc of a wheel; ``None`` if its tags name none.

    If there are several minimum versions, the oldest counts, because the wheel promises to run with
    it.

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
    """The CUDA version of a build, from the suffix of its name or its local version.

    ``12`` means any version 12.x; ``None`` means that the release names no CUDA version.

    >>> cuda_of("torch", "2.9.0+cu128"), cuda_of("nvidia-cublas-cu12", "12.1"), cuda_of("torch")
    ('12.8', '12', None)
    >>> cuda_of("jaxlib", "0.4.1+cuda12.cudnn89"), cuda_of("cupy-cuda11x"), cuda_of("curio", "1")
    ('12', '11', None)
    """
    local = version.partition("+")[2].lower()
    suffix = _CUDA_LOCAL.search(local) or _CUDA_NAME.search(canonicalize_name(name))
    return _dotted(suffix[1]) if suffix else None


def _dotted(digits: str) -> str:
    """``121`` is 12.1; two digits are a major version, because no current wheel is for CUDA 9."""
    if "." in digits or len(digits) == 2:
        return digits
    return f"{digits[:-1]}.{digits[-1]}"


def cuda_runs(needed: str, environment: Environment) -> bool:
    """Whether the driver supports builds for CUDA ``needed``; ``False`` without a driver.

    Within a major version, older drivers support newer builds ("minor version compatibility", since
    CUDA 11). Newer drivers support all older builds.
    """
    if environment.cuda is None:
        return False
    return int(needed.partition(".")[0]) <= int(environment.cuda.partition(".")[0])


def compatibility(
    wheels: Sequence[str], has_sdist: bool | None, files_complete: bool, environment: Environment
) -> Compatibility:
    """Whether a release can be installed in ``environment`` without a build.

    Costs one dictionary look-up for each wheel whose tag set was seen before.

    :param wheels: compressed tag sets of its wheels, such as ``cp311-cp311-win_amd64``
    :param has_sdist: ``None`` if unknown
    :param files_complete: whether these are all files of the release
    """
    known = _known(environment)
    rank, misses = None, set[Miss]()
    for tag_set in wheels:
        verdict = known.get(tag_set)
        if verdict is None:
            verdict = known[tag_set] = _judged(tag_set, environment)
        if isinstance(verdict, int):
            rank = verdict if rank is None else min(rank, verdict)
        else:
            misses |= verdict
    if rank is not None:
        return _compatible(rank)
    return _refused(frozenset(misses), has_sdist, files_complete)


@lru_cache(maxsize=1024)
def _compatible(rank: int) -> Compatibility:
    return Compatibility(True, rank, Fit.COMPATIBLE, "a wheel fits")


@lru_cache(maxsize=4096)
def _refused(
    misses: frozenset[Miss], has_sdist: bool | None, files_complete: bool
) -> Compatibility:
    message = _message(misses) if misses else ""
    why = f": {message}" if misses else ""
    if not files_complete:
        return Compatibility(
            True, None, Fit.ARTIFACTS_UNKNOWN, f"no wheel is known to fit{why}; others may exist"
        )
    if misses:
        also = "; the source distribution would have to be built" if has_sdist else ""
        return Compatibility(False, None, NEARNESS[min(misses)[0]], message + also)
    if has_sdist:
        return Compatibility(
            False, None, Fit.SDIST_ONLY, "only a source distribution, which would have to be built"
        )
    return Compatibility(False, None, Fit.NO_FILES, "no file that could be installed")


def pythons_of(wheels: Iterable[str], environment: Environment) -> frozenset[int]:
    """Minor versions of CPython 3 for which wheels on the platform of an environment are built.

    >>> from model.packages.environments import environment
    >>> here = environment("3.11", "manylinux_2_28_x86_64")
    >>> sorted(pythons_of(["cp38-cp38-manylinux1_x86_64", "cp39-cp39-win_amd64"], here))
    [8]
    """
    platforms = {tag.platform for tag in environment.tags}
    with suppress(InvalidTag, ValueError):
        tags = [tag for tag_set in wheels for tag in parse_tag(tag_set)]
        minors = (
            re.fullmatch(r"cp3(\d+)", it.interpreter) for it in tags if it.platform in platforms
        )
        return frozenset(int(it[1]) for it in minors if it)
    return frozenset()


@lru_cache(maxsize=32)
def _known(environment: Environment) -> dict[str, int | frozenset[Miss]]:
    """Cache of ranks and mismatches, by tag set."""
    return {}


def _judged(tag_set: str, environment: Environment) -> int | frozenset[Miss]:
    """The best rank of a tag set, or why its tags are incompatible."""
    try:
        tags = parse_tag(tag_set)
    except (InvalidTag, ValueError):
        unknown = f"the unknown tags {tag_set[:80]!r}"
        return frozenset([_explained(Fit.PYTHON_TAG, unknown, environment.tags[0].interpreter)])
    ranks = environment.ranks
    compatible = [ranks[tag] for tag in tags if tag in ranks]
    if compatible:
        return min(compatible)
    return frozenset(miss_of(tag, environment) for tag in tags)


@lru_cache(maxsize=4096)
def installed_rank(filename: str, environment: Environment) -> tuple[float, int]:
    """Sort key of a release's wheels in an installer's order of preference, the best first.

    The first number is infinite for a wheel that does not fit.
    """
    try:
        wheel = parse_wheel(filename)
    except InvalidArgument:
        return inf, 0
    rank = compatibility((wheel.tags,), has_sdist=False, files_complete=True,
                         environment=environment).rank  # fmt: skip
    return inf if rank is None else rank, -wheel.build[0] if wheel.build else 0


class _Wheel(Protocol):
    @property
    def filename(self) -> str: ...
    @property
    def kind(self) -> str: ...


W = TypeVar("W", bound=_Wheel)


def installed_wheel(files: Iterable[W], environment: Environment) -> W | None:
    """The wheel that an installer would choose, or the first if none fits; ``None`` without one."""
    wheels = (it for it in files if it.kind == "wheel")
    return min(wheels, key=lambda it: installed_rank(it.filename, environment), default=None)
