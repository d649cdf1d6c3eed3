"""What ``docker-compose.yml`` promises: health, lasting data, no password and no open port."""

import configparser
import json
import os
import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from api.server.http_server import GRACE_S
from api.server.supervisor import GRACE_S as SUPERVISORS_GRACE_S
from api.server.supervisor import metrics_folder
from cli import main as cli
from cli.service import PROCESSES, queue_sets, workers_of

ROOT = Path(__file__).parents[2]
STORES = ("postgres", "neo4j")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    return loaded


def test_compose_defines_the_needed_services(compose: dict[str, Any]) -> None:
    wanted = {"postgres", "neo4j", "migrate", "api", "worker", "ingest"}
    assert wanted == compose["services"].keys()


@pytest.mark.parametrize("name", STORES)
def test_compose_store_has_a_health_check_and_a_volume(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    check = service["healthcheck"]
    assert check["test"]
    assert {"interval", "timeout", "retries"} <= check.keys()
    named = {volume.partition(":")[0] for volume in service["volumes"]}
    assert named
    assert named <= compose["volumes"].keys()


def test_services_wait_for_healthy_stores_and_the_migration(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["migrate"]["depends_on"] == {
        name: {"condition": "service_healthy"} for name in STORES
    }
    condition = {"condition": "service_completed_successfully"}
    for name in ("api", "worker", "ingest"):
        assert services[name]["depends_on"] == {"migrate": condition}
    assert services["ingest"]["profiles"] == ["ingest"]


def test_each_compose_service_has_limits_and_a_bounded_log(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        limits = service["deploy"]["resources"]["limits"]
        # Docker refuses more processors than the machine has.
        assert limits.keys() == {"memory", "pids"}, name
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}, name
    limits = compose["services"]["neo4j"]["deploy"]["resources"]["limits"]
    memory = compose["services"]["neo4j"]["environment"]
    assert (limits["memory"], memory["NEO4J_server_memory_heap_max__size"]) == ("3G", "1G")


def test_compose_worker_is_healthy_while_each_queue_has_a_heartbeat(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    check = compose["services"]["worker"]["healthcheck"]["test"]
    assert check[:3] == ["CMD", "python", "-c"]
    monkeypatch.setenv("THOTH_HOME", str(tmp_path))

    def status() -> object:
        with pytest.raises(SystemExit) as ended:
            exec(check[-1], {})  # noqa: S102 - the program of the health check
        return ended.value.code

    with metrics_folder(tmp_path / "run" / "metrics", "worker") as folder:
        beats = [it.heartbeat for it in workers_of(queue_sets(PROCESSES), folder)]
        for beat in filter(None, beats):
            assert status()
            beat.touch()
        assert not status()
        for beat in filter(None, beats):
            os.utime(beat, (0, 0))
            assert status()
            beat.touch()


def test_compose_services_restart_and_have_time_to_stop(compose: dict[str, Any]) -> None:
    for name, grace_s in (("api", GRACE_S), ("worker", SUPERVISORS_GRACE_S)):
        service = compose["services"][name]
        assert service["restart"] == "unless-stopped"
        assert int(service["stop_grace_period"].removesuffix("s")) > grace_s


def test_commands_of_containers_exist(compose: dict[str, Any]) -> None:
    lines = [it["command"] for it in compose["services"].values() if "command" in it]
    image = (ROOT / "Dockerfile").read_text("utf-8")
    lines.append(json.loads(image.rpartition("\nCMD ")[2]))
    assert len(lines) == 5
    for line in lines:
        # Parsed, not run: options that there are not would be refused here.
        context = cli.thoth.make_context("thoth", list(line), resilient_parsing=True)
        command: click.Command = cli.thoth
        rest = list(line)
        while isinstance(command, click.Group):
            found = command.get_command(context, rest.pop(0))
            assert found is not None, line
            command = found
        command.make_context(line[0], rest)


def test_compose_service_is_reached_over_tls_only(compose: dict[str, Any]) -> None:
    api = compose["services"]["api"]
    assert "--tls-self-signed" in api["command"]
    assert api["ports"] == ["127.0.0.1:${SERVICE_PORT:-8443}:8443"]
    check = api["healthcheck"]["test"]
    compile(check[-1], "healthcheck", "exec")
    assert "https://localhost:8443/livez" in check[-1]


def test_compose_passes_every_example_setting_to_the_services(compose: dict[str, Any]) -> None:
    example = re.findall(r"(?m)^([A-Z0-9_]+)=", (ROOT / ".env.example").read_text("utf-8"))
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    assert example
    assert [name for name in example if f"${{{name}" not in text] == []


def test_compose_contains_no_password(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name, value in service["environment"].items():
            if value is None:
                continue  # passed through
            if re.search("PASSWORD|AUTH|SECRET", name) or "://" in str(value):
                rest = re.sub(r"\$\{\w+:(?:\?[^}]+|-)\}", "", str(value))
                assert not re.search(r":[^/@]+@", rest), name
                if "://" not in str(value):
                    assert rest in {"", "neo4j/"}, name


def test_neo4j_gets_no_variable_that_it_would_read_as_a_setting(compose: dict[str, Any]) -> None:
    names = [n for n in compose["services"]["neo4j"]["environment"] if n.startswith("NEO4J_")]
    assert not [n for n in names if n != "NEO4J_AUTH" and "_" not in n.removeprefix("NEO4J_")]


def test_compose_publishes_ports_only_on_loopback(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_neo4j_in_compose_has_the_hardening_that_is_tested(compose: dict[str, Any]) -> None:
    from tests.services.neo4j.server import HARDENING

    environment = compose["services"]["neo4j"]["environment"]
    for name, value in HARDENING.items():
        variable = "NEO4J_" + name.replace("_", "__").replace(".", "_")
        assert environment[variable] == value


def test_docker_image_contains_every_package() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    wanted = {it.rstrip("*") for it in setup["options.packages.find"]["include"].split()}
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert ignored[0] == "*"
    assert wanted
    assert wanted <= {it.removeprefix("!") for it in ignored[1:] if it.startswith("!")}


def test_docker_image_runs_as_an_unprivileged_user() -> None:
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("USER ")] == ["USER thoth"]
    assert not re.search(r"(?i)password|secret|token", "\n".join(lines))
