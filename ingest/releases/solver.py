"""Results of the solver of earlier systems: what it installed, one release at a time.

A solver installed every release that it met into an environment of its own and asked that
what it requires. So requirements are those of that one environment: without markers, and
without those of extras. Hashes are left out, for nothing says of which files they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from common.errors import InvalidDocument
from common.formats.fields import (
    Record,
    as_record,
    list_of,
    path,
    record_of,
    text_of,
    time_of,
)
from common.packages import Purl
from common.reasons import Reason
from common.releases import SOLVER, Release, ReleaseProblem
from ingest.releases.parsing import index_name, release_of

_LONGEST_TEXT = 2**26
#: How an installer says that the index has nothing to install; other failures are of a build.
_NOTHING_THERE = ("could not find a version", "no matching distribution")
#: How the solver writes that any version will do.
_ANY = frozenset({"", "*", "any"})


def is_solver_document(document: Record) -> bool:
    """Whether it holds the tree that a solver found."""
    result = document.get("result")
    return isinstance(result, dict) and "tree" in result


@dataclass(frozen=True, slots=True)
class SolverResult:
    """One result of a solver run.

    :param addresses: names of indexes that are known by their addresses
    """

    document: Record
    addresses: Mapping[str, str]
    now: datetime

    def as_of(self) -> datetime | None:
        """When the solver ran.

        :raises InvalidDocument: if that is no time, or lies in the future
        """
        metadata = record_of(self.document, "metadata", "$")
        return time_of(metadata, "datetime", "$.metadata", self.now)

    def releases(self) -> Iterator[Release | InvalidDocument]:
        """What was installed, then what could not be, then why the rest says nothing.

        A solver met some releases several times; what it saw first counts, and that it
        installed a release counts more than that it failed to.
        """
        seen: set[Purl] = set()
        for found in self._found():
            if isinstance(found, InvalidDocument):
                yield found
            elif found.purl not in seen:
                seen.add(found.purl)
                yield found

    def _found(self) -> Iterator[Release | InvalidDocument]:
        result = record_of(self.document, "result", "$")
        for key, read in (
            ("tree", self._solved),
            ("errors", self._failed),
            ("unparsed", _unparsed),
            ("unresolved", _unresolved),
        ):
            for position, item in enumerate(list_of(result, key, "$.result")):
                at = f"$.result.{key}[{position}]"
                try:
                    yield release_of(read(as_record(item, at), at), now=self.now)
                except InvalidDocument as error:
                    yield _within(error, at)

    def _solved(self, entry: Record, at: str) -> Record:
        return {
            **self._identity(entry, at),
            "requires_dist": [
                _requirement(as_record(item, inner), inner)
                for position, item in enumerate(list_of(entry, "dependencies", at))
                for inner in (path(f"{at}.dependencies", position),)
            ],
        }

    def _failed(self, entry: Record, at: str) -> Record:
        details = record_of(entry, "details", at)
        message = text_of(details, "message", f"{at}.details", _LONGEST_TEXT) or ""
        nothing = any(words in message.lower() for words in _NOTHING_THERE)
        problem = ReleaseProblem.NO_FILES if nothing else ReleaseProblem.NOT_RECORDED
        return {
            **self._identity(entry, at),
            "requires_dist": None,
            "problem": problem.value,
            "problem_message": _first_and_last(message),
        }

    def _identity(self, entry: Record, at: str) -> Record:
        index = entry.get("index_url", entry.get("index"))
        if isinstance(index, str):
            known = self.addresses.get(index.rstrip("/"))
            index = known or index_name(index, path(at, "index_url"))
        return {
            "name": entry.get("package_name"),
            "version": entry.get("package_version", entry.get("version")),
            "index": index,
            "metadata_source": SOLVER,
        }


def _requirement(entry: Record, at: str) -> str:
    name = text_of(entry, "package_name", at)
    if name is None:
        raise InvalidDocument(Reason.MISSING_FIELD, "is missing", field=path(at, "package_name"))
    asked = (text_of(entry, "required_version", at, 2_000) or "").strip()
    return name if asked.lower() in _ANY else f"{name}{asked}"


def _first_and_last(message: str) -> str:
    """The lines of a traceback that tell a person what failed."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    return " … ".join(line[:400] for line in dict.fromkeys((*lines[:1], *lines[-1:])))


def _unparsed(entry: Record, at: str) -> Record:
    asked = text_of(entry, "requirement", at, _LONGEST_TEXT) or ""
    raise InvalidDocument(
        Reason.INVALID_REQUIREMENT, f"the solver could not read {asked[:200]!r}", field=at
    )


def _unresolved(entry: Record, at: str) -> Record:
    name = text_of(entry, "package_name", at) or ""
    asked = text_of(entry, "version_spec", at, _LONGEST_TEXT) or ""
    raise InvalidDocument(
        Reason.UNRESOLVED, f"the solver found no version of {name}{asked[:200]}", field=at
    )


def _within(error: InvalidDocument, at: str) -> InvalidDocument:
    """``error`` with the place in the solver's document; releases are checked by themselves."""
    if error.field.startswith(at):
        return error
    inner = error.field.removeprefix("$").lstrip(".")
    words = f"{inner}: {error.message}" if inner else error.message
    return InvalidDocument(error.reason, words, field=at)
