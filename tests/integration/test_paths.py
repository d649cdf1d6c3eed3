"""Paths: which requirement leads to a vulnerability, and which jobs an advice rests on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import event

from api.resources.stacks import stack_labels
from common.settings import Settings
from graph.engine import Stores, relational_engine
from graph.record.tokens import Scope
from tests.factories.affected_stacks import AFFECTED_STACK, add_affected_stack
from tests.services.jobs import client_of


@pytest.fixture
def client(stores: Stores) -> Iterator[FlaskClient]:
    with stores.engine.begin() as connection:
        add_affected_stack(connection)
    with client_of(stores.settings) as client:
        yield client


def test_a_shortest_chain_of_requirements_leads_to_each_vulnerability(client: FlaskClient) -> None:
    document = client.get(f"/api/v2/stacks/{AFFECTED_STACK}/path").get_json()
    chains = {it["vulnerability_id"]: it for it in document["chains"]}
    lib = chains["CVE-2026-1"]
    assert lib["requirements"] == ["a-web>=2", "a-lib<2"]  # not the extra, although it is shorter
    assert [it.partition("@")[0] for it in lib["releases"]] == [
        "pkg:pypi/an-app", "pkg:pypi/a-web", "pkg:pypi/a-lib",
    ]  # fmt: skip
    kinds = {it["id"]: it["kind"] for it in document["nodes"]}
    ends = {(it["source"], it["target"]) for it in document["edges"]}
    assert {end for pair in ends for end in pair} == kinds.keys()
    assert (lib["releases"][-1], "CVE-2026-1") in ends


def test_a_release_that_nothing_requires_without_an_extra_is_a_start(client: FlaskClient) -> None:
    document = client.get(f"/api/v2/stacks/{AFFECTED_STACK}/path").get_json()
    (tool,) = (it for it in document["chains"] if it["vulnerability_id"] == "CVE-2026-2")
    assert tool["requirements"] == []
    from_app = client.get(f"/api/v2/stacks/{AFFECTED_STACK}/path?package=An.App").get_json()
    (tool,) = (it for it in from_app["chains"] if it["vulnerability_id"] == "CVE-2026-2")
    assert tool["requirements"] == ['a-tool; extra == "tool"']
    from_lib = client.get(f"/api/v2/stacks/{AFFECTED_STACK}/path?package=a-lib").get_json()
    assert [it["vulnerability_id"] for it in from_lib["chains"]] == ["CVE-2026-1"]


def test_a_vulnerability_leads_to_the_stacks_that_contain_it(
    stores: Stores, client: FlaskClient
) -> None:
    address = "/vulnerabilities/CVE-2026-1"
    assert f'href="{address}"' in client.get("/packages/a-lib").get_data(as_text=True)
    assert f"/stacks/{AFFECTED_STACK}/path" not in client.get(address).get_data(as_text=True)
    assert 'href="/packages/a-lib/versions/1.0"' in client.get(address).get_data(as_text=True)
    with client_of(stores.settings, Scope.ADMIN) as operator:
        assert f"/stacks/{AFFECTED_STACK}/path" in operator.get(address).get_data(as_text=True)
        stacks = operator.get("/api/v2/stacks?vulnerability=CVE-2026-1").get_json()["items"]
        assert [it["digest"] for it in stacks] == [AFFECTED_STACK]
        other = operator.get("/api/v2/stacks?vulnerability=CVE-2026-9").get_json()["items"]
    assert other == []


def test_a_cut_list_of_chains_says_so(client: FlaskClient) -> None:
    document = client.get(f"/api/v2/stacks/{AFFECTED_STACK}/path?limit=1").get_json()
    assert [it["vulnerability_id"] for it in document["chains"]] == ["CVE-2026-1"]
    assert document["truncated"]
    assert "CVE-2026-2" not in {it["id"] for it in document["nodes"]}
    whole = client.get(f"/api/v2/stacks/{AFFECTED_STACK}/path?limit=2").get_json()
    assert not whole["truncated"]


def test_labels_of_stacks_take_the_same_queries_for_any_number(
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


def test_an_advice_leads_to_the_jobs_that_it_rests_on(filled: Settings, filled_app: Flask) -> None:
    with client_of(filled, Scope.ADMIN) as operator:
        (advice,) = operator.get("/api/v2/advice").get_json()["items"]
    address = f"/advice/{advice['advice_id']}"
    client = filled_app.test_client()
    head = client.get(f"/api/v2{address}").get_json()
    document = client.get(f"/api/v2{address}/path").get_json()
    jobs = [it for it in document["nodes"] if it["kind"] == "job"]
    assert len(jobs) == head["evidence"]
    assert not document["truncated"]
    stacks = {it["target"] for it in document["edges"] if it["source"] == advice["advice_id"]}
    assert {it["stack_digest"] for it in head["stacks"]} <= stacks
    content = client.get(f"{address}/path").get_data(as_text=True)
    assert all(f"/jobs/{it['id']}" in content for it in jobs)
    assert client.get("/api/v2/advice/none/path").status_code == 404
