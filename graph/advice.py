"""An advice as the record keeps it: head, request, stacks and claims, without a driver."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from common.inspection import Stack


@dataclass(frozen=True, slots=True)
class AdviceHead:
    """What a list of advice shows.

    :param status: how the search ended
    :param snapshot_revision: names the content of the snapshot
    :param result_digest: of what of the report does not depend on when it was made
    :param python_version: of the environment that was asked about, such as ``3.11``
    :param platform: of it too, as a wheel tag names it
    """

    advice_id: str
    recommendation_type: str
    status: str
    snapshot_revision: str
    result_digest: str
    created_at: datetime
    python_version: str | None = None
    platform: str | None = None


@dataclass(frozen=True, slots=True)
class RecommendedStack:
    """One stack of an advice, and its score in points."""

    stack: Stack
    score: float


@dataclass(frozen=True, slots=True)
class AdviceRequestSummary:
    """What a request asks for, beside what the head of its advice tells.

    :param requirements: by PEP 508
    :param packages: names of the packages that these ask for
    :param hardware_digest: of the class that was asked about
    :param stack_count: how many stacks were asked for
    """

    requirements: Collection[str]
    packages: Collection[str]
    hardware_digest: str | None
    stack_count: int


@dataclass(frozen=True, slots=True)
class AdviceLinks:
    """What an advice is tied to in the graph.

    :param stacks: best first; empty where none was found
    :param evidence: identifiers that its claims and justifications name; those that are no
        observations of the record are passed over
    :param claims: all that it rests on, also those about stacks that it does not recommend
    :param asked_for: ``None`` leaves the request out of the graph
    """

    stacks: Sequence[RecommendedStack] = ()
    evidence: Collection[str] = ()
    claims: Sequence[RecordedClaim] = ()
    asked_for: AdviceRequestSummary | None = None


@dataclass(frozen=True, slots=True)
class StoredAdvice:
    """An advice as canonical JSON documents: what was asked, what was known, what was said.

    :param files: of the releases of every advised stack, as the record had them
    :param schema_version: of the report
    """

    head: AdviceHead
    schema_version: str
    request: bytes
    snapshot: bytes
    evidence: bytes
    files: bytes
    report: bytes

    @property
    def bodies(self) -> tuple[bytes, bytes, bytes, bytes, bytes]:
        """The documents, in the order in which the record names them."""
        return self.request, self.snapshot, self.evidence, self.files, self.report


@dataclass(frozen=True, slots=True)
class RecordedClaim:
    """A verdict on one measured stack next to another, as the adviser reports it.

    Fields have the names and the meaning of the report's claims; both digests are of stacks
    of the record.

    :param claim_id: digest of the whole claim, also of what is not stored here
    """

    claim_id: str
    package: str | None
    stack_digest: str
    baseline_digest: str
    indicator: str
    parameters: Mapping[str, Any]
    device: str | None
    unit: str
    comparison_key: str
    hardware_digest: str
    python_version: str | None
    same_hardware: bool
    same_python: bool
    verdict: str
    effect_pct: float | None
    observed_pct: float | None
    interval_low_pct: float | None
    interval_high_pct: float | None
    delta_pct: float
    p_value: float | None
    method: str
    jobs: int
    baseline_jobs: int
    runs: int
    baseline_runs: int
    pairs: int
    hosts: int | None
    needs: str | None
    jobs_missing: int
    baseline_jobs_missing: int
    scored: bool
    as_of: datetime | None
