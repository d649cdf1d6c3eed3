"""Traces with OpenTelemetry: spans of this process, and the trace that a job carries.

Nothing is imported or recorded unless a variable of OpenTelemetry names a collector and the extra
``otel`` is installed. The SDK reads all other ``OTEL_*`` variables itself.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from common import __version__

#: Name under which a job carries its trace, in the format of the W3C.
TRACEPARENT = "traceparent"
#: Either of these switches traces on.
_ADDRESSES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

_LOG = logging.getLogger(__name__)


class _Tracing:
    """The provider of this process, if traces are on."""

    provider: Any = None


def start_tracing() -> bool:
    """Export spans of this process, if the environment names a collector.

    Call it in each process, after forking.

    :returns: whether traces are on
    """
    if _Tracing.provider is not None:
        return True
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if disabled or not any(os.environ.get(it, "").strip() for it in _ADDRESSES):
        return False
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        _LOG.warning("tracing_not_installed", extra={"hint": "install Thoth with the extra otel"})
        return False
    attributes = {"service.version": __version__}
    named = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if not os.environ.get("OTEL_SERVICE_NAME") and "service.name=" not in named:
        attributes["service.name"] = "thoth"
    provider = TracerProvider(resource=Resource.create(attributes))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    use_provider(provider)
    return True


def use_provider(provider: Any) -> None:
    """Record spans with a provider of the SDK; ``None`` switches traces off."""
    _Tracing.provider = provider


def stop_tracing() -> None:
    """Export the spans that wait, and switch traces off."""
    provider, _Tracing.provider = _Tracing.provider, None
    if provider is not None:
        provider.shutdown()


@contextmanager
def span(
    name: str, kind: str, attributes: Mapping[str, str | int], *, traceparent: str | None = None
) -> Iterator[Any]:
    """A span around a block, below the current span or the one that ``traceparent`` names.

    Names and attributes must hold no values of clients and no secrets. If the block raises an
    error, the span has its type only, because messages quote values.

    :param kind: a member of OpenTelemetry's ``SpanKind``, in lower case
    :returns: the span; ``None`` if traces are off
    """
    if _Tracing.provider is None:
        yield None
        return
    from opentelemetry import trace

    carried = {} if traceparent is None else {TRACEPARENT: traceparent}
    parent = _propagator().extract(carried) if carried else None
    tracer = _Tracing.provider.get_tracer("thoth", __version__)
    with tracer.start_as_current_span(
        name, context=parent, kind=trace.SpanKind[kind.upper()], attributes=attributes,
        record_exception=False, set_status_on_exception=False,
    ) as current:  # fmt: skip
        try:
            yield current
        except BaseException as error:
            current.set_attribute("error.type", type(error).__name__)
            current.set_status(trace.StatusCode.ERROR)
            raise


@contextmanager
def span_below(name: str, attributes: Mapping[str, str | int]) -> Iterator[None]:
    """A span of a call of a store; none outside of a request or a job."""
    if _Tracing.provider is None or carried_trace() is None:
        yield
        return
    with span(name, "client", attributes):
        yield


def carried_trace() -> str | None:
    """The context that a job carries to continue the current trace; ``None`` without a trace."""
    if _Tracing.provider is None:
        return None
    carrier: dict[str, str] = {}
    _propagator().inject(carrier)
    return carrier.get(TRACEPARENT)


def _propagator() -> Any:
    """Reads and writes only the identifiers of a trace, and none of the baggage of a client."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()
