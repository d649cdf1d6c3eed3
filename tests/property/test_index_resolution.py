"""Resolution over everything that indexes list reads little, and answers as if it had read all."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adviser.advice_request import StackRequest
from adviser.advise import Advice, advise, in_this_process
from adviser.answering.index_memory import IndexMemory
from adviser.answering.index_resolution import IndexResolution
from adviser.answering.index_snapshot import IndexSnapshot
from adviser.scoring.criteria import RecommendationType
from common.index.release_metadata import MetadataRead
from model.errors import IndexFault, IndexProblem
from model.measurements.evidence import Evidence
from model.packages.candidates import Dependency, IndexesSilent
from model.packages.project_pages import IndexFile, ProjectPage, contents_of
from model.packages.snapshot import Snapshot, with_revision
from tests.effort import examples
from tests.factories.requests import NOTHING, request_for
from tests.factories.universes import Index, Record, moment

_NOW = datetime(2026, 11, 22, tzinfo=UTC)


class ListedIndex:
    """Serves an index of :mod:`tests.factories.universes`.

    :ivar read: how often the metadata of each file was asked for
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self.read: Counter[str] = Counter()

    async def project(self, name: str, max_age_s: float | None = None) -> ProjectPage:
        if name not in self._index:
            raise IndexProblem(IndexFault.NOT_FOUND, f"there is no {name}")
        files = [
            file for version, release in self._index[name].items()
            for file in _files(name, version, release)
        ]  # fmt: skip
        return ProjectPage(name, _NOW, contents_of(files, list(self._index[name])))

    async def metadata(self, file: IndexFile) -> MetadataRead:
        self.read[file.filename] += 1
        name = file.filename.partition("-")[0]
        release = self._index[name][file.version]
        if release.get("broken"):
            raise IndexProblem(IndexFault.MALFORMED, f"{file.filename} is broken")
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {file.version}"]
        lines += [f"Requires-Dist: {it}" for it in release.get("requires", ())]
        lines += [f"Provides-Extra: {it}" for it in release.get("extras", ())]
        return MetadataRead("\n".join(lines) + "\n\n", "metadata-file")


def _files(name: str, version: str, release: Record) -> list[IndexFile]:
    tags = release.get("wheels", ["py3-none-any"])
    names = [(f"{name}-{version}-{tag}.whl", "wheel") for tag in tags]
    names += [(f"{name}-{version}.tar.gz", "sdist")] * release.get("sdist", False)
    return [
        IndexFile(
            filename=filename,
            version=version,
            kind=kind,
            sha256=None,
            requires_python=release.get("requires_python"),
            yanked=release.get("yanked", False),
            uploaded_at=moment(release.get("uploaded_at")) or _NOW,
        )
        for filename, kind in names
    ]


def knowledge(listed: IndexSnapshot) -> tuple[Snapshot, Evidence]:
    return listed.freeze(), NOTHING


def resolved(request: StackRequest, reader: Any) -> tuple[Advice, IndexResolution]:
    resolution = IndexResolution(request, {"pypi": reader}, knowledge, in_this_process)
    return asyncio.run(resolution.advise()), resolution


def fully_read(request: StackRequest, index: Index) -> Advice:
    """The advice after reading every version of every package."""
    resolution = IndexResolution(request, {"pypi": ListedIndex(index)}, knowledge, in_this_process)

    async def read_all() -> None:
        for name, releases in index.items():
            await resolution._page(name)
            await asyncio.gather(*(resolution._read(name, it) for it in releases))

    asyncio.run(read_all())
    return advise(request, resolution.listed.freeze(), NOTHING)


def versions(advice: Advice) -> dict[str, str] | None:
    return dict(advice.best.versions()) if advice.best else None


