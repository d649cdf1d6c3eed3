"""Names of modules in what is known of a wheel's central directory."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Mapping
from typing import BinaryIO, cast

import pytest

from common.index.partial_zip import SparseFile, import_names_in
from model.packages.import_names import MAX_NAMES, ImportNames, ImportSource, names_in_wheel

INFO = "parrot-1.0.dist-info"
TAIL = 4096


def wheel(members: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in members.items():
            archive.writestr(path, content)
    return packed.getvalue()


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
    return wheel({"parrot/__init__.py": "", **modules, f"{INFO}/METADATA": "", **infos})


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
def test_names_are_the_shallowest_packages_and_modules(paths: list[str], names: list[str]) -> None:
    read = import_names_in(io.BytesIO(wheel(dict.fromkeys(paths, ""))))
    assert read == ImportNames(tuple(names), ImportSource.DIRECTORY)


def test_a_declared_namespace_is_no_package() -> None:
    members = {
        "zope/__init__.py": "",
        "zope/interface/__init__.py": "",
        f"{INFO}/namespace_packages.txt": "zope\n",
    }
    read = import_names_in(io.BytesIO(wheel(members)))
    assert read.names == ("zope", "zope.interface")


def test_of_a_large_directory_the_end_gives_top_level_names() -> None:
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


def test_a_whole_directory_gives_all_names() -> None:
    read = import_names_in(end_of(large(), 60_000))
    assert read == ImportNames(("parrot",), ImportSource.DIRECTORY)


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x05\x06" + bytes(18) + b"x", wheel({})[:-1]])
def test_a_broken_end_gives_nothing(data: bytes) -> None:
    assert import_names_in(io.BytesIO(data)) is None


def test_a_damaged_directory_gives_names_or_nothing() -> None:
    drawn, whole = random.Random(0), large(top_level="parrot")
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(drawn.randint(1, 4)):
            data[-drawn.randint(1, TAIL)] = drawn.randrange(256)
        read = import_names_in(end_of(bytes(data)))
        assert read is None or all(it.isidentifier() for it in read.names)


def test_the_number_of_names_is_bounded() -> None:
    deep = names_in_wheel(f"share/a{it % 3}/b{it}.py" for it in range(10_000))
    assert deep.names == ("share", "share.a0", "share.a1", "share.a2")
    wide = names_in_wheel(f"module_{it:05}.py" for it in range(10_000))
    assert len(wide.names) == MAX_NAMES
    assert names_in_wheel(["a" * 300 + ".py"]).names == ()
