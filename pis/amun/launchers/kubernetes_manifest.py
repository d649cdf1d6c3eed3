"""Kubernetes objects for a job of an inspection: a Job, and a policy that blocks the network."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from typing import Any

from pis.amun.job_limits import MEBIBYTE
from pis.amun.launchers.container import Allotment
from pis.amun.launchers.images import PYTHON, SCRIPT, USER
from pis.amun.specification import HardwareRequest

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
                    "securityContext": _pod_security(),
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


def _pod_security() -> dict[str, Any]:
    user, group = map(int, USER.split(":"))
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": group,
        "fsGroup": group,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


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
