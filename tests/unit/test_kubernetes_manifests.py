"""What ``deploy/kubernetes`` promises: objects that Kubernetes takes, pods without privileges."""

import copy
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from cli import main as cli
from common.settings import Settings
from tests.requirements import needs
from tests.services.json_schemas import validate_manifest

Object = dict[str, Any]

_KNOWN = {"apiVersion", "kind", "namespace", "resources", "patches", "labels", "images"}
_WITHOUT_NAMESPACE = {"Namespace"}


def rendered(folder: Path) -> list[Object]:
    """The objects that ``kubectl apply --kustomize`` sends; what is not known here is refused."""
    wanted = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    assert wanted.keys() <= _KNOWN, wanted.keys() - _KNOWN
    objects: list[Object] = []
    for name in wanted["resources"]:
        path = folder / name
        objects += rendered(path) if path.is_dir() else objects_in(path)
    for patch in wanted.get("patches", ()):
        (changes,) = objects_in(folder / patch["path"])
        chosen = [it for it in objects if _is_chosen(it, patch["target"])]
        assert chosen, patch
        for it in chosen:
            _merge(it["spec"], changes["spec"])
    for it in objects:
        if it["kind"] not in _WITHOUT_NAMESPACE:
            it["metadata"]["namespace"] = wanted["namespace"]
        for labels in wanted.get("labels", ()):
            it["metadata"].setdefault("labels", {}).update(labels["pairs"])
        for image in wanted.get("images", ()):
            _set_image(it, image)
    return objects


def objects_in(path: Path) -> list[Object]:
    """The objects of a file."""
    return [it for it in yaml.safe_load_all(path.read_text("utf-8")) if it is not None]


def pods_of(it: Object) -> Object | None:
    """The specification of the pods that an object makes."""
    spec = it.get("spec", {})
    template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
    return None if template is None else dict(template["spec"])


def _is_chosen(it: Object, target: Object) -> bool:
    return it["kind"] == target["kind"] and target.get("name") in (None, it["metadata"]["name"])


def _merge(value: Object, changes: Object) -> None:
    """Merge as `kubectl` does: lists of named elements by name, and mounts by their path."""
    for key, change in changes.items():
        if isinstance(change, dict) and key in value:
            _merge(value[key], change)
        elif isinstance(change, list) and key in value:
            by = "mountPath" if key == "volumeMounts" else "name"
            known = {element[by]: element for element in value[key]}
            for element in change:
                if element[by] in known:
                    _merge(known[element[by]], element)
                else:
                    value[key].insert(0, copy.deepcopy(element))
        else:
            value[key] = copy.deepcopy(change)


def _set_image(it: Object, image: Object) -> None:
    for container in (pods_of(it) or {}).get("containers", ()):
        if container["image"] == image["name"]:
            container["image"] = f"{image['newName']}:{image['newTag']}"


FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS = ("one-node", "own-stores")
#: Not in the schemas of Kubernetes: the resource of an operator.
FOREIGN = "ServiceMonitor"
#: What the guide's command puts into the secret `thoth-stores`.
SECRETS = {
    "one-node": {"POSTGRES_PASSWORD", "NEO4J_AUTH", "DATABASE_URL", "GRAPH_URL", "GRAPH_PASSWORD"},
    "own-stores": {"DATABASE_URL", "GRAPH_URL", "GRAPH_PASSWORD", "DOCUMENT_STORE_URL"},
}


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def objects(overlay: str) -> list[Object]:
    return rendered(FOLDER / overlay)


def named(objects: list[Object], kind: str) -> dict[str, Object]:
    return {it["metadata"]["name"]: it for it in objects if it["kind"] == kind}


def containers(objects: list[Object]) -> list[Object]:
    return [each for it in objects if (pods := pods_of(it)) for each in pods["containers"]]


def test_manifests_are_valid_kubernetes_objects(objects: list[Object]) -> None:
    for it in objects:
        if it["kind"] != FOREIGN:
            validate_manifest(it)


