"""Which C library the releases of Linux distributions have, for those who name only these."""

from __future__ import annotations

#: Of Enterprise Linux, whatever it is called.
_ENTERPRISE = {"7": (2, 17), "8": (2, 28), "9": (2, 34), "10": (2, 39)}
#: The glibc that each release came with, from its own list of packages.
_GLIBC: dict[str, dict[str, tuple[int, int]]] = {
    "almalinux": _ENTERPRISE,
    "centos": _ENTERPRISE,
    "ol": _ENTERPRISE,
    "rhel": _ENTERPRISE,
    "rocky": _ENTERPRISE,
    "ubi": _ENTERPRISE,
    "amzn": {"2": (2, 26), "2023": (2, 34)},
    "debian": {"10": (2, 28), "11": (2, 31), "12": (2, 36), "13": (2, 41)},
    "fedora": {
        "36": (2, 35), "37": (2, 36), "38": (2, 37), "39": (2, 38), "40": (2, 39), "41": (2, 40),
        "42": (2, 41),
    },
    "ubuntu": {"18.04": (2, 27), "20.04": (2, 31), "22.04": (2, 35), "24.04": (2, 39)},
}  # fmt: skip
#: Distributions with musl; 1.2 since Alpine 3.13.
_MUSL = frozenset({"alpine"})


def platform_of(name: str, version: str | None, machine: str = "x86_64") -> str | None:
    """The platform tag of a distribution's release; ``None`` for one that is not known.

    :param name: as ``ID`` of ``/etc/os-release`` has it
    :param version: as ``VERSION_ID`` has it; a minor number may follow

    >>> platform_of("rhel", "9.4"), platform_of("alpine", "3.19", "aarch64")
    ('manylinux_2_34_x86_64', 'musllinux_1_2_aarch64')
    >>> platform_of("plan9", "4") is None
    True
    """
    key = name.strip().lower()
    if key in _MUSL:
        return f"musllinux_1_2_{machine}"
    releases, given = _GLIBC.get(key, {}), (version or "").strip()
    glibc = releases.get(given) or releases.get(given.partition(".")[0])
    return None if glibc is None else f"manylinux_{glibc[0]}_{glibc[1]}_{machine}"
