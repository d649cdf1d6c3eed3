"""What wheels bundle is read from their SBOMs and native libraries."""

from __future__ import annotations

import json
from pathlib import Path

from model.packages.bundled_libraries import (
    BundledLibrary,
    bundled_changes,
    known_bundled,
)
from model.packages.identity import package_version
from pis.amun.bundled import bundled_libraries


def installed(root: Path, name: str, files: dict[str, bytes]) -> None:
    """Install a distribution, whose RECORD lists ``files``."""
    record = {f"{name}.dist-info/RECORD": "".join(f"{it},,\n" for it in files).encode()}
    for file, content in (files | record).items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(content)


def versions(root: Path) -> dict[str, list[tuple[str, str | None]]]:
    return {
        release: [(it.name, it.version) for it in libraries]
        for release, libraries in bundled_libraries(root).items()
    }


def test_libraries_have_the_version_of_their_name_or_their_content(tmp_path: Path) -> None:
    installed(tmp_path, "NumPy-2.3.0", {
        "numpy.libs/libscipy_openblas64_-56d6093b.so": b"\0OpenBLAS \0OpenBLAS 0.3.29  USE64BITINT",
        "numpy.libs/libgfortran-040039e1-0352e75f.so.5.0.0": b"\x7fELF",
        "numpy/_core/_multiarray.cpython-311-x86_64-linux-gnu.so": b"\x7fELF",
        "numpy/lib/libnpymath.so": b"\x7fELF",
    })  # fmt: skip
    installed(
        tmp_path,
        "torch-2.9.0+cpu",
        {"torch/lib/libgomp-98b21ff3.so.1": b"", "torch/lib/libc10.so": b""},
    )
    installed(tmp_path, "flask-3.0", {"flask/__init__.py": b""})
    assert versions(tmp_path) == {
        "numpy==2.3.0": [("OpenBLAS", "0.3.29"), ("libgfortran", "5.0.0")],
        "torch==2.9.0+cpu": [("libgomp", "1")],
    }


def test_an_sbom_is_trusted_more_than_the_name_of_a_file(tmp_path: Path) -> None:
    components = [
        {"name": "libjpeg", "version": "3.1.0"}, {"name": "ryu", "version": "1.0.5"},
        {"name": "no version"}, 7,
    ]  # fmt: skip
    installed(tmp_path, "a-1", {
        "a.libs/libjpeg-0a1b2c3d.so.62.4.0": b"",
        "a-1.dist-info/sboms/a.cdx.json": json.dumps({"components": components}).encode(),
        "a-1.dist-info/sboms/b.spdx.json": b'{"packages": [{"name": "z", "versionInfo": "2"}]}',
        "a-1.dist-info/sboms/broken.json": b"{",
        "../../outside/libz-0a1b2c3d.so.1": b"",
    })  # fmt: skip
    assert versions(tmp_path) == {"a==1": [("libjpeg", "3.1.0"), ("ryu", "1.0.5"), ("z", "2")]}


def test_a_step_is_told_with_what_changed_in_the_wheel() -> None:
    old, new, other = (package_version("numpy", it).purl for it in ("2.2.0", "2.3.0", "1.0"))
    blas = [BundledLibrary("OpenBLAS", version, "file") for version in ("0.3.28", "0.3.29")]
    known = known_bundled([([old], {"numpy==2.2.0": blas[:1]}), ([new], {"numpy==2.3.0": blas[1:]}),
                           ([other], {})])  # fmt: skip
    changed = "numpy 2.3.0 bundles OpenBLAS 0.3.29 instead of 0.3.28"
    assert bundled_changes(known, "numpy", "2.3.0", "2.2.0") == changed
    assert bundled_changes(known, "numpy", "1.0", "2.3.0") == "numpy 1.0 bundles no OpenBLAS"
    assert bundled_changes(known, "numpy", "2.3.0", "2.3.0") is None
    assert bundled_changes(known, "numpy", "2.3.0", "2.1.0") is None  # nothing is known of it
