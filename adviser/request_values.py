"""Parse values of a request from text: requirements, constraints, overrides and times.

The command line uses these functions for options, the API for fields. The errors do not name the
option or field; the caller adds its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from model.errors import InvalidArgument
from model.packages.candidates import Dependency
from model.packages.releases import parse_requirement

_DAYS = re.compile(r"(\d{1,5})\s*d(?:ays?)?")


def parse_dependencies(texts: Iterable[str]) -> tuple[Dependency, ...]:
    """Parse requirements of the form name, extras, specifier.

    :raises InvalidArgument: if one has a marker or a URL, or is not a requirement
    """
    dependencies = []
    for text in texts:
        requirement = parse_requirement(text)
        if requirement.name is None or requirement.url or requirement.marker:
            problem = requirement.problem or "markers and URLs are not allowed"
            raise InvalidArgument(f"{text!r} is not a name with a specifier: {problem}")
        dependencies.append(Dependency(requirement.name, requirement.specifier, requirement.extras))
    return tuple(dependencies)


def parse_bounds(texts: Iterable[str]) -> tuple[Dependency, ...]:
    """Parse requirements that only restrict versions, and therefore have no extras.

    :raises InvalidArgument: like :func:`parse_dependencies`, or if one has extras
    """
    bounds = parse_dependencies(texts)
    for bound in bounds:
        if bound.extras:
            extras = ",".join(bound.extras)
            raise InvalidArgument(f"{bound.name}[{extras}] has extras: list them in the project")
    return bounds


def parse_overrides(texts: Iterable[str]) -> dict[str, str]:
    """Parse overrides, and join those of each package into one specifier.

    :raises InvalidArgument: like :func:`parse_bounds`
    """
    specifiers: dict[str, set[str]] = {}
    for bound in parse_bounds(texts):
        specifiers.setdefault(bound.name, set()).add(bound.specifier)
    return {name: ",".join(sorted(parts - {""})) for name, parts in specifiers.items()}


def parse_moment(text: str | None, now: datetime) -> datetime | None:
    """Parse a date, a time, or a number of days before ``now``; a time without a zone is in UTC.

    :raises InvalidArgument: if the text has another form

    >>> parse_moment("7d", datetime(2024, 3, 8, tzinfo=UTC)).isoformat()
    '2024-03-01T00:00:00+00:00'
    """
    if text is None:
        return None
    if days := _DAYS.fullmatch(text.strip()):
        return now - timedelta(days=int(days[1]))
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidArgument(
            f"{text!r} is neither a date nor a number of days such as 7d"
        ) from None
