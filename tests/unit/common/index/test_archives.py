"""Metadata and names of modules in archives, of which parts are known, broken ones included."""

import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.formats.core_metadata import parse_core_metadata
from common.http.transport import StopReceiving
from common.index.sdists import SdistMetadata, SdistReader, read_sdist
from common.index.wheel_metadata import (
    MissingSpan,
    SparseFile,
    entry_in_tail,
    import_names_in,
    wheel_metadata,
)
from model.errors import IndexFault, IndexProblem
from model.packages.import_names import MAX_NAMES, ImportNames, ImportSource, names_in_wheel
from tests.effort import examples
from tests.factories.archives import tar_of, zip_of
from tests.factories.errors import raised

WHEEL = "parrot-1.0-py3-none-any.whl"
LIMIT = 10_000


def wheel(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    return zip_of(members, method)


def tar(*members: tuple[str, bytes]) -> bytes:
    return tar_of(members, "w")


def of_wheel(data: bytes) -> bytes:
    return wheel_metadata(io.BytesIO(data), WHEEL, LIMIT)


def of_sdist(data: bytes, name: str = "parrot-1.0.tar.gz") -> bytes | None:
    metadata = read_sdist(io.BytesIO(data), name, LIMIT)
    return metadata.text.encode() if metadata else None


def read_both_ways(*files: tuple[str, bytes]) -> Iterator[SdistMetadata | None]:
    """What is read of a source distribution with these files, packed as tar and as zip."""
    for data, end in ((gzip.compress(tar(*files)), "tar.gz"), (wheel(*files), "zip")):
        yield read_sdist(io.BytesIO(data), f"parrot-1.0.{end}", LIMIT)


def test_metadata_of_the_wheel_itself_is_preferred_to_bundled_metadata() -> None:
    data = wheel(
        ("vendored-1.dist-info/METADATA", b"no"),
        ("parrot/x.dist-info/METADATA", b"no"),
        ("Parrot-1.0.dist-info/METADATA", b"yes"),
    )
    assert of_wheel(data) == b"yes"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_source_distributions_are_read_in_every_archive_format(
    pack: Callable[[bytes], bytes],
) -> None:
    data = tar(("parrot-1.0/deep/PKG-INFO", b"no"), ("parrot-1.0/PKG-INFO", b"yes"))
    assert of_sdist(pack(data)) == b"yes"
    assert of_sdist(pack(tar(("parrot-1.0/setup.py", b"")))) is None


def test_decompression_bomb_is_refused_as_too_large() -> None:
    with pytest.raises(IndexProblem) as of_a_wheel:
        of_wheel(wheel(("parrot-1.0.dist-info/METADATA", bytes(1 << 20))))
    with pytest.raises(IndexProblem) as of_a_source:
        of_sdist(gzip.compress(tar(("parrot-1.0/PKG-INFO", bytes(1 << 20)))))
    assert of_a_wheel.value.code == of_a_source.value.code == IndexFault.TOO_LARGE
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 17 << 20
    with raised(IndexProblem, code=IndexFault.TOO_LARGE):
        of_sdist(gzip.compress(header.tobuf() + bytes(17 << 20), 1))


@pytest.mark.parametrize("data", [b"", b"PK", b"<html>", b"\x1f\x8b", b"PK\x05\x06" + bytes(18)])
def test_data_that_is_no_archive_is_reported_as_malformed(data: bytes) -> None:
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
def test_requirements_that_setup_py_computes_are_uncertain(
    others: list[str], certainty: str
) -> None:
    files = [("parrot-1.0/PKG-INFO", OLD), *((f"parrot-1.0/{it}", b"") for it in others)]
    for read in read_both_ways(*files):
        assert read.certainty == certainty


def test_requirements_in_a_setuptools_egg_info_folder_are_likely() -> None:
    files = (
        ("parrot-1.0/PKG-INFO", OLD + b"\nText\n"),
        ("parrot-1.0/other.egg-info/requires.txt", b"no\n"),
        ("parrot-1.0/src/parrot.egg-info/requires.txt", REQUIRES),
    )
    for read in read_both_ways(*files):
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
def test_certainty_of_requirements_follows_the_metadata_version(
    information: bytes, certainty: str
) -> None:
    read = read_sdist(
        io.BytesIO(gzip.compress(tar(("parrot-1.0/PKG-INFO", information)))), "parrot-1.0.tar.gz",
        LIMIT,
    )  # fmt: skip
    assert read.certainty == certainty


def test_metadata_is_read_from_the_start_of_a_large_source_distribution() -> None:
    data = gzip.compress(
        tar(("parrot-1.0/PKG-INFO", OLD + b"Requires-Dist: seed\n"), ("parrot-1.0/z", bytes(9**7))),
        0,
    )
    reader = SdistReader("parrot-1.0.tar.gz", LIMIT)
    with pytest.raises(StopReceiving):
        reader.write(data[: 2 << 20])
    read = reader.result()
    assert "seed" in read.text


def test_archive_received_in_small_parts_gives_its_metadata() -> None:
    data = gzip.compress(tar(("parrot-1.0/x" * 9, b"x" * 999), ("parrot-1.0/PKG-INFO", OLD)))
    reader = SdistReader("parrot-1.0.tar.gz", LIMIT)
    with suppress(StopReceiving):
        for place in range(len(data)):
            reader.write(data[place : place + 1])
    read = reader.result()
    assert read.text.encode() == OLD


def test_truncated_source_distribution_is_reported_as_malformed() -> None:
    data = gzip.compress(tar(("parrot-1.0/PKG-INFO", OLD), ("parrot-1.0/z", bytes(9_999))), 0)
    for size in (20, 600, 2_000, len(data) // 2):
        with raised(IndexProblem, code=IndexFault.MALFORMED):
            of_sdist(data[:size])


def test_archive_members_with_links_long_paths_or_wrong_sizes_are_refused() -> None:
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


def test_only_needed_parts_of_a_wheel_are_requested() -> None:
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


METADATA = b"Name: parrot\n" * 50
TAIL = 4096


def long_wheel(
    name: str = "parrot-1.0.dist-info/METADATA", extra: bytes = b"", behind: int = 3
) -> bytes:
    packed = io.BytesIO(wheel(*((f"parrot/{number:05}.txt", b"") for number in range(200))))
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_DEFLATED) as archive:
        info = zipfile.ZipInfo(name)
        info.extra = extra
        info.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(info, METADATA)
        for number in range(behind):
            archive.writestr(f"parrot-1.0.dist-info/{number}", b"")
    return packed.getvalue()


def read_tail(data: bytes, tail: int = TAIL) -> bytes | None:
    entry = entry_in_tail(data[-tail:], len(data), WHEEL, 10_000)
    return None if entry is None else entry.read(data[entry.start : entry.end], WHEEL, 10_000)


def test_metadata_can_be_read_from_only_the_end_of_a_wheel() -> None:
    assert read_tail(long_wheel()) == METADATA
    assert read_tail(long_wheel("Parrot-1.0.dist-info/METADATA")) == METADATA
    entry = entry_in_tail(long_wheel()[-TAIL:], len(long_wheel()), WHEEL, 10_000)
    assert entry.end - entry.start < 2_000


def test_ambiguous_end_of_a_wheel_gives_no_metadata() -> None:
    assert read_tail(long_wheel("crow-1.0.dist-info/METADATA")) is None
    assert read_tail(long_wheel("deep/parrot-1.0.dist-info/METADATA")) is None
    assert read_tail(long_wheel(behind=200)) is None
    assert read_tail(long_wheel(), tail=100_000) is None
    assert entry_in_tail(long_wheel()[-TAIL:], len(long_wheel()), WHEEL, 10) is None
    assert read_tail(b"") is None
    assert read_tail(long_wheel() + b"behind the end") is None
    assert read_tail(b"before the beginning" + long_wheel()) is None


def test_metadata_is_not_read_behind_an_unexpectedly_long_header() -> None:
    extra = b"\xff\xff" + (2_000).to_bytes(2, "little") + bytes(2_000)
    with raised(IndexProblem, code=IndexFault.MALFORMED):
        read_tail(long_wheel(extra=extra))


GOOD_LONG_WHEEL = long_wheel()


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(1, TAIL), st.binary(min_size=1, max_size=8))
def test_damaged_end_of_a_wheel_never_gives_wrong_metadata(place: int, damage: bytes) -> None:
    start = len(GOOD_LONG_WHEEL) - place
    data = (GOOD_LONG_WHEEL[:start] + damage + GOOD_LONG_WHEEL[start + len(damage) :])[
        : len(GOOD_LONG_WHEEL)
    ]
    with suppress(IndexProblem):
        assert read_tail(data) in (None, METADATA)


