"""ELF files, wheels and layers of images as small as they can be, written by hand."""

import io
import struct
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

X86_64, I386, ARM, AARCH64 = 62, 3, 40, 183

_NULL, _NEEDED, _STRTAB, _STRSZ, _SONAME, _RPATH, _RUNPATH = 0, 1, 5, 10, 14, 15, 29
_VERDEF, _VERDEFNUM, _VERNEED, _VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_HEADER, _SEGMENT, _BASE = 64, 56, 0x10000


@dataclass(slots=True)
class _Strings:
    data: bytearray = field(default_factory=lambda: bytearray(b"\0"))

    def place(self, text: str) -> int:
        place = len(self.data)
        self.data += text.encode() + b"\0"
        return place


def elf(
    soname: str | None = None,
    needed: Sequence[str] = (),
    needs: Mapping[str, Sequence[str]] | None = None,
    weak: Mapping[str, Sequence[str]] | None = None,
    defines: Sequence[str] = (),
    machine: int = X86_64,
    *,
    rpath: str | None = None,
    runpath: str | None = None,
) -> bytes:
    """A 64-bit shared library without sections: headers, strings, versions, dynamic section."""
    strings = _Strings()
    tags = [(_NEEDED, strings.place(name)) for name in needed]
    if soname is not None:
        tags.append((_SONAME, strings.place(soname)))
    paths = ((_RPATH, rpath), (_RUNPATH, runpath))
    tags += [(tag, strings.place(path)) for tag, path in paths if path is not None]
    wanted = [
        (library, versions, flags)
        for group, flags in ((needs or {}, 0), (weak or {}, 2))
        for library, versions in group.items()
    ]
    verneed = _verneed(wanted, strings)
    verdef = _verdef(defines, strings)
    start = _HEADER + 2 * _SEGMENT
    place = {"strings": start, "need": start + len(strings.data)}
    place["def"] = place["need"] + len(verneed)
    place["dynamic"] = place["def"] + len(verdef)
    tags += [(_STRTAB, _BASE + place["strings"]), (_STRSZ, len(strings.data))]
    if wanted:
        tags += [(_VERNEED, _BASE + place["need"]), (_VERNEEDNUM, len(wanted))]
    if defines:
        tags += [(_VERDEF, _BASE + place["def"]), (_VERDEFNUM, len(defines) + 1)]
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in [*tags, (_NULL, 0)])
    size = place["dynamic"] + len(dynamic)
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 3, machine, 1, 0, _HEADER, 0, 0, _HEADER, _SEGMENT, 2, 0, 0, 0
    )  # fmt: skip
    segments = _segment(1, 0, size) + _segment(2, place["dynamic"], len(dynamic))
    return header + segments + bytes(strings.data) + verneed + verdef + dynamic


def _segment(kind: int, offset: int, size: int) -> bytes:
    address = _BASE + offset
    return struct.pack("<IIQQQQQQ", kind, 4, offset, address, address, size, size, 8)


def _verneed(wanted: Sequence[tuple[str, Sequence[str], int]], strings: _Strings) -> bytes:
    data = b""
    for number, (library, versions, flags) in enumerate(wanted, start=1):
        size = 16 + 16 * len(versions)
        following = 0 if number == len(wanted) else size
        data += struct.pack("<HHIII", 1, len(versions), strings.place(library), 16, following)
        for inner, version in enumerate(versions, start=1):
            last = inner == len(versions)
            data += struct.pack("<IHHII", 0, flags, 2, strings.place(version), 0 if last else 16)
    return data


def _verdef(defines: Sequence[str], strings: _Strings) -> bytes:
    data = b""
    for number, version in enumerate(["base", *defines] if defines else []):
        following = 0 if number == len(defines) else 28
        flags = 1 if number == 0 else 0
        data += struct.pack("<HHHHIII", 1, flags, number + 1, 1, 0, 20, following)
        data += struct.pack("<II", strings.place(version), 0)
    return data


def write_wheel(
    folder: Path, members: Mapping[str, bytes], filename: str = "demo-1.0-cp311-cp311-linux_x86_64"
) -> Path:
    """A wheel of these files, with the metadata without which it would be none."""
    path = folder / f"{filename}.whl"
    name = "-".join(filename.split("-")[:2])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        archive.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr(f"{name}.dist-info/METADATA", "Metadata-Version: 2.1\n")
    return path


#: What a tar member may be: bytes of a file, or one of these.
@dataclass(frozen=True, slots=True)
class Symlink:
    target: str


@dataclass(frozen=True, slots=True)
class Hardlink:
    target: str


class Folder:
    """An entry of a folder itself."""


Member = bytes | Symlink | Hardlink | Folder


def layer(members: Sequence[tuple[str, Member]]) -> bytes:
    """A tar file of these members, in their order."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, member in members:
            info = tarfile.TarInfo(name)
            if isinstance(member, bytes):
                info.size = len(member)
                archive.addfile(info, io.BytesIO(member))
                continue
            if isinstance(member, Folder):
                info.type = tarfile.DIRTYPE
            else:
                info.type = tarfile.SYMTYPE if isinstance(member, Symlink) else tarfile.LNKTYPE
                info.linkname = member.target
            archive.addfile(info)
    return buffer.getvalue()