@needs("kubectl")
def test_kubectl_builds_the_tested_objects(overlay: str, objects: list[Object]) -> None:
    command = ["kubectl", "kustomize", str(FOLDER / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    def by_name(listed: list[Object]) -> dict[tuple[str, str], Object]:
        return {(it["kind"], it["metadata"]["name"]): it for it in listed}

    assert by_name(list(yaml.safe_load_all(done.stdout))) == by_name(objects)


def test_every_kubernetes_manifest_is_used_by_an_overlay() -> None:
    used = set()
    for folder in ("base", *OVERLAYS):
        path = FOLDER / folder / "kustomization.yaml"
        wanted = yaml.safe_load(path.read_text("utf-8"))
        patches = [it["path"] for it in wanted.get("patches", ())]
        used |= {path, *(path.parent / name for name in (*wanted["resources"], *patches))}
    assert {it for it in FOLDER.rglob("*") if it.is_file()} <= used


def test_each_kubernetes_overlay_has_all_its_objects(overlay: str, objects: list[Object]) -> None:
    assert named(objects, "Deployment").keys() == {"thoth-server", "thoth-people", "thoth-bulk"}
    assert named(objects, "Job").keys() == {"thoth-migrate"}
    nightly = {"thoth-nightly"} | ({"thoth-backup"} if overlay == "one-node" else set())
    assert named(objects, "CronJob").keys() == nightly
    for it in named(objects, "CronJob").values():
        assert it["spec"]["concurrencyPolicy"] == "Forbid"
    stores = {"postgresql", "neo4j"} if overlay == "one-node" else set()
    assert named(objects, "StatefulSet").keys() == stores
    assert len(named(objects, FOREIGN)) == (overlay == "own-stores")


def test_pods_meet_the_restricted_security_standard(objects: list[Object]) -> None:
    namespaces = named(objects, "Namespace")
    labels = namespaces["thoth"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    for pods in filter(None, map(pods_of, objects)):
        assert pods["securityContext"]["runAsNonRoot"] is True
        assert pods["securityContext"]["runAsUser"] > 0
        assert pods["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pods["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pods.keys()
        allowed = {"name", "emptyDir", "persistentVolumeClaim"}
        assert all(volume.keys() <= allowed for volume in pods["volumes"])
        for it in pods["containers"]:
            security = it["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            # The entry point of Neo4j's image writes its configuration.
            assert security.get("readOnlyRootFilesystem") is (
                None if it["name"] == "neo4j" else True
            )


def test_containers_have_limits_and_services_have_probes(objects: list[Object]) -> None:
    for it in containers(objects):
        assert it["resources"]["requests"].keys() == {"cpu", "memory"}
        assert it["resources"]["limits"].keys() == {"memory"}
    for kind in ("Deployment", "StatefulSet"):
        for it in named(objects, kind).values():
            for container in (pods_of(it) or {})["containers"]:
                assert {"livenessProbe", "readinessProbe"} & container.keys(), container["name"]
    (server,) = (pods_of(named(objects, "Deployment")["thoth-server"]) or {})["containers"]
    paths = {name: server[f"{name}Probe"]["httpGet"]["path"] for name in ("liveness", "readiness")}
    assert paths == {"liveness": "/livez", "readiness": "/readyz?writes"}


def test_kubernetes_selectors_match_pod_labels(objects: list[Object]) -> None:
    pods = [
        it["spec"]["template"]["metadata"]["labels"]
        for it in objects
        if it["kind"] in ("Deployment", "StatefulSet")
    ]
    for kind in ("Deployment", "StatefulSet", "PodDisruptionBudget"):
        for it in named(objects, kind).values():
            assert any(
                it["spec"]["selector"]["matchLabels"].items() <= found.items() for found in pods
            )
    services = named(objects, "Service")
    for it in services.values():
        assert sum(it["spec"]["selector"].items() <= labels.items() for labels in pods) == 1
    for it in named(objects, FOREIGN).values():
        wanted = it["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= services["thoth"]["metadata"]["labels"].items()
        ports = {port["name"] for port in services["thoth"]["spec"]["ports"]}
        assert {endpoint["port"] for endpoint in it["spec"]["endpoints"]} <= ports


def test_network_policies_deny_by_default(objects: list[Object]) -> None:
    policies = named(objects, "NetworkPolicy")
    nothing = policies.pop("nothing")["spec"]
    assert nothing == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    metadata = "169.254.0.0/16"
    for it in policies.values():
        for rule in it["spec"].get("egress", ()):
            assert rule["ports"]
            blocks = [peer["ipBlock"] for peer in rule["to"] if "ipBlock" in peer]
            assert all(metadata in block["except"] for block in blocks)
        for rule in it["spec"].get("ingress", ()):
            assert rule["from"]
            assert rule["ports"]


def test_commands_and_settings_in_kubernetes_manifests_exist(objects: list[Object]) -> None:
    known = {field.upper() for field in Settings.__slots__} | {"THOTH_HOME"}
    assert named(objects, "ConfigMap")["thoth-settings"]["data"].keys() <= known
    for it in containers(objects):
        if not it["image"].startswith("thoth:"):
            continue
        words = it.get("args")
        if words is None:
            continue  # a shell, whose commands the guide runs
        command: click.Command = cli.thoth
        context = click.Context(command)
        while words and isinstance(command, click.Group):
            found = command.get_command(context, words[0])
            assert found is not None, words
            command, words = found, words[1:]
        options = {text for parameter in command.params for text in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_kubernetes_secrets_match_the_guide(overlay: str, objects: list[Object]) -> None:
    guide = (FOLDER.parents[1] / "docs" / "guides" / "kubernetes.md").read_text("utf-8")
    for key in SECRETS[overlay]:
        assert f"--from-literal={key}=" in guide
    for it in containers(objects):
        for variable in it.get("env", ()):
            if "valueFrom" in variable:
                reference = variable["valueFrom"]["secretKeyRef"]
                assert reference["name"] == "thoth-stores"
                assert reference["key"] in SECRETS[overlay]
            else:
                assert "PASSWORD" not in variable["name"]


def test_each_kubernetes_file_is_valid_by_itself() -> None:
    for path in FOLDER.rglob("*.yaml"):
        for it in objects_in(path):
            skipped = it["kind"] in (FOREIGN, "Kustomization") or "patch" in path.name
            if not skipped:
                validate_manifest(it)
