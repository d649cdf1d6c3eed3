"""Version of the parsers that turn documents into rows.

Increase :data:`PARSER_VERSION` when a change of the parsers gives other rows for a document that
was accepted before, and add the changed columns to :data:`CHANGED_COLUMNS`. Otherwise ``thoth
record verify`` reports that the rows of older documents were tampered with.
"""

from collections.abc import Mapping
from types import MappingProxyType

PARSER_VERSION = 4

#: Version of the readers of other benchmark systems. Increase it when files give other results than
#: before: once they are ingested again, the new results replace those of earlier versions.
READER_VERSION = 2

#: By version, what it fills differently from earlier versions: ``table`` for all of its rows,
#: ``table.column``, ``table.column=value`` where only that value is new, or ``+table.column`` where
#: earlier versions left the column empty. Documents stored before this scheme have version 0.
CHANGED_COLUMNS: Mapping[int, frozenset[str]] = MappingProxyType(
    {
        1: frozenset(
            {
                # Problems of the host used to count as failures of the stack.
                "observations.outcome=host_problem",
                "observations.quarantine_reason=host-problem",
                "inspections.job_count",
                "+documents.collector",
                "+observations.spread",
                "+observations.minor_faults",
                "+observations.major_faults",
                "+observations.voluntary_switches",
                "+observations.involuntary_switches",
                "+observations.blocks_read",
                "+observations.blocks_written",
                "+observations.throttled",
                "+observations.swapped",
                "+observations.load",
                "+observations.launcher",
                "+observations.threads",
                "+observations.blas",
                # Only the report of an advice used to be stored.
                "claims",
                "claim_packages",
                "advice_claims",
                "requests",
            }
        ),
        # A download that stalled or broke off was a failure of the stack.
        2: frozenset(
            {"observations.outcome=host_problem", "observations.quarantine_reason=host-problem"}
        ),
        3: frozenset({"+observations.tick_share"}),
        4: frozenset(
            {
                "+observations.boot",
                "+observations.build",
                "+observations.energy_j",
                "+observations.energy_note",
                "+inspections.bundled",
            }
        ),
    }
)


def columns_changed_since(version: int) -> frozenset[str]:
    """Columns that parser versions after ``version`` fill differently."""
    later = (columns for number, columns in CHANGED_COLUMNS.items() if number > version)
    return frozenset[str]().union(*later)
