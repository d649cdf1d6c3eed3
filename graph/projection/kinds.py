"""Every kind of node and edge that the projection owns."""

from __future__ import annotations

from graph.projection.environments import (
    BASE_IMAGE,
    FROM_IMAGE,
    INSTALLS,
    NATIVE_PACKAGE,
    RUNTIME_ENVIRONMENT,
)
from graph.projection.hardware import HARDWARE
from graph.projection.indicators import PERFORMANCE_INDICATOR
from graph.projection.inspections import (
    IN,
    INSPECTED,
    INSPECTION,
    OBSERVATION,
    OBSERVED,
    OF,
    RAN_ON,
)
from graph.projection.model import EdgeKind, NodeKind
from graph.projection.packages import (
    HAS_VERSION,
    PACKAGE,
    PACKAGE_INDEX,
    PACKAGE_VERSION,
    PUBLISHED_ON,
)
from graph.projection.stacks import INCLUDES, STACK

#: Those before what points at them.
NODES: tuple[NodeKind, ...] = (
    PACKAGE,
    PACKAGE_INDEX,
    PACKAGE_VERSION,
    STACK,
    HARDWARE,
    BASE_IMAGE,
    NATIVE_PACKAGE,
    RUNTIME_ENVIRONMENT,
    PERFORMANCE_INDICATOR,
    INSPECTION,
    OBSERVATION,
)

EDGES: tuple[EdgeKind, ...] = (
    HAS_VERSION,
    PUBLISHED_ON,
    INCLUDES,
    FROM_IMAGE,
    INSTALLS,
    INSPECTED,
    RAN_ON,
    IN,
    OBSERVED,
    OF,
)