_NAMES = ("a", "b", "c", "d")
_VERSIONS = ("1.0", "1.5", "2.0", "3.0rc1")
_line = st.builds(
    "{}{}{}{}".format,
    st.sampled_from((*_NAMES, "absent")),
    st.sampled_from(("", "", "", "[x]")),
    st.sampled_from(("", ">=1.5", "<2", "==1.0", "!=2.0", ">=3.0rc1")),
    st.sampled_from(("", "", "", "; extra == 'x'", "; python_version < '3.8'")),
)
_release = st.fixed_dictionaries(
    {"requires": st.lists(_line, max_size=3, unique=True)},
    optional={
        "extras": st.just(["x"]),
        "yanked": st.booleans(),
        "broken": st.sampled_from((False, False, False, True)),
        "requires_python": st.sampled_from((">=3.8", ">=3.13")),
        "wheels": st.sampled_from((["cp311-cp311-win_amd64"], ["cp310-cp310-win_amd64"], [])),
        "sdist": st.booleans(),
        "uploaded_at": st.sampled_from(("2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z")),
    },
).map(lambda it: it if it.get("wheels", True) else {**it, "sdist": True})
_indexes = st.dictionaries(
    st.sampled_from(list(product(_NAMES, _VERSIONS))), _release, min_size=3, max_size=14
)
_roots = st.lists(
    st.builds(
        "{}{}{}".format, st.sampled_from(_NAMES), st.sampled_from(("", "", "[x]")),
        st.sampled_from(("", "", ">=1.5", "<2")),
    ),
    min_size=1, max_size=3, unique=True,
)  # fmt: skip


@settings(max_examples=examples(2_000))
@given(_indexes, _roots, st.sampled_from(list(RecommendationType)))
def test_advice_after_few_reads_equals_advice_after_reading_everything(
    drawn: dict[tuple[str, str], dict[str, Any]], roots: list[str], kind: RecommendationType
) -> None:
    index: dict[str, dict[str, Any]] = {}
    for (name, version), release in drawn.items():
        index.setdefault(name, {})[version] = release
    request = request_for("\n".join(roots) + "\n", kind)
    advice, _ = resolved(request, ListedIndex(index))
    everything = fully_read(request, index)
    assert advice.resolution.status is everything.resolution.status
    if versions(advice) != versions(everything):
        # Only a version that was not read admits a pre-release or a yanked version of it.
        assert everything.best.uninvited > 0, (index, roots)
        assert advice.best.levels <= everything.best.levels
    again = advise(request, Snapshot.from_json(with_revision(advice.snapshot).to_json()), NOTHING)
    assert versions(again) == versions(advice)
    assert again.resolution.status is advice.resolution.status


@pytest.mark.parametrize(
    ("index", "best"),
    [
        (
            {"a": {"2.0": {"requires": ["absent"]},
                   "1.5": {"requires": ["a[x]", "b; extra == 'x'"]}, "1.0": {}},
             "b": {"1.0": {}}},
            {"a": "1.5", "b": "1.0"},
        ),
        (
            {"a": {"2.0": {"requires": ["absent"]}, "1.5": {"requires": ["c[x]"]}, "1.0": {}},
             "b": {"1.0": {}},
             "c": {"1.0": {"requires": ["b; extra == 'x'"], "extras": ["x"]}}},
            {"a": "1.5", "b": "1.0", "c": "1.0"},
        ),
    ],
    ids=["of itself", "of another package"],
)  # fmt: skip
def test_packages_of_an_extra_required_by_a_version_are_read(
    index: dict[str, dict[str, Any]], best: dict[str, str]
) -> None:
    request = request_for("a\n", RecommendationType.LATEST)
    advice, _ = resolved(request, ListedIndex(index))
    assert versions(advice) == best


class RecentIndex(ListedIndex):
    """Pages that were just sent, so that a memory may keep them."""

    async def project(self, name: str, max_age_s: float | None = None) -> ProjectPage:
        return replace(await super().project(name, max_age_s), as_of=datetime.now(UTC))


def with_memory(request: StackRequest, reader: ListedIndex, memory: IndexMemory) -> Advice:
    """The advice with what earlier requests read, which is then kept for later ones."""
    resolution = IndexResolution(
        request, {"pypi": reader}, knowledge, in_this_process,
        memory=memory.for_request(request, {"pypi": "https://index.example/simple"}),
    )  # fmt: skip
    advice = asyncio.run(resolution.advise())
    resolution.keep()
    return advice


