"""What an assessment starts from, beside the request, the snapshot and the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.packages.identity import Purl


@dataclass(frozen=True, slots=True)
class Premises:
    """What a search found out before its last round; a report names it, so it can be checked.

    :param baseline: version by name of the stack that claims compare with; ``None`` for the newest
        version of each package
    :param settled: whether every search finds this baseline; ``False`` if the search reached its
        limit
    :param context: the stack beside which the effects of versions are judged; ``None`` if they
        were measured in one context only
    :param slower: versions that are settled to be slower than the project's, with the reason
    :param slower_stacks: stacks as version by name that are settled to be slower than the project's
    :param kept: whether every other stack would do harm, so that the project's versions are kept
    :param speed_accepted: whether every stack without other harm that meets the request is slower
    :param harm_accepted: whether every stack that meets the request does other harm
    """

    baseline: Mapping[str, str] | None
    settled: bool = True
    context: tuple[Purl, ...] | None = None
    slower: Mapping[Purl, str] = field(default_factory=dict)
    slower_stacks: tuple[Mapping[str, str], ...] = ()
    kept: bool = False
    speed_accepted: bool = False
    harm_accepted: bool = False
