"""Metadata in archives, broken and hostile ones included."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.formats.core_metadata import parse_core_metadata
from common.http.transport import StopReceiving
from common.index.partial_zip import MissingSpan, SparseFile
from common.index.sdists import SdistReader, read_sdist
from common.index.wheel_metadata import wheel_metadata
from model.errors import IndexFault, IndexProblem
from tests.effort import examples
from tests.factories.errors import raised

WHEEL = "parrot-1.0-py3-none-any.whl"
LIMIT = 10_000


def wheel(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return packed.getvalue()


def tar(*members: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def of_wheel(data: bytes) -> bytes:
    return wheel_metadata(io.BytesIO(data), WHEEL, LIMIT)


def of_sdist(data: bytes, name: str = "parrot-1.0.tar.gz") -> bytes | None:
    metadata = read_sdist(io.BytesIO(data), name, LIMIT)
    return metadata.text.encode() if metadata else None


def test_the_wheels_own_metadata_is_read_and_not_a_bundled_ones() -> None:
    data = wheel(
        ("vendored-1.dist-info/METADATA", b"no"),
        ("parrot/x.dist-info/METADATA", b"no"),
        ("Parrot-1.0.dist-info/METADATA", b"yes"),
    )
    assert of_wheel(data) == b"yes"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_source_distributions_are_read_however_they_are_packed(
    pack: Callable[[bytes], bytes],
) -> None:
    data = tar(("parrot-1.0/deep/PKG-INFO", b"no"), ("parrot-1.0/PKG-INFO", b"yes"))
    assert of_sdist(pack(data)) == b"yes"
    assert of_sdist(pack(tar(("parrot-1.0/setup.py", b"")))) is None


def test_a_bomb_is_too_large() -> None:
    with pytest.raises(IndexProblem) as of_a_wheel:
        of_wheel(wheel(("parrot-1.0.dist-info/METADATA", bytes(1 << 20))))
    with pytest.raises(IndexProblem) as of_a_source:
        of_sdist(gzip.compress(tar(("parrot-1.0/PKG-INFO", bytes(1 << 20)))))
    assert of_a_wheel.value.code == of_a_source.value.code == IndexFault.TOO_LARGE


def test_a_header_that_is_longer_than_any_is_not_read() -> None:
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 17 << 20
    data = gzip.compress(member.tobuf() + bytes(17 << 20), 1)
    with raised(IndexProblem, code=IndexFault.TOO_LARGE):
        of_sdist(data)


@pytest.mark.parametrize("data", [b"", b"PK", b"<html>", b"\x1f\x8b", b"PK\x05\x06" + bytes(18)])
def test_data_that_is_no_archive_is_malformed(data: bytes) -> None:
    for read in (of_wheel, of_sdist):
        with raised(IndexProblem, code=IndexFault.MALFORMED):
            read(data)


GOOD_WHEEL = wheel(("parrot.py", b"x" * 50), ("parrot-1.0.dist-info/METADATA", b"Name: parrot"))
GOOD_SOURCE = gzip.compress(tar(("parrot-1.0/PKG-INFO", b"Name: parrot")))


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_a_damaged_archive_is_read_or_refused(data: st.DataObject) -> None:
    for good, read in ((GOOD_WHEEL, of_wheel), (GOOD_SOURCE, of_sdist)):
        place = data.draw(st.integers(0, len(good) - 1))
        damage = data.draw(st.binary(min_size=1, max_size=8))
        with suppress(IndexProblem):
            read(good[:place] + damage + good[place + len(damage) :])


OLD = b"Metadata-Version: 2.1\nName: parrot\nVersion: 1.0\n"
REQUIRES = b"seed>=1\n\n[fly:os_name == 'nt']\nwing\n\n[:python_version < '3']\nsix\n"


@pytest.mark.parametrize(
    ("others", "certainty"),
    [
        (["setup.py"], "unknown"),
        (["setup.py", "parrot/setup.py", "other.egg-info/PKG-INFO"], "unknown"),
        (["setup.py", "src/parrot.egg-info/SOURCES.txt"], "likely"),
        (["parrot/setup.py", "pyproject.toml"], "likely"),
    ],
)
def test_no_listed_requirement_is_not_none_where_setup_py_decides(
    others: list[str], certainty: str
) -> None:
    files = [("parrot-1.0/PKG-INFO", OLD), *((f"parrot-1.0/{it}", b"") for it in others)]
    for data, name in (
        (gzip.compress(tar(*files)), "parrot-1.0.tar.gz"),
        (wheel(*files), "parrot-1.0.zip"),
    ):
        read = read_sdist(io.BytesIO(data), name, LIMIT)
        assert read.certainty == certainty


def test_requirements_that_setuptools_left_are_likely() -> None:
    files = (
        ("parrot-1.0/PKG-INFO", OLD + b"\nText\n"),
        ("parrot-1.0/other.egg-info/requires.txt", b"no\n"),
        ("parrot-1.0/src/parrot.egg-info/requires.txt", REQUIRES),
    )
    for data, name in (
        (gzip.compress(tar(*files)), "parrot-1.0.tar.gz"),
        (wheel(*files), "parrot-1.0.zip"),
    ):
        read = read_sdist(io.BytesIO(data), name, LIMIT)
        assert read.certainty == "likely"
        assert parse_core_metadata(read.text).requires_dist == (
            "seed>=1",
            "wing ; (os_name == 'nt') and extra == \"fly\"",
            "six ; python_version < '3'",
        )
        assert read.text.endswith("\n\nText\n")


@pytest.mark.parametrize(
    ("information", "certainty"),
    [
        (OLD, "likely"),
        (OLD.replace(b"2.1", b"2.2"), "certain"),
        (OLD.replace(b"2.1", b"2.2") + b"Dynamic: Requires-Dist\n", "unknown"),
        (OLD.replace(b"2.1", b"2.2") + b"Dynamic: Requires-Dist\nRequires-Dist: a\n", "likely"),
    ],
)
def test_requirements_are_as_certain_as_the_metadata_says(
    information: bytes, certainty: str
) -> None:
    read = read_sdist(
        io.BytesIO(gzip.compress(tar(("parrot-1.0/PKG-INFO", information)))), "parrot-1.0.tar.gz",
        LIMIT,
    )  # fmt: skip
    assert read.certainty == certainty


def test_a_large_source_distribution_is_read_from_its_first_members() -> None:
    data = gzip.compress(
        tar(("parrot-1.0/PKG-INFO", OLD + b"Requires-Dist: seed\n"), ("parrot-1.0/z", bytes(9**7))),
        0,
    )
    reader = SdistReader("parrot-1.0.tar.gz", LIMIT)
    with pytest.raises(StopReceiving):
        reader.write(data[: 2 << 20])
    read = reader.result()
    assert "seed" in read.text


def test_any_parts_of_an_archive_give_the_same_metadata() -> None:
    data = gzip.compress(tar(("parrot-1.0/x" * 9, b"x" * 999), ("parrot-1.0/PKG-INFO", OLD)))
    reader = SdistReader("parrot-1.0.tar.gz", LIMIT)
    with suppress(StopReceiving):
        for place in range(len(data)):
            reader.write(data[place : place + 1])
    read = reader.result()
    assert read.text.encode() == OLD


def test_an_archive_that_ends_early_is_broken() -> None:
    data = gzip.compress(tar(("parrot-1.0/PKG-INFO", OLD), ("parrot-1.0/z", bytes(9_999))), 0)
    for size in (20, 600, 2_000, len(data) // 2):
        with raised(IndexProblem, code=IndexFault.MALFORMED):
            of_sdist(data[:size])


def test_links_long_paths_and_other_sizes_are_refused() -> None:
    link = tarfile.TarInfo("parrot-1.0/PKG-INFO")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    long_path = tarfile.TarInfo("x/" * 2_500)
    sized = tarfile.TarInfo("parrot-1.0/PKG-INFO")
    sized.pax_headers = {"size": "9"}
    for member in (link, long_path, sized):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.addfile(member)
        with raised(IndexProblem, code=IndexFault.MALFORMED):
            of_sdist(gzip.compress(packed.getvalue()))


def test_only_the_parts_that_are_needed_are_asked_for() -> None:
    data = wheel(
        ("big.so", bytes(100_000)),
        ("parrot-1.0.dist-info/METADATA", b"Name: parrot"),
        ("other.so", bytes(100_000)),
        method=zipfile.ZIP_STORED,
    )
    sparse, asked = SparseFile(len(data)), 0
    for _ in range(10):
        try:
            metadata = wheel_metadata(sparse, WHEEL, LIMIT, sparse.need)  # type: ignore[arg-type]
            assert metadata == b"Name: parrot"
            break
        except MissingSpan as missing:
            sparse.add(missing.start, data[missing.start : missing.end])
            asked += missing.end - missing.start
    else:
        pytest.fail("it never ends")
    assert asked < 1_000
