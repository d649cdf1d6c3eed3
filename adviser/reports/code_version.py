"""Names the code that makes and checks advice."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

import common

#: Packages whose code can change a report.
_PACKAGES = ("adviser", "common", "graph")


@cache
def code_version() -> str:
    """The version of Thoth and a digest of its code, such as ``0.2.0+5c1d9a3076f2``.

    In a checkout, the code changes between releases. Without the digest, ``thoth record verify``
    would call advice altered that an earlier commit has worded differently.
    """
    return f"{common.__version__}+{digest_of_code(Path(common.__file__).parents[1])[:12]}"


def digest_of_code(folder: Path) -> str:
    """SHA-256 of the names and contents of the modules under ``folder``."""
    code = sha256()
    for package in _PACKAGES:
        for path in sorted((folder / package).rglob("*.py")):
            code.update(f"{path.relative_to(folder).as_posix()}\n".encode())
            code.update(path.read_bytes())
    return code.hexdigest()
