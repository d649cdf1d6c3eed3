"""Join a Ray cluster whose nodes run this code; needs the extra ``ray``."""

from __future__ import annotations

import importlib.metadata
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from model.errors import ProjectError

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
        _require_answer(os.environ.get("RAY_ADDRESS", address) if address == "auto" else address)
        _join(address, {})
        if not all(map(_is_same_release, live_nodes())):
            ray.shutdown()
            root = Path(__file__).parents[1]
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


def _require_answer(address: str) -> None:
    """Check that the address answers; Ray itself would wait for minutes."""
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
