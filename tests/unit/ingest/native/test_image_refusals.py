"""Images that are broken or hostile, each refused for its reason."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import pytest

from cli.analyze import analyze
from common.settings import Settings
from ingest.native.environments import analyze_image
from ingest.native.file_trees import MEBIBYTE
from model.errors import InvalidArgument, InvalidDocument, Reason
from tests.factories.errors import raised
from tests.factories.images import LIBC, ROOT, exported, oci, saved
from tests.factories.native import layer
from tests.services.commands import run_here


@pytest.mark.parametrize("path", ["../evil", "usr/../../evil", "a/" * 300 + "b"])
def test_a_layer_that_leaves_its_root_is_refused(tmp_path: Path, path: str) -> None:
    with raised(InvalidDocument, reason=Reason.ARCHIVE_PATH):
        exported(tmp_path, [(path, b"x")])


@pytest.mark.parametrize("cut", [100, 700, 1500])
def test_a_layer_that_is_cut_is_refused(tmp_path: Path, cut: int) -> None:
    whole = layer([("usr/lib/libc.so.6", LIBC + bytes(3000))])
    packed = gzip.compress(whole)
    for data in (whole[:cut], packed[: len(packed) * cut // len(whole)]):
        with raised(InvalidDocument, reason=Reason.ARCHIVE_BROKEN):
            analyze_image(str(saved(tmp_path, [data])))


def test_a_layer_that_unpacks_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.native.image_layers._LAYER_BYTES", 10 * MEBIBYTE)
    bomb = gzip.compress(layer([("usr/lib/libbig.so", bytes(20 * MEBIBYTE))]))
    with raised(InvalidDocument, reason=Reason.ARCHIVE_BOMB):
        analyze_image(str(saved(tmp_path, [bomb])))


def test_a_layer_with_more_files_than_any_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.native.image_layers._MOST_MEMBERS", 10)
    with raised(InvalidDocument, reason=Reason.ARCHIVE_BOMB):
        exported(tmp_path, [(f"f{number}", b"") for number in range(11)])


def test_a_header_that_claims_gigabytes_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2**33
    forged = info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    for path in (saved(tmp_path, [forged]), tmp_path / "forged.tar"):
        if not path.exists():
            path.write_bytes(forged)
        with pytest.raises(InvalidDocument) as refused:
            analyze_image(str(path))
        assert refused.value.reason in (Reason.ARCHIVE_BOMB, Reason.ARCHIVE_BROKEN)


def test_a_layer_other_than_its_digest_is_refused(tmp_path: Path) -> None:
    folder = oci(tmp_path / "oci", [layer(ROOT)])
    for blob in (folder / "blobs" / "sha256").iterdir():
        if blob.stat().st_size > 5000:
            blob.write_bytes(blob.read_bytes().replace(b"GLIBC_2.34", b"GLIBC_2.99"))
    index = json.loads((folder / "index.json").read_text())
    inner = folder / "blobs" / "sha256" / index["manifests"][0]["digest"][7:]
    chosen = json.loads(inner.read_text())["manifests"][1]
    (folder / "index.json").write_text(json.dumps({"manifests": [chosen]}))
    with raised(InvalidDocument, reason=Reason.ARCHIVE_BROKEN):
        analyze_image(str(folder))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("manifest.json", b"{", Reason.INVALID_JSON),
        ("manifest.json", b"{}", Reason.OUT_OF_RANGE),
        ("manifest.json", b'[{"Config": 1, "Layers": []}]', Reason.WRONG_TYPE),
        ("manifest.json", b'[{"Config": "c", "Layers": []}]', Reason.UNREADABLE),
        ("manifest.json", b'[{"Config": "c", "Layers": {}}]', Reason.WRONG_TYPE),
        ("index.json", b'{"manifests": []}', Reason.MISSING_FIELD),
        ("index.json", b'{"manifests": [{"digest": "../../etc"}]}', Reason.WRONG_TYPE),
        ("index.json", b'{"manifests": [{"digest": "sha256:%s"}]}' % (b"0" * 64),
         Reason.UNREADABLE),
        ("index.json", b"[" * 5_000_000, Reason.FILE_TOO_LARGE),
    ],
    ids=["no-json", "no-list", "config", "absent", "layers", "empty", "digest", "no-blob", "large"],
)  # fmt: skip
def test_a_broken_index_is_refused_by_reason(
    tmp_path: Path, name: str, content: bytes, reason: Reason
) -> None:
    path = tmp_path / "image.tar"
    path.write_bytes(layer([(name, content)]))
    with raised(InvalidDocument, reason=reason):
        analyze_image(str(path))


def test_several_images_in_one_file_are_refused(tmp_path: Path) -> None:
    with raised(InvalidDocument, reason=Reason.OUT_OF_RANGE):
        analyze_image(str(saved(tmp_path, [layer(ROOT)], images=2)))


def test_what_is_not_a_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    for data in (b"", b"hello" * 1000):
        path.write_bytes(data)
        with pytest.raises(InvalidDocument):
            analyze_image(str(path))
    with pytest.raises(InvalidArgument, match="write the image to a file first"):
        analyze_image("nobody/nothing:1")
    with pytest.raises(InvalidArgument):
        analyze_image("--help")


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_headers_upon_headers_are_refused(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = kind, 512
    hostile = (info.tobuf(tarfile.GNU_FORMAT) + b"16 path=abcdefg\n".ljust(512, b"\0")) * 3_000
    plain = tmp_path / "hostile.tar"
    plain.write_bytes(hostile + bytes(1_024))
    for path in (plain, saved(tmp_path, [hostile])):
        with raised(InvalidDocument, reason=Reason.ARCHIVE_BROKEN):
            analyze_image(str(path))


@pytest.mark.parametrize("name", ["", "a" * 5_000, "x\0y"])
def test_what_no_file_can_be_called_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="no file or folder"):
        analyze_image(name)
    for kind in ("image", "wheel"):
        done = run_here(analyze, Settings.from_env({}), kind, name)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")
