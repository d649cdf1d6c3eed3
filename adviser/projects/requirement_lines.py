"""Requirements files as pip documents them: logical lines, options, hashes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from adviser.projects.problems import refuse, shown
from common.reasons import Reason

_COMMENT = re.compile(r"(?:^|\s)#.*$")
#: What makes ``shlex`` do more than split at blanks.
_QUOTING = re.compile(r"""['"\\]""")
#: Of words that are quoted: ``shlex`` takes time by the square of a word's length.
_MAX_QUOTED = 4_096
_BLANKS = re.compile(r"[ \t\r\n]+")
_BEGINS_OPTIONS = re.compile(r"(?:^|\s)(?=-)")
#: Options by every name that they have; which of them take a value.
_SHORT = {"-r": "--requirement", "-c": "--constraint", "-e": "--editable", "-i": "--index-url",
          "-f": "--find-links", "-C": "--config-settings"}  # fmt: skip
_LONG = {"--pypi-url": "--index-url", "--config-setting": "--config-settings"}
_WITH_VALUE = frozenset(
    {
        "--requirement", "--constraint", "--editable", "--index-url", "--extra-index-url",
        "--find-links", "--trusted-host", "--no-binary", "--only-binary", "--use-feature",
        "--all-releases", "--only-final", "--hash", "--config-settings", "--global-option",
        "--install-option",
    }
)  # fmt: skip
_FLAGS = frozenset(
    {"--pre", "--no-index", "--prefer-binary", "--require-hashes", "--no-require-hashes",
     "--process-dependency-links", "--always-unzip", "-Z"}
)  # fmt: skip
#: What may stand behind a requirement.
OF_REQUIREMENT = frozenset({"--hash", "--config-settings", "--global-option", "--install-option"})


@dataclass(frozen=True, slots=True)
class Line:
    """A logical line.

    :param number: of the physical line that it begins at, from 1
    :param requirement: empty for a line of options
    :param options: name and value, in order; the value of a flag is empty
    """

    number: int
    requirement: str
    options: tuple[tuple[str, str], ...]

    def values(self, option: str) -> list[str]:
        """What was given for an option."""
        return [value for name, value in self.options if name == option]


def lines_of(text: str, name: str) -> Iterator[Line]:
    """The logical lines of a requirements file; variables are not expanded.

    :param name: of the file
    :raises InvalidProject: at an option that pip does not document for such files
    """
    for number, line in logical_lines(text):
        requirement, options = line, ""
        if found := _BEGINS_OPTIONS.search(line):
            requirement, options = line[: found.start()].strip(), line[found.end() :]
        at = f"{name}:{number}"
        yield Line(number, requirement, tuple(_options(options, bool(requirement), at)))


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations, without comments, and the number that each begins at."""
    held, began = list[str](), 0
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        began = began or number
        comment = line.lstrip().startswith("#")
        if line.endswith("\\") and not comment:
            held.append(line.strip("\\"))
            continue
        if not comment:
            held.append(line)
        whole = _COMMENT.sub("", "".join(held)).strip()
        if whole:
            yield began, whole
        held, began = [], 0


def _options(text: str, behind: bool, at: str) -> Iterator[tuple[str, str]]:
    pending = iter(words_of(text, at))
    for word in pending:
        option, given = _option(word)
        if option in _WITH_VALUE:
            value = next(pending, None) if given is None else given
            if not value:
                refuse(Reason.MISSING_FIELD, f"{option} without a value", at, "give it one")
        elif option in _FLAGS and given is None:
            value = ""
        else:
            refuse(
                Reason.INVALID_REQUIREMENT,
                f"{shown(word)} is no option of a requirements file",
                at,
                "see pip's reference of the requirements file format",
            )
        if behind != (option in OF_REQUIREMENT):
            refuse(
                Reason.INVALID_REQUIREMENT,
                f"{option} {'behind' if behind else 'without'} a requirement",
                at,
                "give it a line of its own" if behind else "put it behind a requirement",
            )
        yield option, value


def words_of(text: str, at: str) -> list[str]:
    """A shell's words; by far the most lines have hashes alone, and need no shell's rules.

    :raises InvalidProject: if a quote is not closed, or the text is long and has any
    """
    if not _QUOTING.search(text):
        return [word for word in _BLANKS.split(text) if word]
    if len(text) > _MAX_QUOTED:
        refuse(
            Reason.OUT_OF_RANGE,
            f"{len(text)} characters of options with quotes or backslashes in them, where at most "
            f"{_MAX_QUOTED} are read",
            at,
            "give each option a line of its own",
        )
    try:
        return shlex.split(text)
    except ValueError as error:
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"options {shown(text)} cannot be split: {error}",
            at,
            "close the quote",
        )


def _option(word: str) -> tuple[str, str | None]:
    """The full name of an option, and its value if it is in the same word."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return _LONG.get(name, name), value if equals else None
    short = _SHORT.get(word[:2])
    if short is None:
        return word, None
    return short, word[2:].removeprefix("=") or None
