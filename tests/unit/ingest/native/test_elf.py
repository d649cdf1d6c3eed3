"""ELF files: what readelf says of real ones, and broken ones refused whatever is wrong."""

import io
import re
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.native.elf import read_library
from model.errors import InvalidDocument, Reason
from model.packages.native_libraries import Interface, NativeLibrary
from tests.factories.errors import raised
from tests.factories.native import AARCH64, I386, elf
from tests.requirements import needs

RICH = elf(
    soname="libx.so.1",
    needed=("libc.so.6", "libm.so.6"),
    needs={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.2.5"], "libm.so.6": ["GLIBC_2.29"]},
    weak={"libz.so.1": ["ZLIB_1.2.9"]},
    defines=("X_1.0", "X_1.1"),
)


def read(data: bytes) -> NativeLibrary | None:
    return read_library(io.BytesIO(data), "libx.so")


def test_elf_file_gives_all_requirements_of_the_loader() -> None:
    assert read(RICH) == NativeLibrary(
        path="libx.so",
        soname="libx.so.1",
        architecture="x86_64",
        needed=("libc.so.6", "libm.so.6"),
        needs=(
            Interface("libc.so.6", "GLIBC_2.17"),
            Interface("libc.so.6", "GLIBC_2.2.5"),
            Interface("libm.so.6", "GLIBC_2.29"),
        ),
        defines=("X_1.0", "X_1.1"),
    )


def test_runpath_overrides_rpath() -> None:
    def search(**paths: str) -> tuple[str, ...]:
        library = read(elf("a.so", **paths))  # type: ignore[arg-type]
        return library.search

    assert search(rpath="/old:$ORIGIN", runpath="/new") == ("/new",)
    assert search(rpath="/old:$ORIGIN") == ("/old", "$ORIGIN")


@pytest.mark.parametrize(("machine", "name"), [(AARCH64, "aarch64"), (I386, "i686"), (22, "s390x")])
def test_library_architecture_is_named_as_in_wheel_tags(machine: int, name: str) -> None:
    library = read(elf("a.so", machine=machine))
    assert library.architecture == name


def test_relocatable_and_static_elf_files_are_no_libraries() -> None:
    relocatable = bytearray(RICH)
    relocatable[16] = 1
    assert read(bytes(relocatable)) is None
    static = bytearray(RICH)
    struct.pack_into("<I", static, 64 + 56, 0x6474E551)  # the dynamic section becomes another
    assert read(bytes(static)) is None


def _patched(place: int, pattern: str, *values: int) -> bytes:
    data = bytearray(RICH)
    struct.pack_into(pattern, data, place, *values)
    return bytes(data)


def _dynamic() -> int:
    return int(struct.unpack_from("<Q", RICH, 64 + 56 + 8)[0])


def _tag(tag: int) -> int:
    """Where the value of a tag is."""
    place = _dynamic()
    while struct.unpack_from("<Q", RICH, place)[0] != tag:
        place += 16
    return place + 8


def _verneed() -> int:
    return int(struct.unpack_from("<Q", RICH, _tag(0x6FFFFFFE))[0]) - 0x10000


@pytest.mark.parametrize(
    "data",
    [
        RICH[:40],
        RICH[:130],
        RICH[: _dynamic() + 24],
        _patched(56, "<H", 60_000),
        _patched(64 + 56 + 32, "<Q", 1 << 60),
        _patched(_tag(5), "<Q", 0xDEAD0000),
        _patched(_tag(10), "<Q", 3),
        _patched(_tag(14), "<Q", 1 << 40),
        _patched(_tag(0x6FFFFFFE), "<Q", 1 << 50),
        _patched(_verneed() + 2, "<H", 60_000),
        # Its entries follow one another in a circle, a thousand million times.
        b"".join((_patched(_tag(0x6FFFFFFF), "<Q", 1 << 30)[: _verneed() + 12],
                  struct.pack("<I", 2**32 - 1), RICH[_verneed() + 16 :])),
        b"\x7fELF" + b"\xff" * 200,
    ],
    ids=["header", "segments", "dynamic", "many-segments", "long-dynamic", "no-strings",
         "short-strings", "soname-outside", "versions-outside", "many-versions", "circle",
         "nonsense"],
)  # fmt: skip
def test_broken_elf_file_is_refused_with_the_reason(data: bytes) -> None:
    with raised(InvalidDocument, reason=Reason.ELF_BROKEN, place="libx.so"):
        read(data)


@given(st.lists(st.tuples(st.integers(0, len(RICH) - 1), st.integers(0, 255)), max_size=8),
       st.integers(0, len(RICH)))  # fmt: skip
def test_damaged_elf_file_is_read_or_refused(damages: list[tuple[int, int]], length: int) -> None:
    data = bytearray(RICH)
    for place, value in damages:
        data[place] = value
    for damaged in (bytes(data), RICH[:length]):
        with suppress(InvalidDocument):
            read(damaged)


def _real() -> list[Path]:
    """Extension modules of this environment, and the system's own libraries."""
    system = [it for it in Path("/usr/lib").glob("*-linux-gnu/lib[cmsz]*.so*") if it.is_file()]
    return sorted(Path(np.__file__).parent.rglob("*.so"))[:20] + sorted(system)[:60]


@needs("readelf")
def test_installed_libraries_are_read_as_readelf_reads_them() -> None:
    compared = 0
    for path in _real():
        with path.open("rb") as stream:
            if stream.read(4) != b"\x7fELF":
                continue
            library = read_library(stream, path.name)
        needed, needs, defines = _by_readelf(path)
        assert list(library.needed) == needed, path
        assert {(it.library, it.version) for it in library.needs} == needs, path
        assert set(library.defines) == defines, path
        compared += 1
    assert compared > 5


def _by_readelf(path: Path) -> tuple[list[str], set[tuple[str, str]], set[str]]:
    text = subprocess.run(
        ["readelf", "-dVW", str(path)],  # noqa: S607
        capture_output=True, text=True, check=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
    ).stdout  # fmt: skip
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    needs, defines, library, section = set(), set(), "", ""
    for line in text.splitlines():
        if line.startswith("Version "):
            section = line.split()[1]
        if found := re.search(r"File: (\S+)", line):
            library = found[1]
        found = re.search(r"Name: (\S+)", line)
        if found and section == "needs" and "WEAK" not in line:
            needs.add((library, found[1]))
        if found and section == "definition" and "BASE" not in line and "Flags" in line:
            defines.add(found[1])
    return needed, needs, defines
