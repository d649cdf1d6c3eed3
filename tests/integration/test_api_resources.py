"""Our own resources on a real record: what they say, page by page, and what they refuse."""

from collections import Counter

import pytest
from flask import Flask
from flask.testing import FlaskClient
from packaging.version import Version
from sqlalchemy import delete, event, insert, select, text

from adviser.stack_comparison import compare_stacks
from adviser.stacks_document import stacks_document
from api.resources.stacks import stack_labels
from api.store_access import EXTENSION
from common.settings import Settings
from graph.engine import Stores, relational_engine
from graph.record.access import Scope, create_token
from graph.record.measurements import measured_observations
from graph.tables import AdvisorySource
from model.measurements.evidence import MeasuredObservation
from tests.factories.affected_stacks import AFFECTED_STACK, add_affected_stack
from tests.services.commands import thoth_json
from tests.services.filled import UNPROTECTED, every, got
from tests.services.jobs import client_of


@pytest.fixture
def client(filled_client: FlaskClient) -> FlaskClient:
    """Without a token, nobody lists what others asked."""
    return filled_client


def test_vulnerabilities_are_unknown_without_advisories(client: FlaskClient) -> None:
    version = "packages/flask/versions/3.1.3"
    places = {"vulnerabilities": "items", f"{version}/vulnerabilities": "items"}
    service = client.application.extensions[EXTENSION]
    assert None not in [got(client, f"/api/v2/{it}")[name] for it, name in places.items()]
    with service.writing() as connection:
        sources = [it._asdict() for it in connection.execute(select(AdvisorySource))]
        connection.execute(UNPROTECTED)
        connection.execute(delete(AdvisorySource))
    try:
        values = [got(client, f"/api/v2/{it}")[name] for it, name in places.items()]
        counts = [
            it["vulnerabilities"] for it in got(client, "/api/v2/packages/flask/versions")["items"]
        ]
        pages = [client.get(f"/{it}").text for it in ("packages/flask", version)]
    finally:
        with service.writing() as connection:
            connection.execute(UNPROTECTED)
            connection.execute(insert(AdvisorySource).values(sources))
    assert values == [None] * 2
    assert set(counts) == {None}
    assert all("no advisories were read" in it for it in pages)


def test_vulnerability_lists_only_stacks_visible_to_the_client(stores: Stores) -> None:
    with stores.engine.begin() as connection:
        add_affected_stack(connection)
    address, stack = "/vulnerabilities/CVE-2026-1", f"/stacks/{AFFECTED_STACK}"
    with client_of(stores.settings) as client:
        assert f'href="{address}"' in client.get("/packages/a-lib").get_data(as_text=True)
        assert stack not in client.get(address).get_data(as_text=True)
        assert 'href="/packages/a-lib/versions/1.0"' in client.get(address).get_data(as_text=True)
    with client_of(stores.settings, Scope.ADMIN) as operator:
        assert stack in operator.get(address).get_data(as_text=True)
        stacks = operator.get("/api/v2/stacks?vulnerability=CVE-2026-1").get_json()["items"]
        assert [it["digest"] for it in stacks] == [AFFECTED_STACK]
        other = operator.get("/api/v2/stacks?vulnerability=CVE-2026-9").get_json()["items"]
    assert other == []


def test_number_of_queries_for_stack_labels_is_constant(
    filled: Settings, filled_app: Flask
) -> None:
    client = filled_app.test_client()
    stacks = client.get("/api/v2/stacks?measured=true&limit=100").get_json()["items"]
    groups = client.get("/api/v2/comparison-groups?limit=50").get_json()["items"]
    labels = {it["stack_digest"]: it["label"] for group in groups for it in group["stacks"]}
    listed = {it["digest"]: it["label"] for it in stacks}
    assert len(labels) > 3
    assert labels.items() <= listed.items()
    engine = relational_engine(filled)
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *it: statements.append(it[2]))
    with engine.connect() as connection:
        assert stack_labels(connection, list(labels)) == labels
    assert len(statements) == 3
    engine.dispose()
    content = client.get("/compare").get_data(as_text=True)
    assert all(it in content for it in labels.values())


