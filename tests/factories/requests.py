"""Requests and advice made in memory, on small indexes."""

import hashlib
from collections.abc import Mapping
from typing import Any

from adviser.advice_request import RequestIndex, RequestOptions, StackRequest
from adviser.advise import Advice, advise
from adviser.projects.parsing import parse_project
from adviser.reports.documents import ReleaseKnowledge
from adviser.scoring.criteria import RecommendationType
from model.measurements.evidence import Evidence
from model.packages.releases import ReleaseFile
from model.packages.snapshot import Snapshot
from tests.factories.evidence import HERE, NOW
from tests.factories.universes import ENVIRONMENT, Index, snapshot_of

NOTHING = Evidence(as_of=NOW, sources={"pypi": NOW})
MAIN = RequestIndex("pypi", "main", "https://index.example/simple")
#: RequestOptions of ``thoth advise``, as click hands them over.
GIVEN: dict[str, Any] = {
    "kind": "latest", "dev": False, "extras": (), "groups": (),
    "members": (), "all_members": False, "default_groups": True, "python": "3.11",
    "platform": "manylinux_2_28_x86_64", "cuda": None, "hardware": None, "labels": "",
    "constraints": (), "exclusions": (), "overrides": (), "newer_than": None, "older_than": None,
    "prereleases": (), "allowed": (), "indexes": (), "only_wheels": False, "build": False,
    "time_limit": 10.0, "memory_limit": 1024,
}  # fmt: skip

#: ``web`` 3 needs a newer ``core`` than ``tool`` allows; ``old`` is new only on another Python.
INDEX: Index = {
    "web": {
        "3.0": {"requires": ["core>=2"]},
        "2.0": {"requires": ["core>=1"]},
        "1.0": {"requires": ["core"]},
    },
    "core": {"2.0": {}, "1.1": {}, "1.0": {}},
    "tool": {"1.0": {"requires": ["core<2"]}},
    "old": {"2.0": {"requires_python": ">=3.13"}, "1.0": {}},
}


def request_for(
    manifest: str = "web\ntool\n",
    kind: RecommendationType = RecommendationType.LATEST,
    files: Mapping[str, str] | None = None,
    hardware: str | None = HERE,
    **options: Any,
) -> StackRequest:
    """A request for a requirements file, or for other files by name."""
    contents = {"requirements.in": manifest} if files is None else files
    project = parse_project({name: text.encode() for name, text in contents.items()})
    return StackRequest(
        project, ENVIRONMENT, kind, RequestOptions(**{"indexes": (MAIN,), **options}), hardware
    )


def snapshot_for(request: StackRequest, index: Index = INDEX, *more: str) -> Snapshot:
    """The snapshot of a request; ``more`` are further roots."""
    return snapshot_of(index, [*(it.text for it in request.requirements), *more])


def advice_for(
    request: StackRequest | None = None,
    index: Index = INDEX,
    evidence: Evidence = NOTHING,
    *more: str,
) -> Advice:
    """The advice for a request."""
    wanted = request or request_for()
    return advise(wanted, snapshot_for(wanted, index, *more), evidence)


def known_for(advice: Advice) -> ReleaseKnowledge:
    """A wheel and a source distribution of every version of every stack."""
    files = {
        choice.purl: tuple(
            ReleaseFile(name, hashlib.sha256(name.encode()).hexdigest(), kind, 1_000)
            for name, kind in (
                (f"{choice.name}-{choice.version}-py3-none-any.whl", "wheel"),
                (f"{choice.name}-{choice.version}.tar.gz", "sdist"),
            )
        )
        for stack in advice.resolution.stacks
        for choice in stack.choices
    }
    return ReleaseKnowledge(files)
