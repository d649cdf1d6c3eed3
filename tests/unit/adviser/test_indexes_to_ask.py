"""Which indexes may have what a snapshot lacks of a request."""

from typing import Any

from adviser.advice_request import RequestIndex
from adviser.answering.knowledge import indexes_to_ask
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
) -> dict[str, tuple[str, ...]]:
    request = request_for(manifest, **options)
    snapshot, rules = snapshot_for(request, index), request.resolver_request({})
    asked = {it: indexes_to_ask(snapshot, rules, it, answers or {}) for it in snapshot.revisions}
    return {name: indexes for name, indexes in asked.items() if indexes}


def test_request_whose_packages_are_all_known_reads_no_index() -> None:
    assert lacks({"web": {"2.0": {"requires": ["core>=1"]}}, "core": {"1.0": {}}}) == {}


def test_missing_packages_are_requested_from_the_index() -> None:
    index = {"web": {"2.0": {"requires": ["core[fast]>=2"]}, "1.0": {"requires": ["core<2"]}}}
    assert lacks(index) == {"core": ("pypi",)}
    assert lacks({}, "web[x]>=1\n") == {"web": ("pypi",)}
    assert lacks({}, overrides={"web": "==7"}) == {"web": ("pypi",)}


def test_unread_package_is_requested_unless_the_index_has_answered() -> None:
    index: Index = {"web": {"2.0": {"requires": None}, "1.0": {"requires": None}}}
    assert lacks(index) == {"web": ("pypi",)}
    assert lacks(index, answers={("pypi", "web"): KNOWN}) == {}
    assert lacks({"web": {**index["web"], "0.1": {}}}) == {}


def test_package_is_requested_if_no_known_version_meets_the_request() -> None:
    index: Index = {"web": {"2.0": {}}}
    assert lacks(index, "web<2\n") == {"web": ("pypi",)}
    (pinned,) = request_for("web\n", files={"requirements.in": "web==1.0\n"}).roots
    assert lacks(index, constraints=(pinned,)) == {"web": ("pypi",)}
    # A version that cannot be installed here is known all the same.
    assert lacks({"web": {"2.0": {"requires_python": ">=3.13"}}}, "web==2.0\n") == {}


def test_package_known_only_from_another_index_is_requested() -> None:
    index: Index = {"web": {"2.0 other": {}}}
    assert lacks(index) == {"web": ("pypi",)}
    assert lacks(index, indexes=(OTHER,)) == {}


def test_earlier_index_must_lack_a_package_before_a_later_index_is_used() -> None:
    index: Index = {"web": {"2.0 other": {}}}
    both = {"indexes": (MAIN, OTHER)}
    assert lacks(index, **both) == {"web": ("pypi",)}
    assert lacks(index, answers={("pypi", "web"): FAILED}, **both) != {}
    for answer in (MISSING, KNOWN):
        assert lacks(index, answers={("pypi", "web"): answer}, **both) == {}


def test_package_with_a_named_index_is_requested_only_there() -> None:
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
    assert indexes_to_ask(snapshot, request.resolver_request({}), "web", {}) == ("other",)
