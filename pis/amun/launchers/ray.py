"""Jobs on the nodes of a Ray cluster: one node runs one block at a time, and nothing else.

An actor a node holds all of its processors and GPUs, so that Ray puts no other work beside
a measurement, and does there what the local launcher does here. Whole blocks go to a node:
jobs that are compared as pairs then share their host.
"""

from __future__ import annotations

import importlib.metadata
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.errors import ProjectError
from common.settings import Settings
from pis.amun.inspection_folder import attributed
from pis.amun.installer import Say
from pis.amun.launchers import BuildFailed, Inspection, Job, JobResult, Prepared
from pis.amun.launchers.local import prepare_here, run_here

#: How long a node may be busy with other work before it is not waited for.
_FREE_S = 60.0
_ANSWER_S = 60.0
_CONNECT_S = 10.0
#: Rooms that a node needs if it has not the same release.
_ROOMS = ("common", "pis")
_DISTRIBUTION = "thoth"
_START = (
    "start one (`ray start --head`, on other machines `ray start --address HEAD`), "
    "and name it by RAY_ADDRESS if it is not this machine's"
)


class RayUnavailable(ProjectError):
    """No cluster answers, or none of its nodes can be had."""

    def __init__(self, message: str, hint: str = _START) -> None:
        super().__init__(message)
        self.hint = hint


class NodeLost(ProjectError):
    """A node went away while it ran a job: the machine, the network, or its memory."""


class Worker:
    """What runs on a node, as an actor."""

    def __init__(self, package_indexes: tuple[tuple[str, str], ...]) -> None:
        # Ray sets it to what it handed out; here the specification has the say.
        os.environ.pop("OMP_NUM_THREADS", None)
        self._settings = replace(Settings.from_env(), package_indexes=package_indexes)

    def ready(self) -> str:
        """Where the code that runs here comes from; answers as soon as the node is ours."""
        return __file__

    def prepare(self, inspection: Inspection) -> Prepared:
        """Build the environment on this node."""
        return prepare_here(inspection, self._settings)

    def run(self, prepared: Prepared, job: Job) -> JobResult:
        """Run one job on this node."""
        return attributed(run_here(prepared, job, RayLauncher.name), prepared)


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is ours alone until the launcher is closed.

    :param actor: the handle of its :class:`Worker`
    """

    name: str
    actor: Any


class RayLauncher:
    """Builds and runs on every node of a cluster that nothing else is using.

    :param address: of the cluster; by default what ``RAY_ADDRESS`` says, else this machine's
    :raises RayUnavailable: also if Ray is not installed
    """

    name = "ray"

    def __init__(self, settings: Settings, say: Say | None = None, address: str = "auto") -> None:
        self._say = say
        _connect(address)
        self._nodes = _claimed(settings)
        self._prepared: dict[str, list[tuple[Node, Prepared]]] = {}
        self._lost: set[str] = set()

    def slots(self) -> int:
        """As many as there are nodes."""
        return len(self._nodes)

    def prepare(self, inspection: Inspection) -> Prepared:
        """Build on all nodes at a time; those that are not what was asked for are left out.

        :raises BuildFailed: if a node cannot build, or none has the hardware
        """
        pending = [(node, node.actor.prepare.remote(inspection)) for node in self._nodes]
        built: list[tuple[Node, Prepared]] = []
        unmet: list[BuildFailed] = []
        for node, reference in pending:
            try:
                prepared = _result(node, reference)
            except BuildFailed as error:
                if error.reason != "hardware-not-met":
                    raise
                unmet.append(_named(node, error))
                continue
            built.append((node, prepared))
            self._tell(f"{node.name}:\n{prepared.log}")
        if not built:
            raise _together(unmet)
        self._prepared[inspection.inspection_id] = built
        log = "".join(f"{node.name}:\n{prepared.log}" for node, prepared in built)
        log += "".join(f"{error}\n" for error in unmet)
        return replace(built[0][1], environment=_common_environment(built), log=log)

    def run(self, prepared: Prepared, job: Job) -> JobResult:
        """Run one job on the node of its slot.

        An inspection that not every node could be prepared for keeps to those that could.

        :raises NodeLost: if the node goes away meanwhile; the next job goes to another
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

    def _usable(self, inspection_id: str) -> list[tuple[Node, Prepared]]:
        """Nodes that an inspection can run on: those of all inspections, if there are any.

        A block stays whole only where every inspection counts the same nodes.
        """
        left = [it for it in self._prepared[inspection_id] if it[0].name not in self._lost]
        names = [{node.name for node, _ in built} for built in self._prepared.values()]
        shared = [it for it in left if it[0].name in set.intersection(*names)]
        return shared or left

    def close(self) -> None:
        """Give the nodes back."""
        import ray

        for node in self._nodes:
            ray.kill(node.actor)
        ray.shutdown()

    def _tell(self, text: str) -> None:
        for line in text.splitlines() if self._say else ():
            self._say(line)  # type: ignore[misc]


