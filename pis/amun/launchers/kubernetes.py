"""Jobs on a Kubernetes cluster: a Job object for each, and what the cluster says of it."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from common.errors import ProjectError
from common.host_problems import LAUNCHER_UNAVAILABLE
from common.settings import Settings
from pis.amun.documents import job_result
from pis.amun.installer import BuildLog, Say, failed
from pis.amun.launchers import Inspection, Job, JobResult, Prepared
from pis.amun.launchers.container import allotment_of, of_image, ran_within
from pis.amun.launchers.containerfile import is_reference
from pis.amun.launchers.images import Image, build_image, find_engine, prepared_of
from pis.amun.launchers.manifest import (
    START_S,
    job_manifest,
    network_policy,
    object_name,
    selector,
    unmet_by_labels,
)
from pis.amun.launchers.pods import Pod, finished_of, of_node, read_pod

_LOOK_S = 1.0
_PUSH_S = 3600.0
_CONFIGURE = "point KUBECONFIG to a cluster, or run in a pod that may make Jobs"
_REGISTRY = "set IMAGE_REGISTRY to where this machine pushes and the cluster's nodes pull"


class ClusterUnavailable(ProjectError):
    """No cluster is configured, or it refuses or does not answer."""

    def __init__(self, message: str, hint: str = _CONFIGURE) -> None:
        super().__init__(message)
        self.hint = hint


class KubernetesLauncher:
    """Builds and pushes an image for each stack, and runs each job as a Job of the cluster.

    :param say: called with each line of a build's log
    :raises ClusterUnavailable: also if the client is not installed
    """

    name = "kubernetes"

    def __init__(self, settings: Settings, say: Say | None = None) -> None:
        self._settings = settings
        self._say = say
        self._namespace = _configured()
        self._images: dict[str, Image] = {}

    def slots(self) -> int:
        """One: where the cluster puts two pods is its own choice, and it may be one node."""
        return 1

    def prepare(self, inspection: Inspection) -> Prepared:
        """Build the image and push it.

        :raises BuildFailed: with the log
        """
        log = BuildLog(self._say)
        unmet = unmet_by_labels(inspection.specification.run.hardware)
        if unmet:
            raise failed("hardware-not-met", "; ".join(unmet), log)
        image = build_image(inspection, self._settings, log)
        reference = push(image, self._settings.image_registry, log)
        self._images[reference] = image
        return prepared_of(inspection, image, log, reference)

    def run(self, prepared: Prepared, job: Job) -> JobResult:
        """Run one job, and remove what it left in the cluster.

        :raises ClusterUnavailable: if the cluster refuses
        """
        inspection, reference = prepared.inspection, prepared.image or ""
        allotment = allotment_of(inspection.specification)
        started_at = datetime.now(UTC)
        pod = run_in_cluster(self._namespace, reference, inspection, job)
        ran = ran_within(allotment, prepared, self.name)
        result = job_result(inspection, job, finished_of(pod, started_at), ran)
        image = self._images.get(reference)
        return of_node(of_image(result, image.os_release if image else {}), pod)

    def close(self) -> None:
        """Nothing is held."""


def push(image: Image, registry: str | None, log: BuildLog) -> str:
    """Push ``image``.

    :returns: the reference under which the cluster pulls it
    :raises BuildFailed: if there is no registry, or it refuses
    """
    if registry is None or not is_reference(f"{registry}/thoth:x"):
        message = "no registry is set that images could be pushed to"
        error = failed(LAUNCHER_UNAVAILABLE, message, log)
        error.hint = _REGISTRY
        raise error
    engine = find_engine()
    reference = f"{registry}/thoth:{image.identifier.removeprefix('sha256:')}"
    for words in (("tag", image.identifier, reference), ("push", reference)):
        log.write(f"$ {engine.name} {' '.join(words)}")
        done = engine.call(*words, timeout_s=_PUSH_S)
        log.write(done.stdout + done.stderr)
        if done.returncode:
            message = f"the image could not be pushed to {registry}"
            raise failed(LAUNCHER_UNAVAILABLE, message, log, done.returncode)
    return reference


def run_in_cluster(namespace: str, image: str, inspection: Inspection, job: Job) -> Pod:
    """Run ``job`` as a Job of one completion, wait for it, and remove it.

    :raises ClusterUnavailable: if the cluster refuses
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
    with _translated(), _made(namespace, name, manifest):
        deadline = time.monotonic() + allotment.limits.wall_s + START_S + 60
        core = client.CoreV1Api()
        while True:
            pods = core.list_namespaced_pod(namespace, label_selector=selector(name)).items
            if pods and pods[0].status.phase in {"Succeeded", "Failed"}:
                return read_pod(core, namespace, pods[0])
            if time.monotonic() > deadline:
                raise ClusterUnavailable(f"the job {object_name(name)} did not come to its end")
            time.sleep(_LOOK_S)


def _configured() -> str:
    """Configure the client as `kubectl` is.

    :returns: the namespace
    """
    try:
        from kubernetes import config
    except ImportError as error:
        hint = "install the extra `kubernetes`"
        raise ClusterUnavailable("the client of Kubernetes is not installed", hint) from error
    try:
        # Standard output is for the answer; the client prints there what it tries.
        with contextlib.redirect_stdout(io.StringIO()):
            config.load_config()
    except (config.ConfigException, TypeError) as error:
        raise ClusterUnavailable(f"no cluster is configured: {error}") from error
    with contextlib.suppress(config.ConfigException):
        _, current = config.list_kube_config_contexts()
        return str(current["context"].get("namespace") or "default")
    return "default"


@contextlib.contextmanager
def _made(namespace: str, name: str, manifest: Mapping[str, Any]) -> Iterator[None]:
    """The Job and its policy exist within, and are gone after."""
    from kubernetes import client

    batch, networking = client.BatchV1Api(), client.NetworkingV1Api()
    networking.create_namespaced_network_policy(namespace, network_policy(name))
    try:
        batch.create_namespaced_job(namespace, manifest)
        try:
            yield
        finally:
            with _gone_or_now():
                batch.delete_namespaced_job(
                    object_name(name), namespace, propagation_policy="Background"
                )
    finally:
        with _gone_or_now():
            networking.delete_namespaced_network_policy(object_name(name), namespace)


@contextlib.contextmanager
def _gone_or_now() -> Iterator[None]:
    """What somebody else has deleted is gone all the same, and the result is good."""
    from kubernetes import client

    try:
        yield
    except client.ApiException as error:
        if error.status != 404:
            raise


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    import urllib3
    from kubernetes import client

    try:
        yield
    except client.ApiException as error:
        raise ClusterUnavailable(f"the cluster refuses: {error.status} {error.reason}") from error
    except urllib3.exceptions.HTTPError as error:
        raise ClusterUnavailable(f"the cluster does not answer: {error}") from error
