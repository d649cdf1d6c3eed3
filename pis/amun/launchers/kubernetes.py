"""Runs jobs on a Kubernetes cluster, each as a Job object."""

import contextlib
import hashlib
import io
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from common.settings import Settings
from model.errors import ProjectError
from model.measurements.job_stability import LAUNCHER_UNAVAILABLE
from pis.amun.hardware import boot, cpu_info, first_processor, host
from pis.amun.inspection_folder import job_result
from pis.amun.installer import BuildLog, LineCallback, build_failure
from pis.amun.jobs import STDOUT_BYTES, FinishedJob, JobEnd, failed_to_launch
from pis.amun.launchers import Inspection, Job, JobResult, PreparedInspection
from pis.amun.launchers.container import Allotment, allotment_of, container_setup, with_image_system
from pis.amun.launchers.images import (
    PYTHON,
    SCRIPT,
    USER,
    BuiltImage,
    build_image,
    find_engine,
    is_reference,
    prepared_of,
)
from pis.amun.processes import MEBIBYTE, SIGNAL_EXIT_CODE
from pis.amun.specification import HardwareRequest

#: Limit of the kubelet for a container's termination message.
_STDERR_BYTES = 4096

#: Fields of ``cpu_info`` that come from ``/proc/cpuinfo``.
_CPUINFO_FIELDS = frozenset({"vendor_id_raw", "brand_raw", "family", "model", "stepping", "cores"})


_POLL_S = 1.0
_PUSH_S = 3600.0
_CONFIGURE = "set KUBECONFIG to a cluster's configuration, or run in a pod that may create Jobs"
_REGISTRY = "set IMAGE_REGISTRY to a registry that this machine and the cluster's nodes can reach"
#: Names and labels are DNS labels (RFC 1123, 63 characters), less the suffix of pod names.
_NAME_CHARACTERS = 52
_LABEL = "app.kubernetes.io/name"
JOB_CONTAINER, HARDWARE_CONTAINER = "job", "hardware"
#: Time until a pod's job starts, mostly to pull the image.
START_S = 600
#: A pod's log does not separate standard error, so it goes to this file, whose end the kubelet
#: keeps (Pod API, `terminationMessagePath`).
_STDERR = "/dev/termination-log"
_REDIRECT_STDERR = f'exec "$@" 2>{_STDERR}'
#: Set by Node Feature Discovery, `cpu-model`.
_FEATURES = {
    "cpu_family": "feature.node.kubernetes.io/cpu-model.family",
    "cpu_model": "feature.node.kubernetes.io/cpu-model.id",
}


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that has finished.

    :param state: ``terminated`` of the job's container in the Pod API; empty if it never ran
    :param cpuinfo: ``/proc/cpuinfo`` of its node
    :param node: ``nodeInfo`` of its node; empty if it may not be read
    """

    node_name: str
    state: Mapping[str, Any]
    stdout: bytes
    cpuinfo: str
    node: Mapping[str, Any]


def read_pod(core: Any, namespace: str, pod: Any) -> Pod:
    """Read a pod before it is removed.

    :param core: the client's ``CoreV1Api``
    """
    statuses = {status.name: status.state for status in pod.status.container_statuses or ()}
    terminated = getattr(statuses.get(JOB_CONTAINER), "terminated", None)
    state = terminated.to_dict() if terminated else {}
    if pod.status.reason == "DeadlineExceeded":
        state = {"exit_code": SIGNAL_EXIT_CODE + 9, **state, "reason": "DeadlineExceeded"}
    node_name = str(pod.spec.node_name or "")
    logs = {
        name: _log(core, namespace, pod.metadata.name, name)
        for name in (JOB_CONTAINER, HARDWARE_CONTAINER)
    }
    cpuinfo = logs[HARDWARE_CONTAINER].decode("utf-8", "replace")
    return Pod(node_name, state, logs[JOB_CONTAINER], cpuinfo, _node_info(core, node_name))


def _log(core: Any, namespace: str, pod: str, container: str) -> bytes:
    from kubernetes import client

    try:
        answer = core.read_namespaced_pod_log(
            pod, namespace, container=container, limit_bytes=STDOUT_BYTES + 1,
            _preload_content=False,
        )  # fmt: skip
    except client.ApiException:  # a container that never started has no log
        return b""
    return bytes(answer.data)


def _node_info(core: Any, name: str) -> Mapping[str, Any]:
    """Return ``nodeInfo`` of a node; empty without permission to read it, a common case."""
    from kubernetes import client

    try:
        return dict(core.read_node(name).status.node_info.to_dict())
    except client.ApiException:
        return {}


def finished_job_of(pod: Pod, started_at: datetime) -> FinishedJob:
    """Return how the job ended; only the kubelet's report counts."""
    state = pod.state
    if not state:
        return failed_to_launch(f"the pod on {pod.node_name} never ran the job", started_at)
    code, message = int(state.get("exit_code") or 0), str(state.get("message") or "")
    ended = JobEnd.SIGNALLED if code > SIGNAL_EXIT_CODE else JobEnd.EXITED
    if state.get("reason") == "OOMKilled":
        ended = JobEnd.MEMORY_LIMIT
    elif state.get("reason") == "DeadlineExceeded":
        ended = JobEnd.TIMED_OUT
    stderr = message.encode("utf-8", "backslashreplace")
    return FinishedJob(
        exit_code=SIGNAL_EXIT_CODE - code if code > SIGNAL_EXIT_CODE else code,
        ended=ended,
        stdout=pod.stdout[:STDOUT_BYTES],
        stderr=stderr,
        stdout_truncated=len(pod.stdout) > STDOUT_BYTES,
        stderr_truncated=len(stderr) >= _STDERR_BYTES,
        usage={},
        started_at=state.get("started_at") or started_at,
        ended_at=state.get("finished_at") or datetime.now(UTC),
        conditions={},
    )


