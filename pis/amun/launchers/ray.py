"""Runs jobs on the nodes of a Ray cluster; a node runs one block at a time, and nothing else.

One actor per node reserves all its processors and GPUs, so that Ray runs no other work beside a
measurement. The actor uses the same code as the local launcher. All jobs of a block run on the same
node, because only jobs on the same host are compared in pairs.
"""

import importlib.metadata
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.settings import Settings
from model.errors import ProjectError
from pis.amun.inspection_folder import with_environment
from pis.amun.installer import LineCallback
from pis.amun.launchers import BuildFailed, Inspection, Job, JobResult, PreparedInspection
from pis.amun.launchers.local import prepare_here, run_here

#: How long to wait for a node that is busy with other work.
_FREE_S = 60.0
#: Packages to send to nodes that do not have this release installed.
_SENT_PACKAGES = ("common", "model", "pis")


class NodeLost(ProjectError):
    """The node of a running job was lost because of the machine, the network or its memory."""


class Worker:
    """The actor that runs on a node."""

    def __init__(self, package_indexes: tuple[tuple[str, str], ...]) -> None:
        # Ray sets it to the number of assigned processors, but the specification decides.
        os.environ.pop("OMP_NUM_THREADS", None)
        self._settings = replace(Settings.from_env(), package_indexes=package_indexes)
        self._uses = ExitStack()

    def ready(self) -> str:
        """Return the path of this code; the answer shows that the node is reserved."""
        return __file__

    def prepare(self, inspection: Inspection) -> PreparedInspection:
        """Build the environment on this node."""
        return prepare_here(inspection, self._settings, self._uses)

    def run(self, prepared: PreparedInspection, job: Job) -> JobResult:
        """Run one job on this node."""
        return with_environment(run_here(prepared, job, RayLauncher.name), prepared)


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is reserved until the launcher is closed.

    :param actor: handle of its :class:`Worker`
    """

    name: str
    actor: Any


class RayLauncher:
    """Builds environments and runs jobs on all free nodes of a cluster.

    :param address: address of the cluster; by default ``RAY_ADDRESS``, else this machine's cluster
    :raises RayUnavailable: also if Ray is not installed
    """

    name = "ray"

    def __init__(
        self, settings: Settings, on_line: LineCallback | None = None, address: str = "auto"
    ) -> None:
        self._on_line = on_line
        join_cluster(_SENT_PACKAGES, address)
        self._nodes = _reserve_nodes(settings)
        self._prepared: dict[str, list[tuple[Node, PreparedInspection]]] = {}
        self._lost: set[str] = set()

    def slots(self) -> int:
        """Return the number of reserved nodes."""
        return len(self._nodes)

    def prepare(self, inspection: Inspection) -> PreparedInspection:
        """Build concurrently on all nodes that have the requested hardware.

        :raises BuildFailed: if the build fails on a node, or no node has the hardware
        """
        pending = [(node, node.actor.prepare.remote(inspection)) for node in self._nodes]
        built: list[tuple[Node, PreparedInspection]] = []
        unmet: list[BuildFailed] = []
        for node, reference in pending:
            try:
                prepared = _result(node, reference)
            except BuildFailed as error:
                if error.reason != "hardware-not-met":
                    raise
                unmet.append(
                    BuildFailed(
                        error.reason,
                        f"{node.name}: {error.message}",
                        log=f"{node.name}:\n{error.log}",
                        exit_code=error.exit_code,
                    )
                )
                continue
            built.append((node, prepared))
            for line in f"{node.name}:\n{prepared.log}".splitlines() if self._on_line else ():
                self._on_line(line)  # type: ignore[misc]
        if not built:
            raise BuildFailed(
                "hardware-not-met",
                "; ".join(error.message for error in unmet),
                log="".join(error.log for error in unmet),
            )
        self._prepared[inspection.inspection_id] = built
        log = "".join(f"{node.name}:\n{prepared.log}" for node, prepared in built)
        log += "".join(f"{error}\n" for error in unmet)
        environments = {prepared.environment for _, prepared in built}
        common = environments.pop() if len(environments) == 1 else None
        return replace(built[0][1], environment=common, log=log)

    def run(self, prepared: PreparedInspection, job: Job) -> JobResult:
        """Run one job on the node that its slot selects among the nodes with the environment.

        :raises NodeLost: if the node is lost meanwhile; the next job uses another one
        """
        built = self._usable(prepared.inspection.inspection_id)
        if not built:
            raise NodeLost("all nodes of the cluster were lost")
        node, prepared = built[job.slot % len(built)]
        try:
            result: JobResult = _result(node, node.actor.run.remote(prepared, job))
        except NodeLost:
            self._lost.add(node.name)
            raise
        return result

    def _usable(self, inspection_id: str) -> list[tuple[Node, PreparedInspection]]:
        """Return nodes that an inspection can use, preferably those that all inspections can use.

        The jobs of a block run on the same node only if all inspections use the same list of nodes.
        """
        names = [{node.name for node, _ in built} for built in self._prepared.values()]
        shared = set.intersection(*names)
        left = [pair for pair in self._prepared[inspection_id] if pair[0].name not in self._lost]
        return [pair for pair in left if pair[0].name in shared] or left

    def close(self) -> None:
        """Release the nodes."""
        import ray

        for node in self._nodes:
            ray.kill(node.actor)
        ray.shutdown()


def _reserve_nodes(settings: Settings) -> list[Node]:
    """Reserve all nodes that become completely free within a minute."""
    import ray

    actors = []
    for node in live_nodes():
        options = {
            "num_cpus": node["Resources"]["CPU"],
            "num_gpus": node["Resources"].get("GPU", 0),
            "scheduling_strategy": only_on(node),
            "max_restarts": 0,
        }
        actor = ray.remote(Worker).options(**options).remote(settings.package_indexes)
        actors.append(Node(f"{node['NodeManagerHostname']} {node['NodeID'][:8]}", actor))
    waiting = {node.actor.ready.remote(): node for node in actors}
    ready, busy = ray.wait(list(waiting), num_returns=len(waiting), timeout=_FREE_S)
    for reference in busy:
        ray.kill(waiting[reference].actor)
    return [waiting[reference] for reference in _started(ready, waiting)]


def _started(ready: Sequence[Any], waiting: Mapping[Any, Node]) -> list[Any]:
    """Return the references of the nodes on which the worker has started."""
    import ray

    started, message = [], "all nodes are busy"
    for reference in waiting:
        if reference not in ready:
            continue
        try:
            ray.get(reference)
        except ray.exceptions.RayError as error:
            message = str(error).strip().splitlines()[-1]
            continue
        started.append(reference)
    if not started:
        ray.shutdown()
        raise RayUnavailable(f"no node of the cluster is available: {message}")
    return started


def _result(node: Node, reference: Any) -> Any:
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ProjectError):
            raise error.cause from None
        raise
    except ray.exceptions.RayActorError as error:
        raise NodeLost(f"the node {node.name} was lost: {error}") from error


_ANSWER_S = 60.0
_CONNECT_S = 10.0
_DISTRIBUTION = "thoth"
_START = (
    "start one (`ray start --head`, on other machines `ray start --address HEAD`), "
    "and set RAY_ADDRESS if it is on another machine"
)


class RayUnavailable(ProjectError):
    """No cluster answers, or none of its nodes is available."""

    def __init__(self, message: str, hint: str = _START) -> None:
        super().__init__(message)
        self.hint = hint


def join_cluster(packages: Sequence[str], address: str = "auto") -> None:
    """Join a cluster, and send our code to its nodes if one of them has another release.

    :param packages: names of our packages that run on the nodes
    :param address: by default ``RAY_ADDRESS``, else this machine's cluster
    :raises RayUnavailable: also if Ray is not installed
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise RayUnavailable("Ray is not installed", "install the extra `ray`") from error
    try:
        known = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
        host, _, port = known.rpartition(":")
        # If the address does not answer, Ray itself would wait for minutes.
        if port.isdigit() and "/" not in host:
            socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
        _join(address, {})
        if not all(map(_is_same_release, live_nodes())):
            ray.shutdown()
            root = Path(__file__).parents[3]
            _join(address, {"py_modules": [str(root / name) for name in packages]})
    except (OSError, RuntimeError, ValueError) as error:
        raise RayUnavailable(f"no Ray cluster answers: {error}") from error


def live_nodes() -> list[dict[str, Any]]:
    """Return the live nodes with processors, in a reproducible order."""
    import ray

    all_nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    nodes = [node for node in all_nodes if node["Alive"] and node["Resources"].get("CPU")]
    return sorted(nodes, key=lambda node: (node["NodeManagerHostname"], node["NodeID"]))


def only_on(node: Mapping[str, Any]) -> Any:
    """Return the scheduling strategy that uses only this node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)


def _join(address: str, runtime_env: Mapping[str, Any]) -> None:
    import ray

    ray.init(
        address=address, runtime_env=dict(runtime_env), log_to_driver=False, configure_logging=False
    )


def _is_same_release(node: Mapping[str, Any]) -> bool:
    import ray

    # A function of the standard library, which a node without our code can run.
    ask = ray.remote(importlib.metadata.version)
    reference = ask.options(num_cpus=0, scheduling_strategy=only_on(node)).remote(_DISTRIBUTION)
    try:
        version = ray.get(reference, timeout=_ANSWER_S)
    except ray.exceptions.RayError:
        return False
    return bool(version == importlib.metadata.version(_DISTRIBUTION))
