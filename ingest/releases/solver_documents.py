"""Reads results of the solver of an earlier system.

That solver installed each release into an environment of its own and listed its requirements there.
Requirements therefore hold for one environment and have neither markers nor extras. Hashes are left
out, because the document does not say to which files they belong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from ingest.releases.parsing import index_name, release_of
from model.errors import InvalidDocument
from model.json_fields import (
    Record,
    as_record,
    list_of,
    path,
    record_of,
    text_of,
    time_of,
)
from model.packages.identity import Purl
from model.packages.releases import SOLVER, Release, ReleaseProblem
from model.reasons import Reason

_LONGEST_TEXT = 2**26
#: Messages of an installer if the index has nothing to install; other messages are failed builds.
_NO_FILES = ("could not find a version", "no matching distribution")
#: Texts of the solver for any version.
_ANY = frozenset({"", "*", "any"})


def is_solver_document(document: Record) -> bool:
    """Whether a document is the result of a solver."""
    result = document.get("result")
    return isinstance(result, dict) and "tree" in result


@dataclass(frozen=True, slots=True)
class SolverResult:
    """One result of a solver run.

    :param addresses: names of indexes by their URL
    """

    document: Record
    addresses: Mapping[str, str]
    now: datetime

    def as_of(self) -> datetime | None:
        """Return when the solver ran.

        :raises InvalidDocument: if it is not a time, or lies in the future
        """
        metadata = record_of(self.document, "metadata", "$")
        return time_of(metadata, "datetime", "$.metadata", self.now)

    def releases(self) -> Iterator[Release | InvalidDocument]:
        """Yield installed releases, then failed releases, then errors for all other entries.

        A release may occur several times. The first success counts; if there is none, the first
        failure counts.
        """
        seen: set[Purl] = set()
        for release in self._entries():
            if isinstance(release, InvalidDocument):
                yield release
            elif release.purl not in seen:
                seen.add(release.purl)
                yield release

    def _entries(self) -> Iterator[Release | InvalidDocument]:
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
        no_files = any(text in message.lower() for text in _NO_FILES)
        problem = ReleaseProblem.NO_FILES if no_files else ReleaseProblem.NOT_RECORDED
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
    specifier = (text_of(entry, "required_version", at, 2_000) or "").strip()
    return name if specifier.lower() in _ANY else f"{name}{specifier}"


def _first_and_last(message: str) -> str:
    """Return the first and the last line of a traceback, which say what failed."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    return " … ".join(line[:400] for line in dict.fromkeys((*lines[:1], *lines[-1:])))


def _unparsed(entry: Record, at: str) -> Record:
    requirement = text_of(entry, "requirement", at, _LONGEST_TEXT) or ""
    raise InvalidDocument(
        Reason.INVALID_REQUIREMENT, f"the solver could not read {requirement[:200]!r}", field=at
    )


def _unresolved(entry: Record, at: str) -> Record:
    name = text_of(entry, "package_name", at) or ""
    specifier = text_of(entry, "version_spec", at, _LONGEST_TEXT) or ""
    raise InvalidDocument(
        Reason.UNRESOLVED, f"the solver found no version of {name}{specifier[:200]}", field=at
    )


def _within(error: InvalidDocument, at: str) -> InvalidDocument:
    """Return ``error`` with a field that is a path in the solver's document."""
    if error.field.startswith(at):
        return error
    inner = error.field.removeprefix("$").lstrip(".")
    message = f"{inner}: {error.message}" if inner else error.message
    return InvalidDocument(error.reason, message, field=at)
