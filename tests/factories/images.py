"""Images in all their forms, written by hand."""

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ingest.native.environments import analyze_image
from ingest.native.images import Layer, LayeredTree
from model.packages.native_libraries import EnvironmentAnalysis
from tests.factories.native import Member, Symlink, elf, layer

LIBC = elf("libc.so.6", defines=("GLIBC_2.17", "GLIBC_2.34"))

RELEASE = b'NAME="Demo"\nID=demo\nVERSION_ID="9"\n'

Members = Sequence[tuple[str, Member]]

ROOT: Members = [("etc/os-release", RELEASE), ("lib", Symlink("usr/lib")),
                 ("usr/lib/libc.so.6", LIBC)]  # fmt: skip


def exported(folder: Path, *layers: Members) -> EnvironmentAnalysis:
    """Several layers as the image that `save` writes of them."""
    return analyze_image(str(saved(folder, [layer(it) for it in layers])))


def saved(folder: Path, layers: Sequence[bytes], images: int = 1) -> Path:
    config = {"architecture": "amd64", "config": {"Env": ["A=b", "LD_LIBRARY_PATH=/opt/x"]}}
    entry = {"Config": "c.json", "RepoTags": ["demo:1"],
             "Layers": [f"{number}/layer.tar" for number in range(len(layers))]}  # fmt: skip
    members: list[tuple[str, Member]] = [
        ("manifest.json", json.dumps([entry] * images).encode()),
        ("c.json", json.dumps(config).encode()),
        *((f"{number}/layer.tar", data) for number, data in enumerate(layers)),
    ]
    path = folder / "image.tar"
    path.write_bytes(layer(members))
    return path


def names(found: EnvironmentAnalysis) -> set[str]:
    return {interface.library for interface in found.provides}


def _blob(folder: Path, data: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    (folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
    (folder / "blobs" / "sha256" / digest).write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def oci(folder: Path, layers: Sequence[bytes], *, architecture: str = "amd64") -> Path:
    """An OCI layout with an index within its index."""
    folder.mkdir(exist_ok=True)
    kind = "application/vnd.oci.image.{}.v1+json".format
    entries = []
    for machine, content in (("vax", []), (architecture, layers)):
        config = json.dumps({"architecture": machine}).encode()
        manifest = {
            "config": _blob(folder, config),
            "layers": [_blob(folder, it) for it in content],
        }
        described = _blob(folder, json.dumps(manifest).encode())
        entries.append(
            {**described, "mediaType": kind("manifest"), "platform": {"architecture": machine}}
        )
    inner = _blob(folder, json.dumps({"manifests": entries}).encode())
    outer = {"manifests": [{**inner, "mediaType": kind("index")}]}
    (folder / "index.json").write_text(json.dumps(outer))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


def as_tar(folder: Path, target: Path) -> Path:
    with tarfile.open(target, "w") as archive:
        archive.add(folder, ".")
    return target


def tree(*layers: Members) -> LayeredTree:
    def opened(data: bytes) -> Layer:
        return Layer("layer", lambda: io.BytesIO(data))

    return LayeredTree([opened(layer(members)) for members in layers])


def entry_of(folder: Path, system: str, *, os_name: str | None = None, **notes: str) -> Any:
    """An image of an OCI layout, and what its index says of it."""
    config = _blob(folder, json.dumps({"architecture": "amd64"}).encode())
    release = layer([("etc/os-release", f"ID={system}".encode())])
    manifest = {"config": config, "layers": [_blob(folder, release)]}
    described = _blob(folder, json.dumps(manifest).encode())
    there = {} if os_name is None else {"platform": {"os": os_name, "architecture": "amd64"}}
    return {**described, **there, "annotations": notes}


def layout(folder: Path, *entries: Any) -> str:
    (folder / "index.json").write_text(json.dumps({"manifests": entries}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return str(folder)


def named(name: str) -> dict[str, str]:
    return {"org.opencontainers.image.ref.name": name}
