"""Which file is read, and what becomes of what it says."""

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from common.index.release_metadata import (
    MetadataRead,
    ReleaseMetadata,
    metadata_files,
    read_release,
)
from ingest.crawl.crawler import ATTEMPTS, CircuitBreaker, IndexLost, pause_after
from ingest.crawl.release_selection import refused_draft, release_draft
from ingest.releases.parsing import checked_release
from model.errors import IndexFault, IndexProblem
from model.packages.project_pages import IndexFile
from model.packages.releases import ReleaseProblem, ReleaseState, kind_of_file
from tests.factories.errors import raised

T = TypeVar("T")


def finished(work: Coroutine[Any, Any, T]) -> T:
    """What it returns; it waits for nothing, so that no event loop is needed."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits")


def file(name: str, **more: object) -> IndexFile:
    return IndexFile(name, "1.0", kind_of_file(name), "a" * 64, **more)  # type: ignore[arg-type]


WHEEL, SDIST = file("demo-1.0-py3-none-any.whl"), file("demo-1.0.tar.gz")


def text(name: str = "Demo", version: str = "1.0", more: str = "") -> str:
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}\n"


def read(answers: dict[str, MetadataRead | IndexProblem], *files: IndexFile) -> ReleaseMetadata:
    """What is told when each file gives its answer."""

    async def metadata(asked: IndexFile) -> MetadataRead:
        answer = answers[asked.filename]
        if isinstance(answer, IndexProblem):
            raise answer
        return answer

    return finished(read_release(metadata, "demo", "1.0", files))


def test_crawl_reads_the_wheel_for_common_machines_first() -> None:
    names = [
        "demo-1.0-cp311-cp311-win_amd64.whl",
        "demo-1.0-cp311-cp311-macosx_11_0_arm64.whl",
        "demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
        "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "demo-1.0.tar.gz",
    ]
    assert [it.filename for it in metadata_files(map(file, names))] == [
        names[3], names[2], names[4],
    ]  # fmt: skip
    assert metadata_files([file(names[3]), WHEEL])[0] == WHEEL


def test_crawl_prefers_metadata_files_and_small_files_that_are_not_yanked() -> None:
    cp311, cp312 = "demo-1.0-cp311-cp311-linux_x86_64.whl", "demo-1.0-cp312-cp312-linux_x86_64.whl"
    small, offered = file(cp311, size_bytes=1), file(cp312, size_bytes=9, metadata_sha256="")
    assert metadata_files([small, offered])[0] == offered
    assert metadata_files([file(cp312, size_bytes=9), small])[0] == small
    assert metadata_files([file(cp311, yanked=True), file(cp312)])[0].filename == cp312


def test_crawl_reads_the_metadata_of_a_wheel() -> None:
    said = text(more="Requires-Dist: a<2\nRequires-Python: >=3.8\nProvides-Extra: x")
    told = read({WHEEL.filename: MetadataRead(said, "wheel-range")}, SDIST, WHEEL)
    assert told == ReleaseMetadata(("a<2",), ">=3.8", ("x",), None, "wheel-range", WHEEL.filename)


def test_source_distribution_with_dynamic_requirements_is_not_resolvable() -> None:
    told = read({SDIST.filename: MetadataRead(text(), "sdist-unknown")}, SDIST)
    assert (told.problem, told.requires_dist) == (ReleaseProblem.DYNAMIC_METADATA, None)
    release = checked_release(release_draft("local", "demo", "1.0", (SDIST,), told))
    assert release.state is ReleaseState.UNSOLVABLE


@pytest.mark.parametrize(
    ("name", "version", "same"),
    [("other", "1.0", False), ("demo", "1.1", False), ("DEMO", "1", True)],
)
def test_metadata_of_another_release_is_refused(name: str, version: str, same: bool) -> None:
    told = read({WHEEL.filename: MetadataRead(text(name, version), "wheel")}, WHEEL)
    assert told.problem is (None if same else ReleaseProblem.OTHER_METADATA)


def test_crawl_reads_another_file_instead_of_a_broken_wheel() -> None:
    problem = IndexProblem(IndexFault.MALFORMED, "no archive")
    said = {WHEEL.filename: problem, SDIST.filename: MetadataRead(text(), "sdist")}
    assert read(said, WHEEL, SDIST).metadata_file == SDIST.filename
    told = read({WHEEL.filename: problem}, WHEEL)
    assert (told.problem, told.problem_message) == (ReleaseProblem.BROKEN_METADATA, "no archive")
    release = checked_release(release_draft("local", "demo", "1.0", (WHEEL,), told))
    assert release.state is ReleaseState.UNPARSABLE


def test_release_without_readable_metadata_names_the_first_tried_file() -> None:
    said = {
        WHEEL.filename: IndexProblem(IndexFault.MALFORMED, "no archive"),
        SDIST.filename: MetadataRead(text(), "sdist-unknown"),
    }
    assert read(said, WHEEL, SDIST).metadata_file == WHEEL.filename


@pytest.mark.parametrize("fault", [IndexFault.TIMEOUT, IndexFault.UNAUTHORIZED])
def test_unreachable_index_is_not_recorded_as_a_fault_of_the_release(fault: IndexFault) -> None:
    said = {WHEEL.filename: IndexProblem(fault, "silence"), SDIST.filename: MetadataRead("", "")}
    with pytest.raises(IndexProblem):
        read(said, WHEEL, SDIST)


def test_missing_or_changed_release_file_is_retried_later() -> None:
    with raised(IndexProblem, code=IndexFault.HASH_MISMATCH):
        read({WHEEL.filename: IndexProblem(IndexFault.HASH_MISMATCH, "another hash")}, WHEEL)


def test_refused_release_document_becomes_a_release_with_broken_metadata() -> None:
    draft = release_draft("local", "demo", "1.0", (WHEEL,), ReleaseMetadata(requires_dist=("a",)))
    release = checked_release(refused_draft(draft, "text holds a NUL"))
    assert (release.state, release.problem) == (
        ReleaseState.UNPARSABLE, ReleaseProblem.BROKEN_METADATA,
    )  # fmt: skip


def test_crawl_retries_with_growing_pauses_and_then_gives_up() -> None:
    pauses = [pause_after(attempts) for attempts in range(1, ATTEMPTS + 1)]
    assert pauses == [*(timedelta(minutes=it) for it in (1, 5, 25, 125)), None]


def test_crawl_gives_up_an_index_after_repeated_timeouts() -> None:
    patience = CircuitBreaker(limit=3)

    async def ask(fault: IndexFault | None) -> None:
        async def question() -> None:
            if fault is not None:
                raise IndexProblem(fault, "no")

        await patience.ask(question)

    async def asked() -> None:
        for fault in (IndexFault.TIMEOUT, IndexFault.UNREACHABLE, IndexFault.NOT_FOUND):
            with pytest.raises(IndexProblem):
                await ask(fault)
        await ask(None)
        for _ in range(2):
            with pytest.raises(IndexProblem):
                await ask(IndexFault.TIMEOUT)
        with pytest.raises(IndexLost):
            await ask(IndexFault.TIMEOUT)

    finished(asked())
