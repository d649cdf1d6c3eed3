"""Parses inspections as tasks on a Ray cluster, in the order of their source."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from common.ray_cluster import RayUnavailable, join_cluster, live_nodes
from ingest.inspections.parsing import parse_inspections
from ingest.sources.source_items import MEBIBYTE, RawDocument, RefusedDocument
from model.measurements.inspection import InspectionDocument

_SENT_PACKAGES = ("common", "graph", "ingest", "pis")
#: A task parses this number of documents, or fewer if they have this number of bytes.
CHUNK_DOCUMENTS = 100
_CHUNK_BYTES = 8 * MEBIBYTE
#: A task that was lost with its worker or node is run again this number of times.
_RETRIES = 5

_Parsed = list[InspectionDocument | RefusedDocument]


@contextmanager
def cluster_parser() -> Iterator[ClusterParser]:
    """A parser on the cluster that ``RAY_ADDRESS`` names, else on this machine's cluster.

    :raises RayUnavailable: if no cluster answers, or Ray is not installed
    """
    join_cluster(_SENT_PACKAGES)
    import ray

    try:
        yield ClusterParser()
    finally:
        ray.shutdown()


class ClusterParser:
    """Parses chunks of documents at the same time, and returns them in their order."""

    def __init__(self) -> None:
        """:raises RayUnavailable: if the cluster has no processors"""
        import ray

        processors = sum(int(node["Resources"]["CPU"]) for node in live_nodes())
        if processors == 0:
            raise RayUnavailable("no node of the cluster has a processor")
        # Each processor has a chunk and the next one.
        self._most = 2 * processors
        self._task = ray.remote(_parse_chunk).options(num_cpus=1, max_retries=_RETRIES)

    def __call__(self, documents: Iterable[RawDocument | RefusedDocument]) -> Iterator[_Parsed]:
        """Yield what each document contains, as :func:`parse_inspections` returns it.

        :raises RayUnavailable: if the cluster is lost
        """
        pending: deque[Any] = deque()
        for chunk in _chunks(documents):
            if len(pending) >= self._most:
                yield from _result(pending.popleft())
            # The clocks of other machines do not matter.
            pending.append(self._task.remote(chunk, datetime.now(UTC)))
        while pending:
            yield from _result(pending.popleft())


def _chunks(
    documents: Iterable[RawDocument | RefusedDocument],
) -> Iterator[list[RawDocument | RefusedDocument]]:
    chunk: list[RawDocument | RefusedDocument] = []
    size = 0
    for document in documents:
        if isinstance(document, RefusedDocument):
            chunk.append(document)
        else:
            size += document.size_bytes
            # Only the bytes are sent to the task.
            chunk.append(replace(document, value=None))
        if len(chunk) >= CHUNK_DOCUMENTS or size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _parse_chunk(
    documents: Sequence[RawDocument | RefusedDocument], now: datetime
) -> list[_Parsed]:
    """The task."""
    return [
        [it] if isinstance(it, RefusedDocument) else list(parse_inspections(it, now=now))
        for it in documents
    ]


def _result(reference: Any) -> list[_Parsed]:
    import ray

    try:
        parsed: list[_Parsed] = ray.get(reference)
    except ray.exceptions.RayTaskError:
        raise
    except ray.exceptions.RayError as error:
        raise RayUnavailable(f"the Ray cluster was lost: {error}") from error
    return parsed