def with_node_facts(job: JobResult, pod: Pod) -> JobResult:
    """In the result, replace the runner's machine with the pod's node."""
    cpuinfo, node = first_processor(pod.cpuinfo), pod.node
    architecture = str(node.get("architecture") or "")
    cpu = {
        **{name: value for name, value in cpu_info(cpuinfo, {}).items() if name in _CPUINFO_FIELDS},
        "count": pod.cpuinfo.count("processor\t:"),
        "arch_string_raw": {"amd64": "x86_64", "arm64": "aarch64"}.get(architecture, architecture),
    }
    hwinfo = {
        "cpu_info": {name: value for name, value in cpu.items() if value not in (None, "")},
        "cpu_features": {"flags": sorted(cpuinfo.get("flags", "").split())},
        "cpu_type": {"ncpus": cpu["count"]},
        "platform": {"node": pod.node_name, "release": node.get("kernel_version"),
                     "machine": cpu["arch_string_raw"], "system": "Linux"},
        "gpu": [],
    }  # fmt: skip
    hardware = {"cpu_family": cpu.get("family"), "cpu_model": cpu.get("model")}
    environment = job.result["runtime_environment"] | {"hardware": hardware, "cuda_version": None}
    facts = {
        "hwinfo": hwinfo,
        "hostname": pod.node_name,
        "host": host(str(node.get("machine_id") or pod.node_name)),
        "boot": boot(str(node["boot_id"])) if node.get("boot_id") else None,
        "runtime_environment": environment,
    }
    return JobResult(job.result | facts, job.log)


class KubernetesUnavailable(ProjectError):
    """No cluster is configured, or the cluster refuses a request or does not answer."""

    def __init__(self, message: str, hint: str = _CONFIGURE) -> None:
        super().__init__(message)
        self.hint = hint


class KubernetesLauncher:
    """Builds and pushes an image for each stack, and runs each job as a Job of the cluster.

    :param on_line: called with each line of the build logs
    :raises KubernetesUnavailable: also if the client is not installed
    """

    name = "kubernetes"

    def __init__(self, settings: Settings, on_line: LineCallback | None = None) -> None:
        self._settings = settings
        self._on_line = on_line
        self._namespace = _configure_client()
        self._images: dict[str, BuiltImage] = {}

    def slots(self) -> int:
        """Return 1, as the cluster might run two pods on the same node."""
        return 1

    def prepare(self, inspection: Inspection) -> PreparedInspection:
        """Build the image and push it.

        :raises BuildFailed: with the log
        """
        log = BuildLog(self._on_line)
        unmet = unmet_by_labels(inspection.specification.run.hardware)
        if unmet:
            raise build_failure("hardware-not-met", "; ".join(unmet), log)
        image = build_image(inspection, self._settings, log)
        reference = push(image, self._settings.image_registry, log)
        self._images[reference] = image
        return prepared_of(inspection, image, log, reference)

    def run(self, prepared: PreparedInspection, job: Job) -> JobResult:
        """Run one job, and remove its objects from the cluster.

        :raises KubernetesUnavailable: if the cluster refuses a request or does not answer
        """
        inspection, reference = prepared.inspection, prepared.image or ""
        allotment = allotment_of(inspection.specification)
        started_at = datetime.now(UTC)
        pod = run_in_cluster(self._namespace, reference, inspection, job)
        setup = container_setup(allotment, prepared, self.name)
        result = job_result(inspection, job, finished_job_of(pod, started_at), setup)
        image = self._images.get(reference)
        return with_node_facts(with_image_system(result, image.os_release if image else {}), pod)

    def close(self) -> None:
        """Do nothing, as no resources are held."""