@settings(max_examples=examples(500))
@given(
    _indexes,
    st.lists(
        st.tuples(_roots, st.sampled_from(list(RecommendationType)), st.booleans()),
        min_size=2, max_size=4,
    ),
    st.sampled_from((0, 4, 100)),
)  # fmt: skip
def test_index_cache_in_memory_does_not_change_the_advice(
    drawn: dict[tuple[str, str], dict[str, Any]],
    requests: list[tuple[list[str], RecommendationType, bool]],
    limit: int,
) -> None:
    index: dict[str, dict[str, Any]] = {}
    for (name, version), release in drawn.items():
        index.setdefault(name, {})[version] = release
    memory = IndexMemory(limit)
    for roots, kind, excluding in requests:
        options = {"exclusions": (Dependency("a", "==2.0"),)} if excluding else {}
        request = request_for("\n".join(roots) + "\n", kind, **options)
        kept = with_memory(request, RecentIndex(index), memory)
        fresh, _ = resolved(request, RecentIndex(index))
        if versions(kept) != versions(fresh):
            # A version that an earlier request read may invite a pre-release or a yanked version.
            bests = [it.best for it in (kept, fresh) if it.best is not None]
            assert any(best.uninvited > 0 for best in bests), (index, roots)
        assert kept.resolution.status is fresh.resolution.status


@settings(max_examples=examples(500))
@given(_indexes, _roots, _roots, st.sampled_from(list(RecommendationType)))
def test_reads_of_an_earlier_run_do_not_change_the_advice(
    drawn: dict[tuple[str, str], dict[str, Any]],
    roots: list[str],
    others: list[str],
    kind: RecommendationType,
) -> None:
    index: dict[str, dict[str, Any]] = {}
    for (name, version), release in drawn.items():
        index.setdefault(name, {})[version] = release
    request = request_for("\n".join(roots) + "\n", kind)
    fresh, resolution = resolved(request, ListedIndex(index))
    _, of_others = resolved(request_for("\n".join(others) + "\n", kind), ListedIndex(index))
    for earlier in (resolution.reads(), of_others.reads()):
        reader = ListedIndex(index)
        later = IndexResolution(
            request, {"pypi": reader}, knowledge, in_this_process, earlier=lambda it=earlier: it
        )
        advice = asyncio.run(later.advise())
        assert advice.resolution.status is fresh.resolution.status
        if earlier == resolution.reads():
            assert not reader.read
            assert with_revision(advice.snapshot).revision == with_revision(fresh.snapshot).revision
        elif versions(advice) != versions(fresh):
            # A version that the other request needed may invite a pre-release or a yanked one.
            bests = [it.best for it in (advice, fresh) if it.best is not None]
            assert any(best.uninvited > 0 for best in bests), (index, roots)


def test_cached_broken_source_distribution_does_not_change_the_advice() -> None:
    wheels = ["cp310-cp310-win_amd64"]
    old: dict[str, Any] = {"wheels": wheels, "sdist": True, "uploaded_at": "2020-01-01T00:00:00Z"}
    index: Index = {"a": {"1.0": {}, "2.0": old}, "b": {"1.0": {**old, "broken": True}}}
    request = request_for("a\nb\n")
    fresh, resolution = resolved(request, ListedIndex(index))
    later = IndexResolution(
        request, {"pypi": ListedIndex(index)}, knowledge, in_this_process, earlier=resolution.reads
    )
    assert fresh.best is None
    assert [it.version for it in fresh.snapshot.packages["a"]] == ["1.0"]
    assert with_revision(asyncio.run(later.advise()).snapshot) == with_revision(fresh.snapshot)


def test_reads_of_an_earlier_run_save_requests_even_if_a_page_changed() -> None:
    index: Index = {
        "web": {f"{number}.0": {"requires": [f"core=={number}"]} for number in range(1, 101)},
        "core": {f"{number}.0": {} for number in range(1, 40)},
    }
    request = request_for("web\n")
    first, resolution = resolved(request, ListedIndex(index))
    index["web"]["0.9"] = {"requires": ["core==1"]}
    reader = ListedIndex(index)
    later = IndexResolution(
        request, {"pypi": reader}, knowledge, in_this_process, earlier=resolution.reads
    )
    assert versions(asyncio.run(later.advise())) == versions(first)
    assert (resolution.progress.rounds > 1, later.progress.rounds) == (True, 1)
    # Metadata belongs to the files of a page, so it is read again if the page changed.
    assert {it.partition("-")[0] for it in reader.read} == {"web"}


