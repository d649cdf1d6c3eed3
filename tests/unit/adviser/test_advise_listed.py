"""Advice over listed versions, of which few are read."""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType

import pytest

from adviser.advise import Advice, UnreadVersions, advise, advise_listed
from adviser.resolver.checker import check_resolution
from adviser.resolver.listed_versions import NeededReads
from adviser.resolver.results import ResolutionStatus
from cli.advise import certificate_line
from model.packages.candidates import KnownVulnerability
from model.packages.identity import Purl
from model.packages.snapshot import Snapshot, revision_of
from tests.factories.reports import report_of
from tests.factories.requests import NOTHING, advice_for, request_for, snapshot_for
from tests.factories.universes import Index

#: ``web`` conflicts with ``tool`` in its newest 40 versions.
INDEX: Index = {
    "web": {f"1.{n}": {"requires": [f"core>={2 if n > 160 else 1}"]} for n in range(1, 201)},
    "tool": {f"{n}.0": {"requires": ["core<2"]} for n in range(1, 9)},
    "core": {f"{n}.0": {} for n in range(1, 4)},
    "far": {"1.0": {}},
}


class Pages:
    """An index that is read on demand."""

    def __init__(self, truth: Snapshot) -> None:
        self.truth = truth
        self.listed = set[str]()
        self.read = set[Purl]()
        self.rounds: list[NeededReads] = []

    def snapshot(self) -> Snapshot:
        known = replace(
            self.truth,
            packages=MappingProxyType(
                {
                    name: tuple(
                        it
                        if it.purl in self.read
                        else replace(it, requires=(), extras=(), read=False)
                        for it in candidates
                    )
                    for name, candidates in self.truth.packages.items()
                    if name in self.listed
                }
            ),
            excluded=MappingProxyType(dict.fromkeys(sorted(self.listed), ())),
            extras=MappingProxyType(dict.fromkeys(sorted(self.listed), ())),
        )
        return replace(known, revision=revision_of(known))

    def follow(self, reads: NeededReads) -> None:
        self.rounds.append(reads)
        self.listed.update(reads.packages)
        self.read.update(it.purl for it in reads.versions)


def advised(manifest: str, index: Index = INDEX, *, read_all: bool = False) -> tuple[Advice, Pages]:
    """Advice, and what was read for it."""
    request = request_for(manifest)
    pages = Pages(snapshot_for(request, index))
    if read_all:
        pages.listed.update(index)
        pages.read.update(it.purl for them in pages.truth.packages.values() for it in them)
    rounds = advise_listed(request, pages.snapshot(), NOTHING)
    try:
        reads = next(rounds)
        while True:
            pages.follow(reads)
            reads = rounds.send((pages.snapshot(), NOTHING))
    except StopIteration as end:
        return end.value, pages


def test_optimality_over_all_listed_versions_is_proven_with_few_reads() -> None:
    advice, pages = advised("web\ntool\n")
    whole = advice_for(request_for("web\ntool\n"), INDEX)
    assert advice.best.versions() == whole.best.versions()
    assert advice.resolution.status is ResolutionStatus.OPTIMAL
    assert check_resolution(advice.universe, advice.resolution) == []
    assert len(pages.rounds) <= 9
    total = sum(map(len, INDEX.values()))
    read = len(pages.read)
    assert "far" not in pages.listed
    scope = f"over {total - 1} listed versions of 3 packages ({read} read): score"
    assert scope in certificate_line(report_of(advice))


def test_thousand_releases_are_resolved_in_few_rounds_of_reads() -> None:
    index: Index = {
        "a": {f"1.{n}": {"requires": ["d<2"]} for n in range(1, 1001)},
        "d": {"1.0": {}, "2.0": {}},
    }
    # The newness of d comes before that of a, so each release of a is a candidate until read.
    advice, pages = advised("d\na\n", index)
    assert advice.best.versions() == {"a": "1.1000", "d": "1.0"}
    assert len(pages.read) == 1002
    assert len(pages.rounds) <= 12


def certificate_of(manifest: str, index: Index, *, read_all: bool = False) -> dict[str, object]:
    advice, _ = advised(manifest, index, read_all=read_all)
    certificate: dict[str, object] = report_of(advice)["result"]["report"]["certificate"]
    return certificate


