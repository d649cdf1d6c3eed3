"""What wheels bundle is read from their SBOMs and native libraries."""

import json
from dataclasses import replace
from pathlib import Path

from model.packages.native_libraries import BundledLibrary, bundled_changes
from pis.amun.environments import bundled_libraries

SBOM = "numpy.dist-info/sboms/numpy.cdx.json"


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


def test_bundled_library_version_is_read_from_file_name_or_content(tmp_path: Path) -> None:
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
        "flask==3.0": [],
    }


def test_sbom_in_a_wheel_names_versions_of_bundled_libraries(tmp_path: Path) -> None:
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
    assert versions(tmp_path) == {
        "a==1": [("libjpeg", "3.1.0"), ("libjpeg", "62.4.0"), ("ryu", "1.0.5"), ("z", "2")]
    }


def test_speed_change_is_explained_by_changed_bundled_libraries() -> None:
    def libraries(**versions: str) -> list[BundledLibrary]:
        return [BundledLibrary(name, version, "x.libs/x.so") for name, version in versions.items()]

    sbom = BundledLibrary("libz", "1.3.1-2", SBOM), BundledLibrary("ryu", "1", SBOM)
    known = {
        "numpy==2.2.0": libraries(OpenBLAS="0.3.28", libz="1.3"),
        "numpy==2.3.0": libraries(OpenBLAS="0.3.29", libz="1.3"),
        "numpy==2.4.0": [],
        "numpy==2.5.0": [*libraries(OpenBLAS="0.3.29"), *sbom],
        "numpy==2.6.0": [
            *libraries(OpenBLAS="0.3.29"),
            sbom[0],
            replace(sbom[1], version="2"),
            BundledLibrary("NumPy", "2.6.0", SBOM),
        ],
    }
    assert {pair: bundled_changes(known, "numpy", *pair) for pair in (
        ("2.3.0", "2.2.0"), ("2.4.0", "2.3.0"), ("2.3.0", "2.4.0"), ("2.3.0", "2.3.0"),
        ("2.3.0", "2.1.0"), ("2.5.0", "2.3.0"), ("2.6.0", "2.5.0"),
    )} == {
        ("2.3.0", "2.2.0"): "numpy 2.3.0 bundles OpenBLAS 0.3.29 instead of 0.3.28",
        ("2.4.0", "2.3.0"): "numpy 2.4.0 bundles no OpenBLAS, no libz",
        ("2.3.0", "2.4.0"): "numpy 2.3.0 bundles also OpenBLAS 0.3.29, also libz 1.3",
        ("2.3.0", "2.3.0"): None,
        ("2.3.0", "2.1.0"): None,  # nothing is known of one
        ("2.5.0", "2.3.0"): None,  # the first SBOM adds no library
        ("2.6.0", "2.5.0"): "numpy 2.6.0 bundles ryu 2 instead of 1",
    }  # fmt: skip