INFO = "parrot-1.0.dist-info"


def end_of(data: bytes, tail: int = TAIL, *spans: tuple[int, int]) -> BinaryIO:
    """A wheel of which only the last bytes and some spans are known."""
    sparse = SparseFile(len(data))
    sparse.add(max(0, len(data) - tail), data[-tail:])
    for start, end in spans:
        sparse.add(start, data[start:end])
    return cast(BinaryIO, sparse)


def large(**texts: str) -> bytes:
    """A wheel whose central directory is longer than :data:`TAIL`."""
    modules = {f"parrot/talk/module_{it:03}.py": "" for it in range(200)}
    infos = {f"{INFO}/{name}.txt": content for name, content in texts.items()}
    members = {"parrot/__init__.py": "", **modules, f"{INFO}/METADATA": "", **infos}
    return wheel(*((path, content.encode()) for path, content in members.items()))


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["cv2/__init__.py", "cv2/cv2.abi3.so"], ["cv2"]),
        (["_foo.cpython-311-x86_64-linux-gnu.so", "six.py"], ["_foo", "six"]),
        (["google/protobuf/__init__.py", "google/_upb/_message.abi3.so"],
         ["google", "google._upb", "google._upb._message", "google.protobuf"]),
        (["a-1.data/purelib/a/__init__.py", "a-1.data/platlib/_a.pyd"], ["_a", "a"]),
        (["a-1.data/scripts/run.py", "a-1.data/data/share/x.py", f"{INFO}/sbom/x.py"], []),
        (["a.libs/libgomp.so", "libgomp.so", "nvidia/lib/libcudart.so.12"], []),
        (["__init__.py", "__main__.py", "class.py", "a-b/c.py", "conda.recipe/meta.py"], []),
        (["a/__pycache__/b.cpython-311.pyc", "old.pyc"], ["old"]),
        (["a/__init__.pyi", "a/py.typed", "README.txt"], []),
        (["a/b.py", "a/b/c.py"], ["a", "a.b", "a.b.c"]),
    ],
)  # fmt: skip
def test_import_names_are_top_packages_and_the_namespaces_above_them(
    paths: list[str], names: list[str]
) -> None:
    read = import_names_in(io.BytesIO(wheel(*((it, b"") for it in paths))))
    assert read == ImportNames(tuple(names), ImportSource.DIRECTORY)


