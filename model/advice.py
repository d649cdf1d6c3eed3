"""Stored advice: head, request, recommended stacks and claims."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from model.declared_fields import DIGEST, Field, public
from model.measurements.inspection import Stack


@dataclass(frozen=True, slots=True)
class AdviceHead:
    """An advice with the fields that are shown in lists."""

    advice_id: Annotated[
        str, Field("Identifier of the advice.", "adviser-260101000000-5f0c9d2be417a863")
    ]
    recommendation_type: str
    status: str
    snapshot_revision: Annotated[str, public("Revision of the package data that was used.", DIGEST)]
    result_digest: Annotated[
        str, public("Digest of the result, without times and identifiers.", DIGEST)
    ]
    created_at: Annotated[datetime, public("When the advice was made.")]
    python_version: Annotated[
        str | None, public("Python version of the requested environment.", "3.11")
    ] = None
    platform: Annotated[
        str | None, public("Platform of the requested environment, as a wheel tag.")
    ] = None


@dataclass(frozen=True, slots=True)
class RecommendedStack:
    """A recommended stack and its score in points."""

    stack: Stack
    score: float


@dataclass(frozen=True, slots=True)
class AdviceRequestSummary:
    """The part of a request that :class:`AdviceHead` does not contain.

    :param requirements: PEP 508 texts
    :param packages: names of the required packages
    :param hardware_digest: requested hardware class
    :param stack_count: number of requested stacks
    """

    requirements: Collection[str]
    packages: Collection[str]
    hardware_digest: str | None
    stack_count: int


@dataclass(frozen=True, slots=True)
class AdviceLinks:
    """The edges of an advice in the graph.

    :param stacks: recommended stacks, best first; may be empty
    :param evidence: identifiers in the claims and justifications; identifiers that are not
        observations of the record are ignored
    :param claims: all claims, including claims about stacks that are not recommended
    :param request: ``None`` leaves the request out of the graph
    """

    stacks: Sequence[RecommendedStack] = ()
    evidence: Collection[str] = ()
    claims: Sequence[RecordedClaim] = ()
    request: AdviceRequestSummary | None = None


@dataclass(frozen=True, slots=True)
class StoredAdvice:
    """An advice as canonical JSON documents: request, snapshot, evidence, files and report.

    :param files: files of the releases in all recommended stacks, as the record lists them
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
        """The five documents, in the order of the columns of :class:`graph.tables.AdviceRow`."""
        return self.request, self.snapshot, self.evidence, self.files, self.report


@dataclass(frozen=True, slots=True)
class RecordedClaim:
    """A verdict on one measured stack compared with another stack.

    The fields have the same names and meanings as in the claims of a report. Both digests identify
    stacks in the record.

    :param claim_id: digest of the whole claim, including parts that are not stored here
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
