"""The report of a run of Dependency Monkey as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adviser.monkey.strategies import (
    GeneratedStack,
    ImpossibleVersions,
    InfeasiblePair,
    SpaceReport,
)

#: Increased when a key changes its meaning or is removed, not when one is added.
MONKEY_DOCUMENT_VERSION = 1


@dataclass(frozen=True, slots=True)
class WrittenStack:
    """A generated stack with what became of it.

    :param specifications: file names by indicator
    :param inspections: identifiers of submitted inspections by file name
    :param problem: why there is no specification; ``None`` if there is one
    """

    generated: GeneratedStack
    specifications: dict[str, str]
    inspections: dict[str, str]
    problem: str | None = None

    def document(self) -> dict[str, Any]:
        """The stack as JSON values."""
        return {
            "packages": self.generated.pins,
            "reason": self.generated.reason,
            "specifications": self.specifications,
            "inspections": self.inspections,
            "problem": self.problem,
        }


def space_document(size: SpaceReport) -> dict[str, Any]:
    """The size of a space as JSON values; large numbers are texts."""
    return {
        "packages": size.packages,
        "versions": size.versions,
        "classes": size.classes,
        "product_of_direct_requirements": str(size.direct_product),
        "product_of_all_packages": str(size.raw_product),
        "valid_stacks": {
            "exact": size.valid.exact,
            "number": str(size.valid.estimate),
            "low": str(size.valid.low),
            "high": str(size.valid.high),
        },
        "diagram_states": size.states,
    }


def monkey_document(
    parameters: dict[str, Any],
    size: SpaceReport,
    stacks: Sequence[WrittenStack],
    infeasible: Sequence[InfeasiblePair],
    impossible: Sequence[ImpossibleVersions],
    sampling: str,
    unread: dict[str, int],
) -> dict[str, Any]:
    """The whole report as JSON values.

    :param unread: number of versions that were not read and so cannot occur, by package
    """
    return {
        "version": MONKEY_DOCUMENT_VERSION,
        "parameters": parameters,
        "space": space_document(size),
        "sampling": sampling or None,
        "stacks": [it.document() for it in stacks],
        "infeasible": [
            {"versions": {name: list(them) for name, them in it.versions},
             "proof": list(it.proof) or "no stack in the diagram of all valid stacks has them"}
            for it in infeasible
        ],
        "not_installable": [
            {"package": it.name, "versions": list(it.versions), "reason": it.reason}
            for it in impossible
        ],
        "unread_versions": dict(sorted(unread.items())),
    }  # fmt: skip
