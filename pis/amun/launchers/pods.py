"""What a Kubernetes cluster says of a pod that ran a job, and what that makes of its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pis.amun.documents import failed_to_launch
from pis.amun.hardware import cpu_info, first_processor, host
from pis.amun.jobs import STDOUT_BYTES, Ended, Finished
from pis.amun.launchers import JobResult
from pis.amun.launchers.manifest import HARDWARE_CONTAINER, JOB_CONTAINER

#: The kubelet keeps no more of a container's termination message.
_STDERR_BYTES = 4096
_SIGNALLED = 128

#: Fields that ``/proc/cpuinfo`` itself has.
_OF_CPUINFO = frozenset({"vendor_id_raw", "brand_raw", "family", "model", "stepping", "cores"})


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that came to its end.

    :param state: of the job's container: ``terminated`` of the Pod API; empty if it never ran
    :param cpuinfo: what its node's ``/proc/cpuinfo`` holds
    :param node: ``nodeInfo`` of its node, as far as it may be read
    """

    node_name: str
    state: Mapping[str, Any]
    stdout: bytes
    cpuinfo: str
    node: Mapping[str, Any]


def read_pod(core: Any, namespace: str, pod: Any) -> Pod:
    """Everything that is wanted of a pod before it is removed; ``core`` is the client's API."""
    statuses = {it.name: it.state for it in pod.status.container_statuses or ()}
    terminated = getattr(statuses.get(JOB_CONTAINER), "terminated", None)
    state = terminated.to_dict() if terminated else {}
    if pod.status.reason == "DeadlineExceeded":
        state = {"exit_code": _SIGNALLED + 9, **state, "reason": "DeadlineExceeded"}
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
    except client.ApiException:  # a container that never started has none
        return b""
    return bytes(answer.data)


def _node_info(core: Any, name: str) -> Mapping[str, Any]:
    """Often not ours to read."""
    from kubernetes import client

    try:
        return dict(core.read_node(name).status.node_info.to_dict())
    except client.ApiException:
        return {}


def finished_of(pod: Pod, started_at: datetime) -> Finished:
    """How the job ended, by the word of the kubelet alone."""
    state = pod.state
    if not state:
        return failed_to_launch(f"the pod on {pod.node_name} never ran the job", started_at)
    code, message = int(state.get("exit_code") or 0), str(state.get("message") or "")
    ended = Ended.SIGNALLED if code > _SIGNALLED else Ended.EXITED
    if state.get("reason") == "OOMKilled":
        ended = Ended.MEMORY_LIMIT
    elif state.get("reason") == "DeadlineExceeded":
        ended = Ended.TIMED_OUT
    stderr = message.encode("utf-8", "backslashreplace")
    return Finished(
        exit_code=_SIGNALLED - code if code > _SIGNALLED else code,
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


def of_node(job: JobResult, pod: Pod) -> JobResult:
    """What the runner says of its own machine, said of the pod's node."""
    cpuinfo, node = first_processor(pod.cpuinfo), pod.node
    architecture = str(node.get("architecture") or "")
    cpu = {
        **{name: value for name, value in cpu_info(cpuinfo, {}).items() if name in _OF_CPUINFO},
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
    said = {
        "hwinfo": hwinfo,
        "hostname": pod.node_name,
        "host": host(str(node.get("machine_id") or pod.node_name)),
        "runtime_environment": environment,
    }
    return JobResult(job.result | said, job.log)
