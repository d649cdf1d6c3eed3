"""What is wrong with a specification: every field by its path, all of them at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from common.errors import ProjectError

_PLAIN = re.compile(r"[\w@.+-]{1,80}\Z")


class Problem(NamedTuple):
    """One field that cannot be used as it is.

    :param field: its path, such as ``python.requirements_locked.default.numpy.hashes``
    :param message: what is wrong, and where one is known the remedy
    """

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class InvalidSpecification(ProjectError):
    """A specification that cannot be used; it has all of its problems.

    :param place: the file that it came from
    """

    def __init__(self, problems: Sequence[Problem], place: str = "") -> None:
        super().__init__(problems, place)
        self.problems = tuple(problems)
        self.place = place

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return "\n".join(f"{where}{problem}" for problem in self.problems)


def inside(at: str, key: str | int) -> str:
    """The path of ``key`` in the record at ``at``.

    >>> inside("", "run"), inside("run", "requests"), inside("files", 0), inside("run", "a b")
    ('run', 'run.requests', 'files[0]', "run['a b']")
    """
    if isinstance(key, int) or not _PLAIN.match(key):
        return f"{at}[{key if isinstance(key, int) else key[:80]!r}]"
    return f"{at}.{key}" if at else key
