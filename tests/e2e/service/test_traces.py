"""Server and worker as processes send one trace to a collector on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.services.receiver import Receiver, receiver
from tests.services.served import serving
from tests.services.waiting import wait_until


def spans_of(server: Receiver) -> Iterator[tuple[str, Span]]:
    """The name of the service and each span that arrived."""
    for request in server.received:
        assert request.path == "/v1/traces"
        export = ExportTraceServiceRequest.FromString(request.body)
        for resource in export.resource_spans:
            values = {it.key: it.value.string_value for it in resource.resource.attributes}
            for scope in resource.scope_spans:
                yield from ((values["service.name"], span) for span in scope.spans)


@pytest.mark.slow
def test_a_collector_gets_the_trace_of_a_request_and_its_job() -> None:
    with receiver() as collector, tempfile.TemporaryDirectory(prefix="thoth-traced-") as home:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        with serving(Path(home), variables) as service, service.client() as client:
            body = {"files": {"requirements.in": "web\n"}, "environment": {"python": "3.11"}}
            sent = client.post("/api/v2/advice?force=true", json=body)
            assert sent.status_code == 202, sent.text

            def job_arrived() -> bool:
                return any(it.name == "process advice.make" for _, it in spans_of(collector))

            wait_until(job_arrived, "the span of the job arrives", log=service.worker_log)
        spans = list(spans_of(collector))
    assert {name for name, _ in spans} == {"thoth"}
    (request,) = [it for _, it in spans if it.name == "POST /api/v2/advice"]
    (job,) = [it for _, it in spans if it.name == "process advice.make"]
    assert (job.trace_id, job.parent_span_id) == (request.trace_id, request.span_id)
    below = {it.name.partition(" ")[0] for _, it in spans if it.parent_span_id == job.span_id}
    assert below == {"postgresql", "graph"}