def test_repeated_request_reads_nothing_again_from_the_index() -> None:
    index: Index = {"web": {"2.0": {"requires": ["core"]}, "1.0": {}}, "core": {"1.0": {}}}
    reader, memory = RecentIndex(index), IndexMemory()
    first = with_memory(request_for("web\n"), reader, memory)
    again = with_memory(request_for("web\ncore\n"), reader, memory)
    assert versions(first) == versions(again) == {"web": "2.0", "core": "1.0"}
    assert set(reader.read.values()) == {1}
    assert all(again.snapshot.packages[it] is them for it, them in first.snapshot.packages.items())


def test_only_versions_that_matter_to_the_advice_are_read() -> None:
    index: Index = {
        "web": {f"{number}.0": {"requires": [f"core>={number}"]} for number in range(1, 60)},
        "core": {f"{number}.0": {} for number in range(1, 60)},
    }
    reader = ListedIndex(index)
    advice, resolution = resolved(request_for("web\n"), reader)
    assert versions(advice) == {"web": "59.0", "core": "59.0"}
    assert reader.read == {"web-59.0-py3-none-any.whl": 1, "core-59.0-py3-none-any.whl": 1}
    assert (resolution.progress.listed, resolution.progress.read) == (118, 2)


def test_versions_that_require_each_other_exactly_are_read_in_growing_batches() -> None:
    index: Index = {
        "web": {f"{number}.0": {"requires": [f"core=={number}"]} for number in range(1, 101)},
        "core": {f"{number}.0": {} for number in range(1, 40)},
    }
    _, resolution = resolved(request_for("web\n"), ListedIndex(index))
    assert resolution.progress.rounds < 10


def test_unavailable_package_is_listed_as_missing_with_the_reason() -> None:
    class Failing(ListedIndex):
        async def project(self, name: str, max_age_s: float | None = None) -> ProjectPage:
            if name == "core":
                raise IndexProblem(IndexFault.HTTP_STATUS, "answered 500")
            return await super().project(name, max_age_s)

    index: Index = {"web": {"2.0": {"requires": ["core"]}, "1.0": {}}}
    advice, resolution = resolved(request_for("web\n"), Failing(index))
    assert versions(advice) == {"web": "1.0"}
    assert {name: it.message for name, it in resolution.listed.absences.items()} == {
        "core": "it was not read from pypi: answered 500 [http_status]"
    }


def test_advice_fails_if_no_index_answers() -> None:
    class Silent(ListedIndex):
        async def project(self, name: str, max_age_s: float | None = None) -> ProjectPage:
            raise IndexProblem(IndexFault.UNREACHABLE, "nobody answers")

    with pytest.raises(IndexesSilent):
        resolved(request_for("web\n"), Silent({}))


def test_locked_versions_are_read_and_unusable_versions_reported() -> None:
    index: Index = {
        "web": {"3.0": {}, "2.0": {}},
        "core": {"2.0": {}, "1.0": {"requires_python": ">=3.13"}},
        "tool": {"1.0": {}},
        "late": {"2.0": {}, "1.0": {}},
    }

    class Failing(ListedIndex):
        async def metadata(self, file: IndexFile) -> MetadataRead:
            if file.filename.startswith("late-1.0"):
                raise IndexProblem(IndexFault.HTTP_STATUS, f"{file.filename}: answered 500")
            return await super().metadata(file)

    files = {
        "requirements.in": "web\ncore\ntool\nlate\n",
        "requirements.txt": "web==2.0\ncore==1.0\ntool==9.0\nlate==1.0\n",
    }
    reader = Failing(index)
    advice, _ = resolved(request_for(files=files), reader)
    assert reader.read["web-2.0-py3-none-any.whl"] == 1
    told = {it.message for it in advice.assessment.justifications}
    assert told == {
        "nothing is compared with core==1.0: it cannot be installed here: requires Python >=3.13,"
        " this environment has 3.11.7",
        "nothing is compared with tool==9.0: no such version is known",
        "nothing is compared with late==1.0: its metadata was not read:"
        " late-1.0-py3-none-any.whl: answered 500",
    }
