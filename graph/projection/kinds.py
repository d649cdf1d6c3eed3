"""Every kind of node and edge that the projection owns."""

from __future__ import annotations

from graph.projection.advice import ADVICE, ANSWERS, BASED_ON, CLAIMS, RECOMMENDED, REQUEST
from graph.projection.claims import BASELINE, CANDIDATE, CLAIM, DIFFERS_IN
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
from graph.projection.native import (
    ARTIFACT,
    BUILT_AS,
    NATIVE_ENVIRONMENT,
    NATIVE_INTERFACE,
    NEEDS,
    PROVIDES,
)
from graph.projection.packages import (
    AFFECTS,
    HAS_VERSION,
    PACKAGE,
    PACKAGE_INDEX,
    PACKAGE_VERSION,
    PUBLISHED_ON,
    REQUIRES,
)
from graph.projection.stacks import INCLUDES, STACK
from graph.projection.vulnerabilities import VULNERABILITY

#: Those before what points at them.
NODES: tuple[NodeKind, ...] = (
    PACKAGE,
    PACKAGE_INDEX,
    VULNERABILITY,
    PACKAGE_VERSION,
    NATIVE_INTERFACE,
    ARTIFACT,
    NATIVE_ENVIRONMENT,
    STACK,
    HARDWARE,
    BASE_IMAGE,
    NATIVE_PACKAGE,
    RUNTIME_ENVIRONMENT,
    PERFORMANCE_INDICATOR,
    INSPECTION,
    OBSERVATION,
    CLAIM,
    REQUEST,
    ADVICE,
)

EDGES: tuple[EdgeKind, ...] = (
    HAS_VERSION,
    PUBLISHED_ON,
    REQUIRES,
    AFFECTS,
    BUILT_AS,
    NEEDS,
    PROVIDES,
    INCLUDES,
    FROM_IMAGE,
    INSTALLS,
    INSPECTED,
    RAN_ON,
    IN,
    OBSERVED,
    OF,
    CANDIDATE,
    BASELINE,
    DIFFERS_IN,
    RECOMMENDED,
    BASED_ON,
    CLAIMS,
    ANSWERS,
)
