"""Reads the dynamic section of ELF files; every number is checked before it is used.

Like a loader, this module reads only program headers and the dynamic section. Section headers may
be stripped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile

from model.errors import InvalidDocument, Reason
from model.packages.native_libraries import Interface, NativeLibrary

MAGIC = b"\x7fELF"
#: Limit of file systems for a file name, because libraries are files.
_LONGEST_NAME = 255
_LONGEST_SEARCH = 4_096
#: Limits of ten times the highest numbers in real libraries.
_MOST_SEGMENTS, _MOST_TAGS, _MOST_VERSIONS = 1_024, 20_000, 10_000
_BASE, _WEAK = 1, 2  # flags of the ELF gABI's symbol versioning

_ARCHITECTURES = {
    "EM_X86_64": "x86_64",
    "EM_386": "i686",
    "EM_AARCH64": "aarch64",
    "EM_ARM": "armv7l",
    "EM_PPC64": "ppc64",
    "EM_S390": "s390x",
    "EM_RISCV": "riscv64",
    "EM_LOONGARCH": "loongarch64",
}


class _Broken(ValueError):
    """The contents of the file contradict each other."""


def read_library(stream: IO[bytes], path: str) -> NativeLibrary | None:
    """Read a shared library or a program.

    :param stream: a seekable stream; at most some kilobytes of it are in memory
    :returns: ``None`` if the file has no dynamic section, such as a static program, an object file
        or code for a GPU
    :raises InvalidDocument: with ``elf_broken`` if the file is damaged
    """
    try:
        return _read(stream, path)
    except (InvalidDocument, OSError):
        raise
    except Exception as error:  # elftools raises errors of many types
        message = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InvalidDocument(Reason.ELF_BROKEN, message, place=path) from error


def _read(stream: IO[bytes], path: str) -> NativeLibrary | None:
    elf = ELFFile(stream)
    if elf["e_type"] not in ("ET_DYN", "ET_EXEC"):
        return None
    image = _Image.of(elf, stream)
    if image.dynamic is None:
        return None
    machine = elf["e_machine"]
    architecture = _ARCHITECTURES.get(machine, str(machine).removeprefix("EM_").lower())
    if machine == "EM_X86_64" and elf.elfclass == 32:
        architecture = "x32"
    elif machine == "EM_PPC64" and elf.little_endian:
        architecture += "le"
    tags = list(_tags(image))
    names = _Names(image, tags)
    return NativeLibrary(
        path=path,
        soname=next(names.all("DT_SONAME"), None),
        architecture=architecture,
        needed=tuple(dict.fromkeys(names.all("DT_NEEDED"))),
        needs=tuple(dict.fromkeys(_needs(image, names))),
        defines=tuple(dict.fromkeys(_defines(image, names))),
        search=tuple(names.search()),
    )


@dataclass(frozen=True, slots=True)
class _Image:
    """The parts of an ELF file and their addresses in memory.

    :param loads: address, offset and length of each part
    :param dynamic: offset and length of the dynamic section
    """

    stream: IO[bytes]
    structs: Any
    loads: tuple[tuple[int, int, int], ...]
    dynamic: tuple[int, int] | None

    @classmethod
    def of(cls, elf: ELFFile, stream: IO[bytes]) -> _Image:
        count, size = elf["e_phnum"], elf["e_phentsize"]
        if count > _MOST_SEGMENTS:
            raise _Broken(f"{count} program headers, more than {_MOST_SEGMENTS}")
        loads, dynamic = [], None
        for number in range(count):
            header = struct_parse(
                elf.structs.Elf_Phdr, stream, stream_pos=elf["e_phoff"] + number * size
            )
            if header["p_type"] == "PT_LOAD":
                loads.append((header["p_vaddr"], header["p_offset"], header["p_filesz"]))
            elif header["p_type"] == "PT_DYNAMIC":
                dynamic = header["p_offset"], header["p_filesz"]
        return cls(stream, elf.structs, tuple(loads), dynamic)

    def offset_of(self, address: int) -> int:
        """Return the offset of an address in the file."""
        for start, offset, length in self.loads:
            if start <= address < start + length:
                return offset + address - start
        raise _Broken(f"address {address:#x} is not loaded from the file")

    def parsed(self, kind: Any, offset: int) -> Any:
        return struct_parse(kind, self.stream, stream_pos=offset)


def _tags(image: _Image) -> Iterator[tuple[Any, int]]:
    """Read tags and values of the dynamic section up to its end."""
    offset, length = image.dynamic or (0, 0)
    kind = image.structs.Elf_Dyn
    size = kind.sizeof()
    if length // size > _MOST_TAGS:
        raise _Broken(f"a dynamic section of {length} bytes, more than {_MOST_TAGS} entries")
    for place in range(offset, offset + length - size + 1, size):
        tag = image.parsed(kind, place)
        if tag["d_tag"] == "DT_NULL":
            return
        yield tag["d_tag"], tag["d_val"]


class _Names:
    """The values of the dynamic section: numbers, and names from its string table."""

    def __init__(self, image: _Image, tags: list[tuple[Any, int]]) -> None:
        self._image = image
        self._tags = tags
        strings, self._size = self.number("DT_STRTAB"), self.number("DT_STRSZ") or 0
        self._start = None if strings is None else image.offset_of(strings)

    def number(self, tag: str) -> int | None:
        return next((value for name, value in self._tags if name == tag), None)

    def all(self, tag: str) -> Iterator[str]:
        """The file names with this tag, in the order of the section."""
        for name, value in self._tags:
            if name == tag:
                yield self.text(value)

    def search(self) -> Iterator[str]:
        """The folders in ``DT_RUNPATH``, or else in its predecessor ``DT_RPATH``."""
        paths = {tag: value for tag, value in self._tags if tag in ("DT_RUNPATH", "DT_RPATH")}
        value = paths.get("DT_RUNPATH", paths.get("DT_RPATH"))
        if value is not None:
            yield from filter(None, self.text(value, _LONGEST_SEARCH).split(":"))

    def text(self, place: int, longest: int = _LONGEST_NAME) -> str:
        if self._start is None or place >= self._size:
            raise _Broken(f"no string at {place}")
        self._image.stream.seek(self._start + place)
        data, end, _ = self._image.stream.read(min(longest + 1, self._size - place)).partition(
            b"\0"
        )
        if not end:
            raise _Broken(f"a string at {place} has no end")
        return data.decode("utf-8", "backslashreplace")


def _needs(image: _Image, names: _Names) -> Iterator[Interface]:
    """Versions of required symbols; if a weak version is missing, a loader only warns."""
    structs = image.structs
    for entry, start in _entries(image, names, "VERNEED", structs.Elf_Verneed, "vn"):
        library = names.text(entry["vn_file"])
        place = start + entry["vn_aux"]
        for _ in range(entry["vn_cnt"]):
            version = image.parsed(structs.Elf_Vernaux, place)
            if not version["vna_flags"] & _WEAK:
                yield Interface(library, names.text(version["vna_name"]))
            if not version["vna_next"]:
                break
            place += version["vna_next"]


def _defines(image: _Image, names: _Names) -> Iterator[str]:
    """Versions of provided symbols, without the base version, which names the file itself."""
    structs = image.structs
    for entry, place in _entries(image, names, "VERDEF", structs.Elf_Verdef, "vd"):
        # The first auxiliary entry is the version's name, the others are names of its parents.
        if not entry["vd_flags"] & _BASE and entry["vd_cnt"]:
            yield names.text(image.parsed(structs.Elf_Verdaux, place + entry["vd_aux"])["vda_name"])


def _entries(
    image: _Image, names: _Names, table: str, kind: Any, prefix: str
) -> Iterator[tuple[Any, int]]:
    """Yield the entries of a version table with their offsets."""
    address, count = names.number(f"DT_{table}"), names.number(f"DT_{table}NUM") or 0
    if address is None:
        return
    place, inner = image.offset_of(address), 0
    for _ in range(count):
        entry = image.parsed(kind, place)
        # Inner entries count as well, because a table that points at itself has no end.
        inner += 1 + entry[f"{prefix}_cnt"]
        if inner > _MOST_VERSIONS:
            raise _Broken(f"more than {_MOST_VERSIONS} versions of symbols")
        yield entry, place
        if not entry[f"{prefix}_next"]:
            return
        place += entry[f"{prefix}_next"]