def counted(settings: Settings, query: str) -> int:
    engine = relational_engine(settings)
    with engine.connect() as connection:
        found = connection.scalar(text(query))
    engine.dispose()
    return int(found or 0)


def test_api_lists_have_every_row_of_the_record(client: FlaskClient, filled: Settings) -> None:
    for path, table in (
        ("packages", "packages"), ("stacks", "stacks"), ("inspections", "inspections"),
        ("observations", "observations"), ("hardware", "hardware"), ("events", "package_events"),
        ("vulnerabilities", "vulnerabilities"), ("advice", "advice"),
    ):  # fmt: skip
        found = sum(1 for _ in every(client, f"/api/v2/{path}", 50))
        assert found == counted(filled, f"SELECT count(*) FROM {table}"), path
    assert found == 1


def test_packages_are_found_by_part_of_the_name(client: FlaskClient) -> None:
    names = [it["name"] for it in every(client, "/api/v2/packages", 50, like="Flas")]
    assert names == ["flask"]
    assert got(client, "/api/v2/packages", like="%")["items"] == []
    assert got(client, "/api/v2/packages", index="elsewhere")["items"] == []
    flask = got(client, "/api/v2/packages/Flask")
    assert (flask["name"], flask["indexes"]) == ("flask", ["pypi"])
    assert flask["versions"] == len(got(client, "/api/v2/packages/flask/versions")["items"])


def test_versions_are_listed_newest_first(client: FlaskClient) -> None:
    found = [it["version"] for it in every(client, "/api/v2/packages/numpy/versions", 2)]
    assert found == sorted(found, key=Version, reverse=True)
    assert {"2.5.5", "1.26.4"} <= set(found)


def test_versions_are_found_in_any_spelling(client: FlaskClient) -> None:
    one = got(client, "/api/v2/packages/flask/versions/3.1.3")
    assert got(client, "/api/v2/packages/FLASK/versions/v3.1.3.0") == one
    got(client, "/api/v2/packages/flask/versions/3.1.3", 404, index="elsewhere")
    got(client, "/api/v2/packages/flask/versions/no version", 404)


def test_release_files_are_listed_with_hashes(client: FlaskClient, filled: Settings) -> None:
    files = got(client, "/api/v2/packages/flask/versions/3.1.3/files")["items"]
    assert {it["kind"] for it in files} == {"wheel", "sdist"}
    assert all(len(it["sha256"]) == 64 and it["listed"] for it in files)


def test_vulnerability_is_found_by_each_alias(client: FlaskClient) -> None:
    whole = got(client, "/api/v2/vulnerabilities/CVE-2023-30861")
    assert len(whole["aliases"]) > 1
    for alias in whole["aliases"]:
        assert got(client, f"/api/v2/vulnerabilities/{alias}") == whole
        found = got(client, "/api/v2/vulnerabilities", alias=alias)["items"]
        assert [it["vulnerability_id"] for it in found] == ["CVE-2023-30861"]
    withdrawn = got(client, "/api/v2/vulnerabilities", withdrawn="true")["items"]
    assert all(it["withdrawn_at"] for it in withdrawn)
    got(client, "/api/v2/vulnerabilities", 400, withdrawn="perhaps")


def test_stacks_are_filtered_by_package_and_version(client: FlaskClient) -> None:
    found = list(every(client, "/api/v2/stacks", 2, package="NumPy", version="2.0.2"))
    assert found
    for it in found:
        stack = got(client, f"/api/v2/stacks/{it['digest'].removeprefix('sha256:')}")
        assert len(stack["packages"]) == stack["package_count"]
        assert ("numpy", "2.0.2") in {(it["name"], it["version"]) for it in stack["packages"]}
    got(client, "/api/v2/stacks", 400, version="2.0.2")
    measured = {it["digest"] for it in every(client, "/api/v2/stacks", 5, measured="true")}
    others = {it["digest"] for it in every(client, "/api/v2/stacks", 5, measured="false")}
    assert measured
    assert others
    assert measured.isdisjoint(others)


