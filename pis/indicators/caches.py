"""The caches of this machine's CPUs."""

from __future__ import annotations

from pathlib import Path

_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def cpu_cache_bytes() -> int:
    """Total size of the last-level caches in bytes; 0 if the kernel does not report it."""
    sizes: dict[tuple[int, str], int] = {}
    for folder in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index[0-9]*"):
        level, shared, size = (
            _line_of(folder / name) for name in ("level", "shared_cpu_list", "size")
        )
        if level.isdecimal():
            sizes[int(level), shared] = bytes_of(size)
    last = max((level for level, _ in sizes), default=0)
    return sum(size for (level, _), size in sizes.items() if level == last)


def bytes_of(size: str) -> int:
    """
    >>> bytes_of("32768K")
    33554432
    """
    digits = size[:-1] if size[-1:] in _UNITS else size
    return int(digits) * _UNITS.get(size[-1:], 1) if digits.isdecimal() else 0


def _line_of(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
