"""What a request may choose from: usable versions in their order, the others with their reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from common.packages import Purl
from graph.candidates import Candidate, Dependency, ExclusionReason


class RequestRule(StrEnum):
    """Why a request leaves a candidate out; the value is stored, never renamed."""

    CONSTRAINT = "constraint"
    EXCLUSION = "exclusion"
    #: Uploaded outside the request's dates, or nobody knows when.
    PUBLISHED = "published"
    #: It is on an index that the package does not come from.
    OTHER_INDEX = "other_index"
    #: A rule of the caller's, such as one about vulnerabilities.
    POLICY = "policy"


@dataclass(frozen=True, slots=True)
class RefusedVersion:
    """A version that cannot be chosen.

    :param message: for a person: ``needs glibc 2.34, this environment has 2.28``
    :param candidate: what it would be if it were not refused by a rule of the request;
        ``None`` where the snapshot has it as no candidate
    :param rule: the rule in full, such as ``numpy<2``; one text for all that it refuses
    """

    version: str
    reason: RequestRule | ExclusionReason
    message: str
    candidate: Candidate | None = None
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Universe:
    """What may be chosen, and by what measure. The checker and the model read nothing else.

    A pre-release may be chosen if its package is in ``prereleases``, if something that is
    asked of the package names a pre-release, or if all that is asked of it together leaves
    no other version (PEP 440, and pip). A yanked version may be chosen if it is in ``pinned``
    or something that is asked of the package pins it exactly (PEP 592; pip, not uv, where
    only the request itself can do that).

    An extra that a version does not offer brings nothing, as with pip and uv.

    :param packages: usable versions by name, newest first, no version twice
    :param refused: the others
    :param roots: what is asked for
    :param contributions: of each version to the score of a stack by each criterion
        (:mod:`adviser.resolver.admission`); nothing for zeroes
    :param overrides: by name, the specifier that replaces what anybody asks of the package
    """

    packages: Mapping[str, Sequence[Candidate]]
    refused: Mapping[str, Sequence[RefusedVersion]]
    roots: tuple[Dependency, ...]
    contributions: Mapping[Purl, tuple[int, ...]] = field(default_factory=dict)
    prereleases: frozenset[str] = frozenset()
    pinned: frozenset[Purl] = frozenset()
    overrides: Mapping[str, str] = field(default_factory=dict)

    def asked(self, dependency: Dependency) -> str:
        """The specifier that counts, overrides considered."""
        return self.overrides.get(dependency.name, dependency.specifier)

    def score(self, candidate: Candidate) -> int:
        """What choosing this version adds to the score of a stack, never above 0."""
        return sum(self.contributions.get(candidate.purl, ()))