def push(image: BuiltImage, registry: str | None, log: BuildLog) -> str:
    """Push ``image``.

    :returns: the reference by which the cluster pulls it
    :raises BuildFailed: if no registry is set, or it refuses the image
    """
    if registry is None or not is_reference(f"{registry}/thoth:x"):
        message = "no valid registry is set to push images to"
        raise build_failure(LAUNCHER_UNAVAILABLE, message, log, hint=_REGISTRY)
    engine = find_engine()
    reference = f"{registry}/thoth:{image.identifier.removeprefix('sha256:')}"
    for arguments in (("tag", image.identifier, reference), ("push", reference)):
        log.write(f"$ {engine.name} {' '.join(arguments)}")
        done = engine.call(*arguments, timeout_s=_PUSH_S)
        log.write(done.stdout + done.stderr)
        if done.returncode:
            message = f"the image could not be pushed to {registry}"
            raise build_failure(LAUNCHER_UNAVAILABLE, message, log, done.returncode)
    return reference


def run_in_cluster(namespace: str, image: str, inspection: Inspection, job: Job) -> Pod:
    """Run ``job`` as a Job with one completion, wait for it, and remove it.

    :raises KubernetesUnavailable: if the cluster refuses a request or does not answer
    """
    from kubernetes import client

    specification = inspection.specification
    name = f"{inspection.inspection_id}-{job.number}-{job.run[:8]}"
    allotment = allotment_of(specification)
    manifest = job_manifest(
        name,
        image,
        allotment,
        arguments=inspection.script.arguments,
        environment=dict(specification.environment),
        hardware=specification.run.hardware,
    )
    with _translated_errors(), _temporary_job(namespace, name, manifest):
        deadline = time.monotonic() + allotment.limits.wall_s + START_S + 60
        core = client.CoreV1Api()
        while True:
            pods = core.list_namespaced_pod(namespace, label_selector=selector(name)).items
            if pods and pods[0].status.phase in {"Succeeded", "Failed"}:
                return read_pod(core, namespace, pods[0])
            if time.monotonic() > deadline:
                raise KubernetesUnavailable(f"the job {object_name(name)} did not end in time")
            time.sleep(_POLL_S)


def _configure_client() -> str:
    """Configure the client in the same way as ``kubectl``.

    :returns: the namespace
    """
    try:
        from kubernetes import config
    except ImportError as error:
        hint = "install the extra `kubernetes`"
        raise KubernetesUnavailable("the Kubernetes client is not installed", hint) from error
    try:
        # The client prints its attempts to standard output, which is for the command's result.
        with contextlib.redirect_stdout(io.StringIO()):
            config.load_config()
    except (config.ConfigException, TypeError) as error:
        raise KubernetesUnavailable(f"no cluster is configured: {error}") from error
    with contextlib.suppress(config.ConfigException):
        _, current = config.list_kube_config_contexts()
        return str(current["context"].get("namespace") or "default")
    return "default"


@contextlib.contextmanager
def _temporary_job(namespace: str, name: str, manifest: Mapping[str, Any]) -> Iterator[None]:
    """Create the Job and its network policy, and delete both when the ``with`` block ends."""
    from kubernetes import client

    batch, networking = client.BatchV1Api(), client.NetworkingV1Api()
    networking.create_namespaced_network_policy(namespace, network_policy(name))
    try:
        batch.create_namespaced_job(namespace, manifest)
        try:
            yield
        finally:
            with _ignoring_absence():
                batch.delete_namespaced_job(
                    object_name(name), namespace, propagation_policy="Background"
                )
    finally:
        with _ignoring_absence():
            networking.delete_namespaced_network_policy(object_name(name), namespace)


@contextlib.contextmanager
def _ignoring_absence() -> Iterator[None]:
    """Suppress the error if an object to delete no longer exists."""
    from kubernetes import client

    try:
        yield
    except client.ApiException as error:
        if error.status != 404:
            raise


@contextlib.contextmanager
def _translated_errors() -> Iterator[None]:
    import urllib3
    from kubernetes import client

    try:
        yield
    except client.ApiException as error:
        raise KubernetesUnavailable(
            f"the cluster refuses the request: {error.status} {error.reason}"
        ) from error
    except urllib3.exceptions.HTTPError as error:
        raise KubernetesUnavailable(f"the cluster does not answer: {error}") from error


