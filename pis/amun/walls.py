"""What a confined job sees of the machine, as options of bubblewrap (bwrap(1))."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

#: Where the job starts, and its home: a folder in memory, of bounded size, gone with it.
WORKDIR = Path("/tmp/work")  # noqa: S108

#: What a job finds in ``/etc``: what the loader and the C library read, and no secret.
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "os-release")

#: Libraries size their thread pools by these.
_TOPOLOGY = ("/sys/devices/system/cpu", "/sys/devices/system/node")


def walls(
    readable: Sequence[Path], devices: Sequence[Path], *, notes: Path, disk_bytes: int | None
) -> Iterator[str]:
    """Namespaces of its own, the system and ``readable`` read-only, and bounded memory to write.

    :param notes: the folder with the job's ``passwd`` and ``group``
    """
    yield from _namespaces()
    yield from _system(notes)
    yield from _writable(disk_bytes or 0)
    yield from _readable(readable)
    yield from _devices(devices)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")


def _namespaces() -> Iterator[str]:
    yield from ("--die-with-parent", "--new-session", "--hostname", "job")
    yield from ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
    yield "--unshare-cgroup-try"
    if os.geteuid() != 0:
        yield "--unshare-user"


def _system(notes: Path) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for folder in ("/etc", "/sys", "/sys/devices", "/sys/devices/system"):
        yield from ("--perms", "0755", "--dir", folder)
    for name in _ETC:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    for name in ("passwd", "group"):
        yield from ("--ro-bind", str(notes / name), f"/etc/{name}")
    for folder in _TOPOLOGY:
        yield from ("--ro-bind-try", folder, folder)
    yield from ("--proc", "/proc", "--dev", "/dev")


def _writable(size: int) -> Iterator[str]:
    """Folders in memory: three quarters to ``/tmp``, a quarter to what processes share."""
    for folder, share in (("/tmp", size - size // 4), ("/dev/shm", size // 4)):  # noqa: S108
        yield from ("--perms", "1777", *(("--size", str(share)) if share else ()))
        yield from ("--tmpfs", folder)
    yield from ("--perms", "0777", "--dir", str(WORKDIR))


def _readable(paths: Sequence[Path]) -> Iterator[str]:
    """Each at its own path; bubblewrap would close the folders above them to the job's user."""
    folders = {folder for path in paths for folder in path.parents}
    for folder in sorted(folders, key=lambda it: len(it.parts)):
        yield from ("--perms", "0755", "--dir", str(folder))
    for path in paths:
        yield from ("--ro-bind", str(path), str(path))


def _devices(devices: Sequence[Path]) -> Iterator[str]:
    for device in devices:
        yield from ("--dev-bind", str(device), str(device))
    if devices:  # a GPU's driver finds its card there
        yield from ("--ro-bind", "/sys", "/sys")
