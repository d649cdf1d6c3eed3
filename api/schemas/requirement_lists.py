"""How much of the lists of requirements in a request is read: a look of milliseconds."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from marshmallow import ValidationError

#: Of a manifest, which people write; reading TOML takes about a second a megabyte.
MAX_MANIFEST = 256 * 1024
#: A lock of 3 MiB has 37,000 hashes, each in a line of its own.
_MAX_LINES, _MAX_HASHES = 75_000, 40_000
#: What takes the most time for its length; projects have a few dozen.
_MAX_OPTIONS = 2_000
#: What the reader of a project's files takes is more than a stranger may have read at once.
_MAX_REQUIREMENTS = 3_000
#: Whatever ends a line.
_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_OPTION = re.compile(r"\s-(?!-hash=)")
_HASH = re.compile(r"--hash=\w{1,16}:[0-9a-f]{1,128}")
_COMMENT = re.compile(rf"^[ \t]*#[^{_ENDS}]*", re.MULTILINE)


def check_constraints(text: str) -> None:
    """Refuse constraints that take too long to read.

    :raises ValidationError: saying what there is too much of
    """
    if wrong := list_problem([text]):
        raise ValidationError(wrong)


def list_problem(texts: Collection[str]) -> str | None:
    """Why lists of requirements are not read; ``None`` if they are.

    What is neither a hash nor a comment is what people write, in locks, too.
    """
    for count, most, what in _BOUNDS:
        if (found := sum(map(count, texts))) > most:
            return f"{found} {what}, where at most {most} are read: no real project has so many"
    return None


def _lines(text: str) -> int:
    return sum(map(text.count, _ENDS))


def _hashes(text: str) -> int:
    return text.count("--hash")


def _options(text: str) -> int:
    return len(_OPTION.findall(text))


def _characters(text: str) -> int:
    return len(_rest(text))


def _requirements(text: str) -> int:
    lines = map(str.strip, _rest(text).splitlines())
    return sum(1 for line in lines if line.strip("\\") and line[0] not in "-#")


def _rest(text: str) -> str:
    return _COMMENT.sub("", _HASH.sub("", text))


_BOUNDS: tuple[tuple[Callable[[str], int], int, str], ...] = (
    (_lines, _MAX_LINES, "lines"),
    (_hashes, _MAX_HASHES, "hashes"),
    (_options, _MAX_OPTIONS, "options besides"),
    (_characters, MAX_MANIFEST, "characters that are neither hashes nor comments"),
    (_requirements, _MAX_REQUIREMENTS, "requirements"),
)
