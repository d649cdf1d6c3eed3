"""What ``docker-compose.yml`` promises: health, lasting data, no password and no open port."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
STORES = ("postgres", "neo4j")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    return loaded


def test_the_services_are_those_that_the_system_needs(compose: dict[str, Any]) -> None:
    assert {"postgres", "neo4j", "migrate", "worker"} <= compose["services"].keys()


@pytest.mark.parametrize("name", STORES)
def test_a_store_has_a_health_check_and_a_volume(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    check = service["healthcheck"]
    assert check["test"]
    assert {"interval", "timeout", "retries"} <= check.keys()
    named = {volume.partition(":")[0] for volume in service["volumes"]}
    assert named
    assert named <= compose["volumes"].keys()


def test_work_waits_for_health_and_for_the_schema(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["migrate"]["depends_on"] == {
        name: {"condition": "service_healthy"} for name in STORES
    }
    condition = {"condition": "service_completed_successfully"}
    assert services["worker"]["depends_on"] == {"migrate": condition}
    assert services["worker"]["profiles"] == ["ingest"]


def test_no_password_is_baked_in(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name, value in service["environment"].items():
            if re.search("PASSWORD|AUTH|SECRET", name) or "://" in str(value):
                rest = re.sub(r"\$\{\w+:\?[^}]+\}", "", str(value))
                assert not re.search(r":[^/@]+@", rest), name
                if "://" not in str(value):
                    assert rest in {"", "neo4j/"}, name


def test_neo4j_gets_no_variable_that_it_would_take_for_a_setting(compose: dict[str, Any]) -> None:
    names = [n for n in compose["services"]["neo4j"]["environment"] if n.startswith("NEO4J_")]
    assert not [n for n in names if n != "NEO4J_AUTH" and "_" not in n.removeprefix("NEO4J_")]


def test_ports_are_published_on_loopback_only(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_neo4j_is_hardened_as_the_tests_server_is(compose: dict[str, Any]) -> None:
    from tests.services.neo4j.server import HARDENING

    environment = compose["services"]["neo4j"]["environment"]
    for name, value in HARDENING.items():
        variable = "NEO4J_" + name.replace("_", "__").replace(".", "_")
        assert environment[variable] == value


def test_the_image_runs_as_a_user_of_its_own() -> None:
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("USER ")] == ["USER thoth"]
    assert not re.search(r"(?i)password|secret|token", "\n".join(lines))
