"""What a snapshot lacks of a request, and whose turn it is to be asked for it."""

from __future__ import annotations

from typing import Any

from adviser.answering.missing_packages import MissingPackage, missing_packages_of
from adviser.stack_request import RequestIndex
from graph.record.indexes import IndexAnswer
from tests.factories.requests import MAIN, request_for, snapshot_for
from tests.factories.universes import Index

OTHER = RequestIndex("other", "other", "https://other.example/simple")
KNOWN, MISSING, FAILED = (IndexAnswer("pypi", it) for it in ("known", "missing", "failed"))


def lacks(
    index: Index,
    manifest: str = "web\n",
    answers: dict[tuple[str, str], IndexAnswer] | None = None,
    **options: Any,
) -> list[MissingPackage]:
    request = request_for(manifest, **options)
    rules = request.resolver_request({})
    return list(missing_packages_of(snapshot_for(request, index), rules, answers or {}))


def test_a_closure_that_is_known_lacks_nothing() -> None:
    assert lacks({"web": {"2.0": {"requires": ["core>=1"]}}, "core": {"1.0": {}}}) == []


def test_what_is_missing_is_asked_for() -> None:
    index = {"web": {"2.0": {"requires": ["core[fast]>=2"]}, "1.0": {"requires": ["core<2"]}}}
    assert lacks(index) == [MissingPackage("core", ("pypi",))]
    assert lacks({}, "web[x]>=1\n") == [MissingPackage("web", ("pypi",))]
    assert lacks({}, overrides={"web": "==7"}) == [MissingPackage("web", ("pypi",))]


def test_what_nobody_read_is_asked_for_unless_its_index_was() -> None:
    index: Index = {"web": {"2.0": {"requires": None}, "1.0": {"requires": None}}}
    assert [it.name for it in lacks(index)] == ["web"]
    assert lacks(index, answers={("pypi", "web"): KNOWN}) == []
    assert lacks({"web": {**index["web"], "0.1": {}}}) == []


def test_a_package_is_asked_for_if_no_read_version_meets_the_request() -> None:
    index: Index = {"web": {"2.0": {}}}
    assert lacks(index, "web<2\n") == [MissingPackage("web", ("pypi",))]
    (pinned,) = request_for("web\n", files={"requirements.in": "web==1.0\n"}).roots
    assert lacks(index, constraints=(pinned,)) == [MissingPackage("web", ("pypi",))]
    # A version that cannot be installed here is known all the same.
    assert lacks({"web": {"2.0": {"requires_python": ">=3.13"}}}, "web==2.0\n") == []


def test_a_package_that_only_another_index_has_is_lacking() -> None:
    index: Index = {"web": {"2.0 other": {}}}
    assert lacks(index) == [MissingPackage("web", ("pypi",))]
    assert lacks(index, indexes=(OTHER,)) == []


def test_an_index_that_comes_first_is_asked_before_a_later_one_is_believed() -> None:
    index: Index = {"web": {"2.0 other": {}}}
    both = {"indexes": (MAIN, OTHER)}
    assert lacks(index, **both) == [MissingPackage("web", ("pypi",))]
    assert lacks(index, answers={("pypi", "web"): FAILED}, **both) != []
    for answer in (MISSING, KNOWN):
        assert lacks(index, answers={("pypi", "web"): answer}, **both) == []


def test_a_package_that_names_its_index_is_for_that_one_alone() -> None:
    files = {
        "Pipfile": """
[[source]]
name = "main"
url = "https://index.example/simple"
verify_ssl = true

[[source]]
name = "other"
url = "https://other.example/simple"
verify_ssl = true

[packages]
web = {version = "*", index = "other"}
"""
    }
    request = request_for(files=files, indexes=(MAIN, OTHER))
    snapshot = snapshot_for(request, {"web": {"2.0": {}}})
    (lack,) = missing_packages_of(snapshot, request.resolver_request({}), {})
    assert lack.indexes == ("other",)
    assert not lack.may_be_asked("pypi", {}, ["pypi", "other"])
    assert lack.may_be_asked("other", {}, ["pypi", "other"])


def test_it_is_an_indexes_turn_when_all_before_it_said_no() -> None:
    lack, both = MissingPackage("web", ("pypi", "other")), ["pypi", "other"]
    assert lack.may_be_asked("pypi", {}, both)
    assert not lack.may_be_asked("other", {}, both)
    for answer in (FAILED, KNOWN):
        assert not lack.may_be_asked("other", {("pypi", "web"): answer}, both)
    assert lack.may_be_asked("other", {("pypi", "web"): MISSING}, both)
    # Nobody can ask one that is not configured, and a report warns of it.
    assert lack.may_be_asked("other", {}, ["other"])