def test_declared_namespace_is_not_an_import_name() -> None:
    members = ("zope/__init__.py", b""), ("zope/interface/__init__.py", b"")
    read = import_names_in(
        io.BytesIO(wheel(*members, (f"{INFO}/namespace_packages.txt", b"zope\n")))
    )
    assert read.names == ("zope", "zope.interface")


def test_import_names_are_read_from_the_end_of_a_large_zip_directory() -> None:
    read = import_names_in(end_of(large()))
    assert read == ImportNames(("parrot",), ImportSource.DIRECTORY_END)
    data = large(
        top_level="_parrot\nparrot\n", entry_points="[console_scripts]\nsay = cry.loud:main\n"
    )
    read = import_names_in(end_of(data, TAIL, (0, len(data) - 15_000)))
    assert "_parrot" not in read.names, "its text is not known"
    place = data.index(f"{INFO}/top_level.txt".encode()) - 30
    read = import_names_in(end_of(data, TAIL, (place, place + 400)))
    assert read == ImportNames(("_parrot", "cry", "parrot"), ImportSource.DIRECTORY_END)


def test_import_names_are_complete_from_a_whole_zip_directory() -> None:
    read = import_names_in(end_of(large(), 60_000))
    assert read == ImportNames(("parrot",), ImportSource.DIRECTORY)


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x05\x06" + bytes(18) + b"x", wheel()[:-1]])
def test_broken_zip_directory_gives_no_import_names(data: bytes) -> None:
    assert import_names_in(io.BytesIO(data)) is None


def test_damaged_zip_directory_gives_import_names_or_none() -> None:
    drawn, whole = random.Random(0), large(top_level="parrot")
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(drawn.randint(1, 4)):
            data[-drawn.randint(1, TAIL)] = drawn.randrange(256)
        read = import_names_in(end_of(bytes(data)))
        assert read is None or all(it.isidentifier() for it in read.names)


def test_number_of_import_names_is_limited() -> None:
    deep = names_in_wheel(f"share/a{it % 3}/b{it}.py" for it in range(10_000))
    assert deep.names == ("share", "share.a0", "share.a1", "share.a2")
    wide = names_in_wheel(f"module_{it:05}.py" for it in range(10_000))
    assert len(wide.names) == MAX_NAMES
    assert names_in_wheel(["a" * 300 + ".py"]).names == ()
