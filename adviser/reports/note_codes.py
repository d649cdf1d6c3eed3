"""The codes of notes, the page that explains each, and notes as remarks in a table of versions."""

from collections.abc import Mapping
from enum import StrEnum

from adviser.projects.project import WarningCode
from adviser.reports.version_rationale import RationaleCode
from adviser.scoring.assessment_types import JustificationCode

REPORTS = "docs/reference/report.md"
RECOMMENDATION_TYPES = "docs/reference/recommendation-types.md"
PROJECTS = "docs/guides/projects.md"


class NoteCode(StrEnum):
    """Codes of notes that the report adds; notes from scoring have a :class:`JustificationCode`."""

    ENVIRONMENT = "environment"
    #: Nothing was measured on the requested hardware.
    HARDWARE = "hardware"
    BASELINE = "baseline"
    COVERAGE = "coverage"
    #: When each data source was last read.
    SOURCES = "sources"
    #: Comparisons that more jobs could settle.
    NEXT_JOBS = "next_jobs"
    #: The search reached its limit before the proof.
    LIMIT = "limit"
    #: Fewer stacks than requested: no others exist.
    FEW_STACKS = "few_stacks"
    #: Another index has a package of the same name, which is ignored.
    OTHER_INDEX = "other_index"
    #: Packages come from an index because it is searched first.
    INDEX_ORDER = "index_order"
    #: A package comes from the index that owns its name.
    INDEX_OWNER = "index_owner"
    #: An index that is not configured on this machine.
    INDEX_UNKNOWN = "index_unknown"
    #: Packages that are missing from the store, and how to fetch them.
    FETCH = "fetch"
    #: No stack among the versions that were read, but an index lists more.
    UNREAD = "unread"
    #: The proof leaves out versions that only unread versions invite.
    UNREAD_INVITATIONS = "unread_invitations"
    #: The store has no advisories.
    NO_ADVISORIES = "no_advisories"
    OTHER_WHEELS = "other_wheels"
    #: Observations that do not count, because their documents were changed.
    REFUSED_EVIDENCE = "refused_evidence"
    #: An option of the request that matches nothing.
    NO_EFFECT = "no_effect"
    #: A pre-release, because the request refuses every suitable release.
    ONLY_PRERELEASES = "only_prereleases"
    #: A required extra that the chosen version does not have.
    EXTRA_MISSING = "extra_missing"
    #: A requirement that is not valid, and how it was read.
    OLD_SPECIFIER = "old_specifier"
    #: A version that must be built from its source distribution.
    BUILT_FROM_SDIST = "built_from_sdist"
    #: A version whose requirements only a build tells could resolve a conflict.
    BUILD = "build"
    #: Packages have wheels for another Python, and none for this one.
    OTHER_PYTHON = "other_python"
    #: A build of PyTorch for GPUs, where there is none.
    CUDA_BUILD = "cuda_build"
    #: Requirements that a build of the source distribution may change.
    REQUIREMENTS_LIKELY = "requirements_likely"
    #: A bound that no package declares, and that holds a package of the stack back.
    INFERRED_BOUND = "inferred_bound"
    #: No stack honours the inferred bounds of some packages, so they do not count.
    BOUNDS_DROPPED = "bounds_dropped"
    #: Results of another benchmark system, which decide nothing.
    BENCHMARKS = "benchmarks"
    #: The lock cannot be written.
    NO_LOCK = "no_lock"
    #: The project already has this stack.
    STAY = "stay"
    CONFLICT = "conflict"


def project_code(code: WarningCode) -> str:
    """The code of a note about a part of the project that was ignored."""
    return f"project_{code.value}"


#: Page by code. The anchor on the page is the code itself.
PAGES: Mapping[str, str] = {
    **{it.value: REPORTS for it in NoteCode},
    **{it.value: REPORTS for it in RationaleCode},
    **{it.value: RECOMMENDATION_TYPES for it in JustificationCode},
    **{project_code(it): PROJECTS for it in WarningCode},
}


def link_of(code: str) -> str:
    """The page and anchor that explain a code, relative to the root of the repository.

    >>> link_of("stay")
    'docs/reference/report.md#stay'
    """
    return f"{PAGES[code]}#{code}"


def remark_of(message: str, release: str, why: str) -> str:
    """The part of a note that the row of its release lacks; empty if the row has it all.

    :param message: of the note
    :param release: name and version
    :param why: the reason for the version, which the row shows

    >>> remark_of("core 1.0b1 is a pre-release: web 3 requires core==1.0b1", "core 1.0b1",
    ...           "web 3 requires core==1.0b1")
    '1.0b1 is a pre-release'
    >>> remark_of("core 2.0 is 12 % faster than 1.0 in matmul", "core 2.0", "")
    '2.0 is 12 % faster than 1.0 in matmul'
    >>> remark_of("core 2.0: 3.0: is yanked", "core 2.0", "3.0: is yanked")
    ''
    >>> remark_of("core 2.0 is 12 % faster than 3.0 in matmul (9 pairs)", "core 2.0",
    ...           "2.0 is 12 % faster than 3.0 in matmul (95 % interval 9 to 15 %)")
    ''
    """
    message = message.removesuffix(f": {why}")
    if message == release:
        return ""
    if not message.startswith(f"{release} "):
        return message
    # With the version, because the reason may be about another one.
    remark = message.removeprefix(f"{release.partition(' ')[0]} ")
    return "" if remark.partition(" (")[0] in why else remark