def test_inspection_is_served_with_the_outcomes_it_was_delivered_with(client: FlaskClient) -> None:
    for it in every(client, "/api/v2/inspections", 10):
        detail = got(client, f"/api/v2/inspections/{it['document_id']}")
        ours = Counter(
            it["outcome"]
            for it in every(client, "/api/v2/observations", 50, inspection=it["document_id"])
        )
        assert detail["outcomes"] == ours
    raw = client.get(f"/api/v2/inspections/{it['document_id']}/document")
    assert raw.headers["X-Thoth-As-Of"]
    assert raw.json
    stacks = [it["stack_digest"] for it in every(client, "/api/v2/inspections", 50)]
    one = next(it for it in stacks if it)
    assert len(got(client, "/api/v2/inspections", stack=one)["items"]) == stacks.count(one)


def test_observations_are_filtered_by_each_parameter(client: FlaskClient) -> None:
    whole = list(every(client, "/api/v2/observations", 500))
    for query, admits in (
        ({"outcome": "crashed"}, lambda it: it["outcome"] == "crashed"),
        ({"indicator": "PiMatmul"}, lambda it: it["indicator"] == "PiMatmul"),
        ({"hardware": whole[0]["hardware_digest"]},
         lambda it: it["hardware_digest"] == whole[0]["hardware_digest"]),
        ({"stack": whole[0]["stack_digest"]},
         lambda it: it["stack_digest"] == whole[0]["stack_digest"]),
        ({"comparison_key": whole[0]["comparison_key"]},
         lambda it: it["comparison_key"] == whole[0]["comparison_key"]),
    ):  # fmt: skip
        expected = [it for it in whole if admits(it)]
        assert list(every(client, "/api/v2/observations", 40, **query)) == expected, query
        assert len(expected) > 0
    holding = {it["digest"] for it in every(client, "/api/v2/stacks", 50, package="torch")}
    of_torch = list(every(client, "/api/v2/observations", 50, package="torch"))
    assert of_torch == [it for it in whole if it["stack_digest"] in holding]
    assert of_torch
    one = got(client, f"/api/v2/observations/{whole[0]['observation_id']}")
    assert whole[0].items() <= one.items()


def recorded(settings: Settings) -> list[MeasuredObservation]:
    engine = relational_engine(settings)
    with engine.connect() as connection:
        seen = list(measured_observations(connection))
    engine.dispose()
    return seen


@pytest.mark.parametrize("filtered", [False, True], ids=["everything", "one indicator"])
def test_api_comparison_of_two_stacks_equals_the_command_output(
    client: FlaskClient, filled: Settings, filtered: bool
) -> None:
    """Each comparison is the one among all stacks of the selection, whatever the page."""
    seen = recorded(filled)
    group = next(it for it in compare_stacks(seen) if len(it.stacks) > 2 and it.baseline)
    assert group.baseline is not None
    base = str(group.baseline.stack_digest)
    selection = {}
    if filtered:
        selection = {"indicator": group.indicator}
        seen = [it for it in seen if it.series.indicator == group.indicator]
    whole = stacks_document(compare_stacks(seen, base))["groups"]
    claimed = Counter()
    for other in group.stacks:
        if other.stack_digest == base:
            continue
        query = {"baseline": base, "candidate": other.stack_digest, **selection}
        found = got(client, "/api/v2/comparisons", limit=50, **query)["items"]
        expected = {
            it["comparison_key"]: next(
                stack["comparison"]
                for stack in it["stacks"]
                if stack["stack_digest"] == other.stack_digest
            )
            for it in whole
            if {base, other.stack_digest} <= {stack["stack_digest"] for stack in it["stacks"]}
        }
        assert {it["comparison_key"]: it["effect"] for it in found} == expected
        assert list(every(client, "/api/v2/comparisons", 1, **query)) == found
        claimed.update(it["effect"]["verdict"] for it in found)
    assert claimed["slower"] + claimed["faster"] > 0


