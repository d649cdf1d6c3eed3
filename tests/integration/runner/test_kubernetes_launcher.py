"""The launcher's client against a stand-in of the cluster's API, which checks what it is sent."""

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from common.settings import Settings
from loop.measuring import loop_launcher
from model.errors import InvalidSettings
from pis.amun.installer import BuildLog
from pis.amun.launchers import BuildFailed, Inspection, Job, JobResult, PreparedInspection, Script
from pis.amun.launchers.images import PYTHON, BuiltImage
from pis.amun.launchers.kubernetes import KubernetesLauncher, KubernetesUnavailable, push
from pis.amun.specification import load_specification
from tests.services.json_schemas import validate_manifest
from tests.services.web import Quiet, answer, serve

# Not imported here: it takes seconds, in every process that collects tests.
pytestmark = pytest.mark.skipif(
    find_spec("kubernetes") is None, reason="the extra `kubernetes` is not installed"
)

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: A Processor
stepping\t: 7
cpu cores\t: 2
flags\t\t: avx2 fma

processor\t: 1
"""
TIMES = {"startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:07Z"}


class Api(ThreadingHTTPServer):
    """Enough of the API for one Job: it ends at once, as ``terminated`` says."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.objects: dict[str, dict[str, Any]] = {}
        self.seen: list[dict[str, Any]] = []
        self.terminated: dict[str, Any] | None = None
        self.reason: str | None = None
        self.output = ""
        self.forbidden = False


class Answers(Quiet, BaseHTTPRequestHandler):
    server: Api

    def _answer(self, value: Any, status: int = 200) -> None:
        kind, text = (
            ("text/plain", value)
            if isinstance(value, str)
            else ("application/json", json.dumps(value))
        )
        answer(self, status, text.encode(), Content_Type=kind)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.forbidden:
            self._answer({"kind": "Status", "reason": "Forbidden"}, 403)
            return
        validate_manifest(body, "1.30")
        self.server.seen.append(body)
        self.server.objects[f"{self.path}/{body['metadata']['name']}"] = body
        self._answer(body, 201)

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = self.server.objects.pop(self.path.partition("?")[0], None)
        self._answer({"kind": "Status"}, 200 if found else 404)

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/api/v1/namespaces/measuring/pods":
            self._answer({"kind": "PodList", "items": [self._pod()]})
        elif path.endswith("/log"):
            self._answer(CPUINFO if "container=hardware" in query else self.server.output)
        elif path == "/api/v1/nodes/node-7":
            self._answer({"kind": "Node", "status": {"nodeInfo": NODE_INFO}})
        else:
            self._answer({"kind": "Status"}, 404)

    def _pod(self) -> dict[str, Any]:
        statuses = [
            {"name": "job", "image": "x", "imageID": "x", "ready": False, "restartCount": 0,
             "state": {"terminated": self.server.terminated}}
        ] if self.server.terminated else []  # fmt: skip
        status = {"phase": "Failed", "containerStatuses": statuses, "reason": self.server.reason}
        return {
            "metadata": {"name": "pod-0"},
            "spec": {"nodeName": "node-7", "containers": [{"name": "job"}]},
            "status": status,
        }


NODE_INFO = {
    "architecture": "amd64", "bootID": "b", "containerRuntimeVersion": "c",
    "kernelVersion": "6.1.0", "kubeProxyVersion": "v", "kubeletVersion": "v",
    "machineID": "1234", "operatingSystem": "linux", "osImage": "An OS", "systemUUID": "s",
}  # fmt: skip


@pytest.fixture
def api() -> Iterator[Api]:
    server = Api()
    with serve(server):
        yield server


@pytest.fixture
def launcher(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KubernetesLauncher]:
    where = {"server": f"http://127.0.0.1:{api.server_port}"}
    used = {"cluster": "c", "user": "u", "namespace": "measuring"}
    configuration = {
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "c", "cluster": where}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": used}],
    }  # fmt: skip
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(configuration))
    use_configuration(monkeypatch, path)
    launcher = KubernetesLauncher(Settings.from_env({"THOTH_HOME": str(tmp_path)}))
    yield launcher
    launcher.close()


