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
from model.errors import InvalidDocument, Reason
from model.json_fields import Fields, Record
from model.packages.identity import Purl
from model.packages.releases import SOLVER, Release, ReleaseProblem

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

    document: Fields
    addresses: Mapping[str, str]
    now: datetime

    def as_of(self) -> datetime | None:
        """Return when the solver ran.

        :raises InvalidDocument: if it is not a time, or lies in the future
        """
        return self.document.nested("metadata").time("datetime", self.now)

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
        result = self.document.nested("result")
        for key, read in (
            ("tree", self._solved),
            ("errors", self._failed),
            ("unparsed", _unparsed),
            ("unresolved", _unresolved),
        ):
            for position, item in enumerate(result.sequence(key)):
                at = result.at / key / position
                try:
                    yield release_of(read(Fields(item, at)), now=self.now)
                except InvalidDocument as error:
                    yield _within(error, at)

    def _solved(self, entry: Fields) -> Record:
        requirements = list(map(_requirement, entry.each("dependencies")))
        return {**self._identity(entry), "requires_dist": requirements}

    def _failed(self, entry: Fields) -> Record:
        message = entry.nested("details").text("message", _LONGEST_TEXT) or ""
        no_files = any(text in message.lower() for text in _NO_FILES)
        problem = ReleaseProblem.NO_FILES if no_files else ReleaseProblem.NOT_RECORDED
        return {
            **self._identity(entry),
            "requires_dist": None,
            "problem": problem.value,
            "problem_message": _first_and_last(message),
        }

    def _identity(self, entry: Fields) -> Record:
        index = entry.get("index_url", entry.get("index"))
        if isinstance(index, str):
            known = self.addresses.get(index.rstrip("/"))
            index = known or index_name(index, entry.at / "index_url")
        return {
            "name": entry.get("package_name"),
            "version": entry.get("package_version", entry.get("version")),
            "index": index,
            "metadata_source": SOLVER,
        }


def _requirement(entry: Fields) -> str:
    name = entry.required_text("package_name")
    specifier = (entry.text("required_version", 2_000) or "").strip()
    return name if specifier.lower() in _ANY else f"{name}{specifier}"


def _first_and_last(message: str) -> str:
    """Return the first and the last line of a traceback, which say what failed."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    return " … ".join(line[:400] for line in dict.fromkeys((*lines[:1], *lines[-1:])))


def _unparsed(entry: Fields) -> Record:
    message = (
        f"the solver could not read {(entry.text('requirement', _LONGEST_TEXT) or '')[:200]!r}"
    )
    raise entry.invalid(Reason.INVALID_REQUIREMENT, message)


def _unresolved(entry: Fields) -> Record:
    specifier = entry.text("version_spec", _LONGEST_TEXT) or ""
    message = f"the solver found no version of {entry.text('package_name') or ''}{specifier[:200]}"
    raise entry.invalid(Reason.UNRESOLVED, message)


def _within(error: InvalidDocument, at: str) -> InvalidDocument:
    """Return ``error`` with a field that is a path in the solver's document."""
    if error.field.startswith(at):
        return error
    inner = error.field.removeprefix("$").lstrip(".")
    message = f"{inner}: {error.message}" if inner else error.message
    return InvalidDocument(error.reason, message, field=at)