def _connect(address: str) -> None:
    """Join the cluster; nodes that have another release of ours get the code that runs here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise RayUnavailable("Ray is not installed", "install the extra `ray`") from error
    try:
        _require_answer(os.environ.get("RAY_ADDRESS", address) if address == "auto" else address)
        _join(address, {})
        if not all(map(_is_same_release, _alive())):
            ray.shutdown()
            root = Path(__file__).parents[3]
            _join(address, {"py_modules": [str(root / room) for room in _ROOMS]})
    except (OSError, RuntimeError, ValueError) as error:
        raise RayUnavailable(f"no Ray cluster answers: {error}") from error


def _require_answer(address: str) -> None:
    """Ray itself would wait for minutes for an address where nothing is."""
    host, _, port = address.rpartition(":")
    if port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()


def _join(address: str, runtime_env: Mapping[str, Any]) -> None:
    import ray

    ray.init(
        address=address,
        runtime_env=dict(runtime_env),
        log_to_driver=False,
        configure_logging=False,
    )


def _alive() -> list[dict[str, Any]]:
    """Nodes with processors, in an order that is the same every time."""
    import ray

    known: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    nodes = [node for node in known if node["Alive"] and node["Resources"].get("CPU")]
    return sorted(nodes, key=lambda node: (node["NodeManagerHostname"], node["NodeID"]))


def _on(node: Mapping[str, Any]) -> Any:
    """The strategy that takes this node or none."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)


def _is_same_release(node: Mapping[str, Any]) -> bool:
    import ray

    # A function of the standard library: a node without our code can run it.
    ask = ray.remote(importlib.metadata.version)
    reference = ask.options(num_cpus=0, scheduling_strategy=_on(node)).remote(_DISTRIBUTION)
    try:
        found = ray.get(reference, timeout=_ANSWER_S)
    except ray.exceptions.RayError:
        return False
    return bool(found == importlib.metadata.version(_DISTRIBUTION))


def _claimed(settings: Settings) -> list[Node]:
    """All nodes that can be had within a minute, each of them whole."""
    import ray

    actors = []
    for node in _alive():
        options = {
            "num_cpus": node["Resources"]["CPU"],
            "num_gpus": node["Resources"].get("GPU", 0),
            "scheduling_strategy": _on(node),
            "max_restarts": 0,
        }
        actor = ray.remote(Worker).options(**options).remote(settings.package_indexes)
        actors.append(Node(f"{node['NodeManagerHostname']} {node['NodeID'][:8]}", actor))
    waiting = {node.actor.ready.remote(): node for node in actors}
    ready, busy = ray.wait(list(waiting), num_returns=len(waiting), timeout=_FREE_S)
    for reference in busy:
        ray.kill(waiting[reference].actor)
    return [waiting[reference] for reference in _sound(ready, waiting)]


def _sound(ready: Sequence[Any], waiting: Mapping[Any, Node]) -> list[Any]:
    """Those on which the worker came up.

    :raises RayUnavailable: if it did on none
    """
    import ray

    sound, words = [], "all nodes are busy"
    for reference in waiting:
        if reference not in ready:
            continue
        try:
            ray.get(reference)
        except ray.exceptions.RayError as error:
            words = str(error).strip().splitlines()[-1]
            continue
        sound.append(reference)
    if not sound:
        ray.shutdown()
        raise RayUnavailable(f"no node of the cluster can be had: {words}")
    return sound


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


def _common_environment(built: Sequence[tuple[Node, Prepared]]) -> str | None:
    """The environment of all nodes; ``None`` if they differ: each result names its own."""
    environments = {prepared.environment for _, prepared in built}
    return environments.pop() if len(environments) == 1 else None


def _named(node: Node, error: BuildFailed) -> BuildFailed:
    return BuildFailed(
        error.reason,
        f"{node.name}: {error.message}",
        log=f"{node.name}:\n{error.log}",
        exit_code=error.exit_code,
    )


def _together(unmet: Sequence[BuildFailed]) -> BuildFailed:
    return BuildFailed(
        "hardware-not-met",
        "; ".join(error.message for error in unmet),
        log="".join(error.log for error in unmet),
    )
