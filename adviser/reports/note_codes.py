"""The codes of notes, and where the documentation explains each: one table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from adviser.projects.project import WarningCode
from adviser.reports.version_rationale import RationaleCode
from adviser.scoring.assessments import JustificationCode

REPORTS = "docs/reference/report.md"
RECOMMENDATION_TYPES = "docs/reference/recommendation-types.md"
PROJECTS = "docs/guides/projects.md"


class NoteCode(StrEnum):
    """Notes of the report itself; those of scoring have the codes of its own table."""

    ENVIRONMENT = "environment"
    #: Nothing was measured on the hardware that is asked about.
    HARDWARE = "hardware"
    BASELINE = "baseline"
    COVERAGE = "coverage"
    #: When each source of what is known was last asked.
    SOURCES = "sources"
    #: Comparisons that further jobs would settle.
    NEXT_JOBS = "next_jobs"
    #: The budget was spent before the proof.
    LIMIT = "limit"
    #: Fewer stacks than wanted: there are no others.
    FEW_STACKS = "few_stacks"
    #: The same name on an index that the package does not come from.
    OTHER_INDEX = "other_index"
    #: An index that this machine does not know.
    INDEX_UNKNOWN = "index_unknown"
    #: Packages that are not known yet, and how they get known.
    FETCH = "fetch"
    #: There is no stack among what was read, and an index lists more.
    UNREAD = "unread"
    #: Nothing is known of any vulnerability.
    NO_ADVISORIES = "no_advisories"
    #: A name in the request that nothing here is called.
    NO_EFFECT = "no_effect"
    #: A pre-release that nobody asks for, as the request refuses every release that would do.
    ONLY_PRERELEASES = "only_prereleases"
    #: An extra that is asked of a version that does not have it.
    EXTRA_MISSING = "extra_missing"
    #: No lock can be written.
    NO_LOCK = "no_lock"
    #: What the project has already.
    STAY = "stay"
    CONFLICT = "conflict"


def project_code(code: WarningCode) -> str:
    """The code of a note about what the project's reader left out."""
    return f"project_{code.value}"


#: The page on which each code has an anchor of its own name.
PAGES: Mapping[str, str] = {
    **{it.value: REPORTS for it in NoteCode},
    **{it.value: REPORTS for it in RationaleCode},
    **{it.value: RECOMMENDATION_TYPES for it in JustificationCode},
    **{project_code(it): PROJECTS for it in WarningCode},
}


def link_of(code: str) -> str:
    """Where a code is explained: a page, from the top of the documentation's tree, and an anchor.

    >>> link_of("stay")
    'docs/reference/report.md#stay'
    """
    return f"{PAGES[code]}#{code}"