def test_comparison_groups_may_use_the_newest_release_as_baseline(
    client: FlaskClient, filled: Settings
) -> None:
    seen = recorded(filled)
    found = list(every(client, "/api/v2/comparison-groups", 50, baseline="newest"))
    assert found == stacks_document(compare_stacks(seen, "newest"))["groups"]
    reasons = {it["baseline"]["reason"] for it in found if it["baseline"]}
    assert any(it.startswith("the newest release of numpy") for it in reasons)
    key = next(it["comparison_key"] for it in found if len(it["stacks"]) > 2)
    (series, *_) = got(client, f"/api/v2/reports/{key}", baseline="newest")["series"]
    assert series["baseline"]["reason"] in reasons


def test_filtered_comparisons_are_adjusted_together_over_all_pages(
    client: FlaskClient, filled: Settings
) -> None:
    seen = recorded(filled)
    first = seen[0].series
    package = next(it for it in compare_stacks(seen) if it.stacks).stacks[0].component
    for name, value, admits in (
        ("indicator", first.indicator, lambda it: it.indicator == first.indicator),
        ("hardware", first.hardware_digest, lambda it: it.hardware_digest == first.hardware_digest),
        ("package", package, lambda it: any(one.component == package for one in it.stacks)),
    ):
        selected = {it.comparison_key for it in compare_stacks(seen) if admits(it)}
        alone = [it for it in seen if it.series.comparison_key in selected]
        expected = stacks_document(compare_stacks(alone))["groups"]
        assert list(every(client, "/api/v2/comparison-groups", 2, **{name: value})) == expected
        assert expected
    printed = thoth_json(filled, "stacks", "--all", "--indicator", first.indicator)
    alone = [it for it in seen if it.series.indicator == first.indicator]
    assert printed["groups"] == stacks_document(compare_stacks(alone))["groups"]


def test_comparison_with_an_unknown_stack_is_not_found(client: FlaskClient) -> None:
    base = next(every(client, "/api/v2/stacks", 5, measured="true"))["digest"]
    same = got(client, "/api/v2/comparisons", baseline=base, candidate=base)
    assert same["items"] == []
    got(client, "/api/v2/comparisons", 404, baseline=base, candidate="sha256:none")
    got(client, "/api/v2/comparisons", 400, baseline=base)


def test_advice_links_to_its_report(client: FlaskClient) -> None:
    (head,) = got(client, "/api/v2/advice", python_version="3.12")["items"]
    advice = got(client, f"/api/v2/advice/{head['advice_id']}")
    report = got(client, f"/api/v2/advice/{head['advice_id']}/report")
    assert report["metadata"]["document_id"] == head["advice_id"]
    assert advice["stacks"][0]["rank"] == 1
    stack = got(client, f"/api/v2/stacks/{advice['stacks'][0]['stack_digest']}")
    assert stack["advised"] == 1
    assert "flask" in {it["name"] for it in stack["packages"]}
    assert got(client, "/api/v2/advice", status="infeasible")["items"] == []


@pytest.mark.parametrize("shown", [False, True], ids=["anonymous", "reader"])
def test_stacks_advised_to_other_clients_are_not_listed(
    client: FlaskClient, filled_app: Flask, filled: Settings, shown: bool
) -> None:
    query = "SELECT count(DISTINCT stack_digest) FROM advised_stacks WHERE stack_digest NOT IN"
    inspected = "SELECT stack_digest FROM inspections WHERE stack_digest IS NOT NULL"
    others = counted(filled, f"{query} ({inspected})")
    assert others > 0
    everything = {it["digest"] for it in every(client, "/api/v2/stacks", 50)}
    reader = filled_app.test_client()
    if shown:
        with filled_app.extensions[EXTENSION].writing() as connection:
            _, secret = create_token(connection, "reader", [Scope.READ, Scope.ADVISE], None)
        reader.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {secret}"
        assert got(reader, "/api/v2/advice")["items"] == []
    listed = {it["digest"] for it in every(reader, "/api/v2/stacks", 50)}
    assert len(everything - listed) == others