def job_manifest(
    name: str,
    image: str,
    allotment: Allotment,
    *,
    arguments: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    hardware: HardwareRequest | None = None,
    completions: int = 1,
) -> dict[str, Any]:
    """Return a Job of ``completions`` runs, one after another, without retries.

    :param name: any text, from which the name of the Job is made
    :param image: a reference that the cluster's nodes can pull
    """
    labels = {_LABEL: object_name(name)}
    limits = allotment.limits
    user, group = map(int, USER.split(":"))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": object_name(name), "labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": completions,
            "parallelism": 1,
            "backoffLimit": 0,
            "activeDeadlineSeconds": completions * math.ceil(limits.wall_s) + START_S,
            "ttlSecondsAfterFinished": 3600,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": user,
                        "runAsGroup": group,
                        "fsGroup": group,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "initContainers": [_hardware_container(image)],
                    "containers": [_job_container(image, allotment, arguments, environment or {})],
                    "volumes": [
                        {"name": "tmp", "emptyDir": {"sizeLimit": _quantity(limits.disk_bytes)}}
                    ],
                    **_affinity(hardware or HardwareRequest()),
                },
            },
        },
    }


def network_policy(name: str) -> dict[str, Any]:
    """Return a policy that blocks all traffic of a Job's pods, if the cluster enforces policies."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": object_name(name), "labels": {_LABEL: object_name(name)}},
        "spec": {
            "podSelector": {"matchLabels": {_LABEL: object_name(name)}},
            "policyTypes": ["Ingress", "Egress"],
        },
    }


def object_name(text: str) -> str:
    """Return a valid object name; different texts have different names.

    >>> object_name("inspection-matmul-1f2e3d4c")
    'inspection-matmul-1f2e3d4c'
    """
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if slug and slug == text and len(slug) <= _NAME_CHARACTERS:
        return slug
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{slug[: _NAME_CHARACTERS - 11].strip('-') or 'x'}-{digest}"


def selector(name: str) -> str:
    """Return the label selector of a Job's pods."""
    return f"{_LABEL}={object_name(name)}"


def unmet_by_labels(hardware: HardwareRequest) -> list[str]:
    """Return the requests that node labels cannot express."""
    return [
        f"{name} {value!r} was requested, but Kubernetes cannot select nodes by it"
        for name, value in (
            ("processor", hardware.processor),
            ("physical_cpus", hardware.physical_cpus),
        )
        if value is not None
    ]


def literal(text: str) -> str:
    """Escape ``text`` for arguments and variables of a container.

    In them, the kubelet expands ``$(NAME)`` and replaces ``$$`` with ``$``.
    """
    return text.replace("$", "$$")


def _container_security() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _job_container(
    image: str, allotment: Allotment, arguments: tuple[str, ...], environment: Mapping[str, str]
) -> dict[str, Any]:
    variables = {**allotment.threads, **environment, "HOME": "/tmp", "TMPDIR": "/tmp"}  # noqa: S108
    resources = {
        "cpu": f"{round(allotment.cpus * 1000)}m",
        "memory": _quantity(allotment.limits.memory_bytes),
    }
    return {
        "name": JOB_CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", literal(_REDIRECT_STDERR), "job", PYTHON, SCRIPT],
        "args": [literal(argument) for argument in arguments],
        "env": [{"name": name, "value": literal(value)} for name, value in variables.items()],
        "resources": {"requests": resources, "limits": resources},
        "securityContext": _container_security(),
        "terminationMessagePath": _STDERR,
        "terminationMessagePolicy": "File",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
    }


def _hardware_container(image: str) -> dict[str, Any]:
    """Return the container that reads the node's processor before the script starts."""
    small = {"cpu": "100m", "memory": _quantity(64 * MEBIBYTE)}
    return {
        "name": HARDWARE_CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["cat", "/proc/cpuinfo"],
        "resources": {"requests": small, "limits": small},
        "securityContext": _container_security(),
    }


def _affinity(hardware: HardwareRequest) -> dict[str, Any]:
    expressions = [
        {"key": label, "operator": "In", "values": [str(getattr(hardware, name))]}
        for name, label in _FEATURES.items()
        if getattr(hardware, name) is not None
    ]
    if not expressions:
        return {}
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _quantity(size: int | None) -> str:
    size = size or 0
    return f"{size // MEBIBYTE}Mi" if size % MEBIBYTE == 0 else str(size)