def test_certificate_states_whether_unread_versions_could_be_better() -> None:
    key = "unread_invitations_ignored"
    index = {**INDEX, "web": {"1.201rc1": {"requires": ["core>=2"]}, **INDEX["web"]}}
    assert certificate_of("web\ntool\n", index)[key] is True
    assert certificate_of("web\ntool\n", index, read_all=True)[key] is False
    # Nothing can be invited.
    assert certificate_of("web\ntool\n", INDEX)[key] is False
    # An invited version would make the stack worse.
    worse = {**INDEX, "core": {"0.9rc1": {}, **INDEX["core"]}}
    assert certificate_of("web\ntool\n", worse)[key] is False
    # The newest version of each package: no stack can be better, whatever is unread.
    assert certificate_of("web\n", index)[key] is False
    # A conflict is proven with all invitations.
    assert certificate_of("web>1.160\ntool\n", index)[key] is False


def test_report_notes_unread_versions_that_the_optimality_proof_ignores() -> None:
    index = {**INDEX, "web": {"1.201rc1": {"requires": ["core>=2"]}, **INDEX["web"]}}

    def codes(index: Index) -> set[str]:
        report = report_of(advised("web\ntool\n", index)[0])
        return {it["code"] for it in report["result"]["report"]["stack_info"]}

    assert "unread_invitations" in codes(index)
    assert "unread_invitations" not in codes(INDEX)


def test_advice_can_be_reproduced_from_its_stored_snapshot() -> None:
    advice, _ = advised("web\ntool\n")
    again = advise(advice.request, Snapshot.from_json(advice.snapshot.to_json()), NOTHING)
    assert report_of(again) == report_of(advice)


def test_infeasibility_is_proven_over_all_listed_versions() -> None:
    advice, _ = advised("web>1.160\ntool\n")
    assert advice.resolution.status is ResolutionStatus.INFEASIBLE
    assert advice.resolution.conflict.minimal


def test_advice_on_unread_required_versions_is_an_error() -> None:
    request = request_for("web\ntool\n")
    with pytest.raises(UnreadVersions, match="not read yet: tool, web") as caught:
        advise(request, Pages(snapshot_for(request, INDEX)).snapshot(), NOTHING)
    assert caught.value.reads.packages == ("tool", "web")
    rounds = advise_listed(request, Pages(snapshot_for(request, INDEX)).snapshot(), NOTHING)
    next(rounds)
    with pytest.raises(ValueError, match="the caller read none"):
        rounds.send((Pages(snapshot_for(request, INDEX)).snapshot(), NOTHING))


def unread(index: Index, names: Collection[str]) -> Snapshot:
    pages = Pages(snapshot_for(request_for("web\n"), index))
    pages.listed.update(names)
    return pages.snapshot()


def test_snapshot_with_unread_versions_is_read_back_from_json() -> None:
    moment = "2024-05-06T07:08:09.123456+00:00"
    index: Index = {
        "web": {
            "3.0rc1": {"yanked": True, "uploaded_at": moment, "requires_python": ">=3.8"},
            "2.0": {"wheels": ["cp311-cp311-manylinux_2_17_x86_64"]},
            "2.0+cpu other": {},
            "1.5": {"wheels": [], "sdist": True},
            "1.0": {},
        }
    }
    snapshot = unread(index, {"web"})
    web = tuple(
        replace(it, vulnerabilities=(KnownVulnerability("CVE-1", "high"),)) if n == 4 else it
        for n, it in enumerate(snapshot.packages["web"])
    )
    snapshot = replace(snapshot, packages=MappingProxyType({"web": web}))
    snapshot = replace(snapshot, revision=revision_of(snapshot))
    again = Snapshot.from_json(snapshot.to_json())
    assert again == snapshot
    assert again.to_json() == snapshot.to_json()
    assert b'"snapshot-2"' in snapshot.to_json()
    assert again.packages["web"][0].uploaded_at == datetime(2024, 5, 6, 7, 8, 9, 123456, UTC)
    assert b'"snapshot-1"' in snapshot_for(request_for("web\n"), index).to_json()