def use_configuration(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """As ``KUBECONFIG`` does, which the client reads once, when it is imported."""
    for module in ("kubernetes.config", "kubernetes.config.kube_config"):
        monkeypatch.setattr(f"{module}.KUBE_CONFIG_DEFAULT_LOCATION", str(path))


def run(launcher: KubernetesLauncher, **fields: Any) -> JobResult:
    text = "print(1)\n"
    script = Script(text, None, sha256(text.encode()).hexdigest(), ("--size", "$(HOME)"))
    specification = load_specification({"script": text, "timeout_s": 30, **fields})
    inspection = Inspection("inspection-test-00000000", specification, script)
    prepared = PreparedInspection(
        inspection=inspection,
        environment="sha256:00",
        python=PYTHON,
        python_version="3.12.1",
        log="",
        image="registry.example/thoth:00",
    )
    return launcher.run(prepared, Job(inspection.inspection_id, 0, "run", 0, 1, False))


def test_loop_with_the_kubernetes_runner_measures_on_kubernetes(
    launcher: KubernetesLauncher, tmp_path: Path
) -> None:
    names = {"THOTH_HOME": str(tmp_path), "LOOP_RUNNER": "kubernetes"}
    with pytest.raises(InvalidSettings, match="LOOP_IMAGE"):
        Settings.from_env(names)
    made = loop_launcher(Settings.from_env({**names, "LOOP_IMAGE": "python:3.11"}))
    assert type(made) is type(launcher)
    made.close()


def test_kubernetes_job_runs_and_is_then_deleted(api: Api, launcher: KubernetesLauncher) -> None:
    api.terminated = {"exitCode": 3, "reason": "Error", "message": "seen\n", **TIMES}
    api.output = '{"@result": {"rate": 1.0}, "hostname": "forged", "exit_code": 0}\n'
    result = run(launcher).result
    policy, job = api.seen
    assert (policy["kind"], job["kind"]) == ("NetworkPolicy", "Job")
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["--size", "$$(HOME)"]
    assert api.objects == {}
    assert (result["exit_code"], result["ended"], result["stderr"]) == (3, "exited", "seen\n")
    assert result["stdout"]["hostname"] == "forged"
    assert result["hostname"] == "node-7"
    assert result["start_datetime"] == "2026-01-02T03:04:05.000000+00:00"
    cpu = result["hwinfo"]["cpu_info"]
    assert (cpu["family"], cpu["model"], cpu["stepping"], cpu["count"]) == (6, 85, 7, 2)
    assert (cpu["brand_raw"], cpu["arch_string_raw"]) == ("A Processor", "x86_64")
    assert result["hwinfo"]["cpu_features"]["flags"] == ["avx2", "fma"]
    assert result["hwinfo"]["platform"]["release"] == "6.1.0"
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", result["host"])
    assert (result["launcher"], result["limits"]["cpu_quota"]) == ("kubernetes", 0.5)
    assert json.dumps(result)


def test_kubernetes_job_end_reason_is_reported(api: Api, launcher: KubernetesLauncher) -> None:
    api.terminated = {"exitCode": 137, "reason": "OOMKilled", **TIMES}
    greedy = run(launcher).result
    assert (greedy["ended"], greedy["exit_code"]) == ("memory-limit", -9)
    api.terminated = {"exitCode": 139, "reason": "Error", **TIMES}
    crashed = run(launcher).result
    assert (crashed["ended"], crashed["exit_code"]) == ("signalled", -11)
    api.terminated, api.reason = None, "DeadlineExceeded"
    slow = run(launcher).result
    assert slow["ended"] == "timed-out"
    api.reason = "Evicted"
    evicted = run(launcher).result
    assert (evicted["ended"], evicted["exit_code"]) == ("launch-failed", 127)


def test_refusal_by_the_kubernetes_cluster_is_reported_with_its_status(
    api: Api, launcher: KubernetesLauncher
) -> None:
    api.forbidden = True
    with pytest.raises(KubernetesUnavailable, match="403"):
        run(launcher)


def test_image_push_without_a_valid_registry_fails_with_a_hint() -> None:
    image = BuiltImage("sha256:00", "3.12.1", {})
    for registry in (None, "no registry", "-x"):
        with pytest.raises(BuildFailed) as refused:
            push(image, registry, BuildLog())
        assert "IMAGE_REGISTRY" in str(refused.value.hint)


def test_missing_kubernetes_configuration_is_reported_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_configuration(monkeypatch, tmp_path / "none")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubernetesUnavailable) as refused:
        KubernetesLauncher(Settings.from_env({}))
    assert "KUBECONFIG" in str(refused.value.hint)
    assert capsys.readouterr().out == ""
