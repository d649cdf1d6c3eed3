"""Advisories that are aliases of each other, merged into vulnerabilities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from common.advisories import AdvisoryHead, Rating, worst

#: Whose identifier names a vulnerability that has several, best first.
_PREFERRED = ("CVE-", "GHSA-", "PYSEC-")


@dataclass(frozen=True, slots=True)
class Vulnerability:
    """One vulnerability: what all advisories about it say together.

    :param aliases: every identifier that it is known by, its own included, sorted; what else
        withdrawn advisories call it is among them only if all of its advisories are
    :param withdrawn_at: set if all of its advisories are withdrawn
    :param document_id: of the advisory whose identifier is preferred
    :param advisory_ids: its advisories, sorted
    """

    vulnerability_id: str
    aliases: tuple[str, ...]
    summary: str | None
    rating: Rating
    published_at: datetime | None
    modified_at: datetime
    withdrawn_at: datetime | None
    document_id: str
    advisory_ids: tuple[str, ...]


def merged(advisories: Collection[AdvisoryHead]) -> list[Vulnerability]:
    """The vulnerabilities that these advisories are about; their order never matters.

    Two advisories are about the same if one names the other, or both name a third
    identifier, or a chain of such leads from one to the other. A withdrawn advisory joins
    nothing, for it may have been withdrawn because it did: it goes to the one that has its
    identifier, else to the one that has the best of its aliases, and only those that go
    nowhere are joined with each other.
    """
    parents: dict[str, str] = {}
    valid = [head for head in advisories if head.withdrawn_at is None]
    _join_all(parents, valid)
    named = {identifier for head in valid for identifier in _identifiers(head)}
    homes: dict[str, str] = {}
    for head in advisories:
        known = [it for it in head.aliases if it in named]
        if head.withdrawn_at is None or head.advisory_id in named:
            homes[head.advisory_id] = head.advisory_id
        elif known:
            homes[head.advisory_id] = min(known, key=preference)
    _join_all(parents, [head for head in advisories if head.advisory_id not in homes])
    groups: dict[str, list[AdvisoryHead]] = defaultdict(list)
    for head in advisories:
        groups[_root(parents, homes.get(head.advisory_id, head.advisory_id))].append(head)
    return [_vulnerability(group) for group in groups.values()]


def _identifiers(head: AdvisoryHead) -> tuple[str, ...]:
    return head.advisory_id, *head.aliases


def preference(identifier: str) -> tuple[int, str]:
    """Place of an identifier in the order in which they name a vulnerability.

    >>> sorted(["PYSEC-2021-1", "GHSA-x", "OSV-1", "CVE-2021-9", "CVE-2021-10"], key=preference)
    ['CVE-2021-10', 'CVE-2021-9', 'GHSA-x', 'PYSEC-2021-1', 'OSV-1']
    """
    places = (place for place, prefix in enumerate(_PREFERRED) if identifier.startswith(prefix))
    return next(places, len(_PREFERRED)), identifier


def _root(parents: dict[str, str], identifier: str) -> str:
    root = identifier
    while (above := parents.get(root, root)) != root:
        root = above
    # Paths are shortened on the way, so that long chains cost little more than short ones.
    while identifier != root:
        parents[identifier], identifier = root, parents.get(identifier, root)
    return root


def _join_all(parents: dict[str, str], heads: Collection[AdvisoryHead]) -> None:
    for head in heads:
        for alias in head.aliases:
            parents[_root(parents, head.advisory_id)] = _root(parents, alias)


def _vulnerability(group: list[AdvisoryHead]) -> Vulnerability:
    heads = sorted(group, key=lambda head: preference(head.advisory_id))
    valid = [head for head in heads if head.withdrawn_at is None] or heads
    withdrawn = [head.withdrawn_at for head in heads if head.withdrawn_at is not None]
    identifiers = {it for head in valid for it in _identifiers(head)}
    return Vulnerability(
        vulnerability_id=min(identifiers, key=preference),
        aliases=tuple(sorted(identifiers | {head.advisory_id for head in heads})),
        summary=next((head.summary for head in valid if head.summary), None),
        rating=worst(head.rating for head in valid),
        published_at=min((it.published_at for it in valid if it.published_at), default=None),
        modified_at=max(head.modified_at for head in heads),
        withdrawn_at=max(withdrawn) if len(withdrawn) == len(heads) else None,
        document_id=valid[0].document_id,
        advisory_ids=tuple(sorted(head.advisory_id for head in heads)),
    )
