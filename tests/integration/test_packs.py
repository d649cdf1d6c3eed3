"""Evidence packs: built from a record, signed, carried as an archive, verified or refused."""

import hashlib
import io
import json
import math
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from adviser.packs.envelope import Assurance, read_private_key, signed
from adviser.packs.manifest import PackFile, PackManifest, parse_manifest
from adviser.packs.pack_contents import check_contents
from adviser.packs.pack_files import opened, write_archive
from common.settings import Settings
from model.errors import InvalidPack, Reason
from model.text import printable
from tests.factories.errors import raised
from tests.factories.packs import new_key
from tests.services import second_verifier
from tests.services.commands import thoth, thoth_json


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private key; the public key is beside it."""
    path = tmp_path_factory.mktemp("keys") / "key.pem"
    new_key(path)
    return path


@pytest.fixture(scope="module")
def made(filled: Settings, key: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed pack of the whole record."""
    path = tmp_path_factory.mktemp("packs") / "pack"
    thoth_json(filled, "pack", "build", str(path), "--licence", "CC-BY-4.0")
    thoth_json(filled, "pack", "sign", str(path), "--key", str(key))
    return path


def test_pack_of_an_equal_selection_has_equal_bytes(
    filled: Settings, key: Path, made: Path, tmp_path: Path
) -> None:
    archive, again = tmp_path / "a.tar", tmp_path / "b.tar"
    shown = thoth_json(filled, "pack", "show", str(made))
    assert shown.pop("decides") is False
    assert "does not trust its key" in shown.pop("reason")
    for path in (archive, again):
        built = thoth_json(
            filled, "pack", "build", str(path), "--name", "pack", "--licence", "cc-by-4.0"
        )
        assert built == {**shown, "key": None, "assurance": None}
        assert thoth_json(filled, "pack", "sign", str(path), "--key", str(key)) == shown
        assert thoth_json(filled, "pack", "verify", str(path), "--key", f"{key}.pub") == shown
    assert archive.read_bytes() == again.read_bytes()
    columns = ("observation_id", "rate")
    assert opened(archive).rows("observations", columns) == opened(made).rows(
        "observations", columns
    )


def test_selected_pack_contains_only_rows_of_its_measurements(
    filled: Settings, made: Path, tmp_path: Path
) -> None:
    options = ("--indicator", "PiConv2D", "--package", "Torch", "--since", "2026-01-01")
    thoth_json(filled, "pack", "build", str(tmp_path / "part"), *options)
    whole, part = opened(made), opened(tmp_path / "part")
    check_contents(part)
    jobs = part.rows("observations", ("document_id", "stack_digest", "indicator"))
    assert {it["indicator"] for it in jobs} == {"PiConv2D"}
    stacks = {it["stack_digest"] for it in part.rows("stacks", ("stack_digest",))}
    assert stacks == {it["stack_digest"] for it in jobs}
    assert len(stacks) < len(whole.rows("stacks", ("stack_digest",)))
    names = {it["name"] for it in part.rows("stacks", ("name",))}
    assert names == {it["name"] for it in part.rows("releases", ("name",))} >= {"torch"}
    done = thoth(filled, "pack", "build", str(tmp_path / "none"), "--since", "0")
    assert (done.returncode, (tmp_path / "none").exists()) == (2, False)


def test_unknown_pack_keys_and_files_are_refused(
    filled: Settings, made: Path, tmp_path: Path
) -> None:
    new_key(tmp_path / "other")
    notes = tmp_path / "notes.tar"
    notes.write_text("mine")
    for arguments, reason in (
        (("again", str(made)), "--trust-packages"),
        (("verify", str(made), "--key", f"{tmp_path / 'other'}.pub"), "key"),
        (("build", str(notes), "--replace"), str(notes)),
    ):
        refused = thoth(filled, "pack", *arguments)
        assert (refused.returncode, reason in refused.stderr) == (2, True), refused.stderr
    assert notes.read_text() == "mine"


def test_pack_counts_builds_for_two_pythons_as_one_session(made: Path) -> None:
    manifest = opened(made).manifest
    assert manifest.session_count == 1
    one = manifest.sessions[0]
    pythons = replace(manifest, sessions=(one, replace(one, python_version="3.13", build="b")))
    assert pythons.session_count == 1
    again = replace(manifest, sessions=(one, replace(one, build="b")))
    assert again.session_count == 2


def test_independent_program_verifies_a_pack_and_its_numbers(
    filled: Settings, made: Path, key: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, second_verifier.__file__, str(made), f"{key}.pub"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    computed = {tuple(it["series"]): it for it in json.loads(done.stdout)["pairs"]}
    folder = tmp_path / "export"
    thoth_json(filled, "export", "parquet", str(folder), "--only", "verdicts")
    exact = 0
    for row in ds.dataset(folder / "verdicts").to_table().to_pylist():
        if row["method"] != "paired":
            continue
        names = ("comparison_key", "python_version", "baseline_digest", "stack_digest")
        own = computed[tuple(row[it] for it in names)]
        assert row["pairs"] == own["pairs"]
        assert math.isclose(row["d"], own["d"], abs_tol=1e-9)
        # Of two stacks, the variance is moderated by no others; noise over time still widens it.
        if own["stacks"] == 2 and row["degrees_of_freedom"] == own["pairs"] - 1:
            for end in ("low", "high"):
                assert math.isclose(
                    row[f"interval_{end}_pct"], 100 * math.expm1(own[end]), abs_tol=1e-6
                )
            exact += 1
    assert exact >= 3


def remade(folder: Path, **changes: Any) -> None:
    """Make the manifest anew after files changed; the envelope stays."""
    manifest = manifest_of(folder)
    files = [
        PackFile(path.relative_to(folder).as_posix(), sha256_of(path), path.stat().st_size)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".json"
    ]
    files.sort(key=lambda it: it.path)
    manifest = replace(manifest, **{"files": tuple(files), **changes})
    (folder / "manifest.json").write_bytes(manifest.canonical)


def manifest_of(folder: Path) -> PackManifest:
    return parse_manifest((folder / "manifest.json").read_bytes())


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unsigned(folder: Path, **changes: Any) -> None:
    """Make the manifest anew, and remove the signature."""
    remade(folder, **changes)
    (folder / "envelope.json").unlink()


def table_file(folder: Path, table: str) -> Path:
    return min((folder / table).rglob("*.parquet"))


def edited(folder: Path, table: str, column: str, change: Callable[[Any], Any]) -> None:
    """Change the first value of a column."""
    path = table_file(folder, table)
    content = pq.read_table(path)
    values = content[column].to_pylist()
    at = next(i for i, it in enumerate(values) if it is not None)
    values[at] = change(values[at])
    field = content.schema.field(column)
    place = content.schema.get_field_index(column)
    pq.write_table(content.set_column(place, field, pa.array(values, field.type)), path)


def retyped(folder: Path, table: str, column: str, kind: pa.DataType) -> None:
    """Store a column as another type."""
    path = table_file(folder, table)
    content = pq.read_table(path)
    place = content.schema.get_field_index(column)
    pq.write_table(content.set_column(place, column, content[column].cast(kind)), path)
    unsigned(folder)


def replayed(folder: Path) -> None:
    """Sign with another key under the fingerprint of the first."""
    path = folder.with_name("other")
    new_key(path)
    mine = json.loads((folder / "envelope.json").read_bytes())
    theirs = signed(manifest_of(folder), read_private_key(path), Assurance.SELF_ATTESTED)
    envelope = json.loads(theirs)
    envelope["signatures"][0]["keyid"] = mine["signatures"][0]["keyid"]
    (folder / "envelope.json").write_text(json.dumps(envelope))


def raised_assurance(folder: Path) -> None:
    """Take the payload of a statement that says more, under the old signature."""
    path = folder.with_name("other")
    new_key(path)
    envelope = json.loads((folder / "envelope.json").read_bytes())
    theirs = signed(manifest_of(folder), read_private_key(path), Assurance.REPRODUCED)
    envelope["payload"] = json.loads(theirs)["payload"]
    (folder / "envelope.json").write_text(json.dumps(envelope))


def flipped(folder: Path) -> None:
    path = table_file(folder, "samples")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(folder: Path) -> None:
    path = table_file(folder, "samples")
    path.write_bytes(path.read_bytes()[:-1])


def relabelled(folder: Path, table: str, column: str, value: Any) -> None:
    edited(folder, table, column, lambda _: value)
    unsigned(folder)


def schema_of_tomorrow(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b"evidence-pack-1", b"evidence-pack-9"))


def spaced(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes() + b"\n")


def foreign_script(folder: Path) -> None:
    path = folder / "indicators" / f"{'0' * 64}.py"
    path.write_text("print()")
    unsigned(folder)


def two_names(folder: Path) -> None:
    unsigned(folder, files=(*manifest_of(folder).files, manifest_of(folder).files[0]))


def outside(folder: Path) -> None:
    unsigned(folder, files=(*manifest_of(folder).files, PackFile("../other", "0" * 64, 1)))


def more_rows(folder: Path) -> None:
    counts = {**manifest_of(folder).counts, "samples": 10**9}
    unsigned(folder, counts=counts)


def more_sessions(folder: Path) -> None:
    sessions = manifest_of(folder).sessions
    unsigned(folder, sessions=(*sessions, replace(sessions[0], day="2026-11-22")))


MANIFEST, ENVELOPE = "manifest.json", "envelope.json"
SAMPLES = "samples/PiConv2D/part-00000.parquet"
CONFLICTING, TAMPERED = Reason.CONFLICTING_FIELDS, Reason.TAMPERED
#: What is done to a signed folder, and with which reason and field it is refused.
TAMPERINGS: Mapping[str, tuple[Callable[[Path], object], Reason, str]] = {
    "a changed file": (flipped, TAMPERED, SAMPLES),
    "a truncated file": (cut, TAMPERED, SAMPLES),
    "a missing file": (
        lambda it: table_file(it, "stacks").unlink(),
        Reason.MISSING_FIELD, "stacks/part-00000.parquet",
    ),
    "an added file": (lambda it: (it / "more").write_text(""), TAMPERED, "more"),
    "a link": (
        lambda it: (it / "stacks/more").symlink_to("/etc/passwd"),
        Reason.ARCHIVE_PATH, "stacks/more",
    ),
    "no manifest": (lambda it: (it / MANIFEST).unlink(), Reason.MISSING_FIELD, MANIFEST),
    "a manifest in another form": (spaced, TAMPERED, MANIFEST),
    "an unknown schema": (
        schema_of_tomorrow, Reason.UNKNOWN_SCHEMA, f"{MANIFEST}:$.schema_version",
    ),
    "another manifest under an old signature": (
        lambda it: remade(it, name="better"), TAMPERED, f"{ENVELOPE}:$.payload",
    ),
    "a key under the name of another": (replayed, TAMPERED, f"{ENVELOPE}:$.signatures"),
    "another statement under an old signature": (
        raised_assurance, TAMPERED, f"{ENVELOPE}:$.signatures",
    ),
    "a wrong size": (
        lambda it: unsigned(
            it, files=tuple(replace(each, size_bytes=1) for each in manifest_of(it).files)
        ),
        TAMPERED, "hardware/part-00000.parquet",
    ),
    "a file named twice": (two_names, Reason.DUPLICATE_KEY, MANIFEST),
    "a path outside": (outside, Reason.ARCHIVE_PATH, MANIFEST),
    "more rows than there are": (more_rows, CONFLICTING, f"{MANIFEST}:$.counts"),
    "more sessions than there were": (more_sessions, CONFLICTING, f"{MANIFEST}:$.sessions"),
    "a script of another name": (foreign_script, TAMPERED, f"indicators/{'0' * 64}.py"),
    "a column of another type": (
        lambda it: retyped(it, "samples", "duration_s", pa.float32()), Reason.WRONG_TYPE, SAMPLES,
    ),
    "another hardware class": (
        lambda it: relabelled(it, "hardware", "identity", '{"cpus": 64}'),
        CONFLICTING, "hardware",
    ),
    "a class of a job": (
        lambda it: relabelled(it, "observations", "hardware_digest", f"sha256:{'0' * 64}"),
        CONFLICTING, "observations",
    ),
    "another indicator": (
        lambda it: relabelled(it, "observations", "indicator", "PiMatmul"),
        CONFLICTING, "observations",
    ),
    "another version": (
        lambda it: relabelled(it, "stacks", "purl", "pkg:pypi/numpy@9.0"), CONFLICTING, "stacks",
    ),
    "another rate": (
        lambda it: (edited(it, "observations", "rate", lambda rate: rate * 1.1), unsigned(it)),
        CONFLICTING, "observations",
    ),
    "another sample": (
        lambda it: (edited(it, "samples", "duration_s", lambda it: it * 9), unsigned(it)),
        CONFLICTING, "observations",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampered_pack_is_refused_as_a_whole(made: Path, tmp_path: Path, name: str) -> None:
    tamper, reason, field = TAMPERINGS[name]
    shutil.copytree(made, folder := tmp_path / "pack")
    check_contents(opened(folder))
    tamper(folder)
    with raised(InvalidPack, reason=reason, field=field, place=str(folder)) as caught:
        check_contents(opened(folder))
    assert caught.value.hint  # type: ignore[attr-defined]


def _member(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    for key, value in fields.items():
        setattr(member, key, value)
    return member, data


STACKS = "stacks/part-00000.parquet"
#: Members that are added to an archive.
MEMBERS: Mapping[str, tuple[tuple[tarfile.TarInfo, bytes], Reason, str]] = {
    "a path above": (_member("../evil", b"x"), Reason.ARCHIVE_PATH, "../evil"),
    "an absolute path": (_member("/etc/evil", b"x"), Reason.ARCHIVE_PATH, "/etc/evil"),
    "a link": (
        _member("stacks/part-00001.parquet", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        Reason.ARCHIVE_PATH, "stacks/part-00001.parquet",
    ),
    "a hard link": (
        _member("stacks/part-00001.parquet", type=tarfile.LNKTYPE, linkname=STACKS),
        Reason.ARCHIVE_PATH, "stacks/part-00001.parquet",
    ),
    "a name that colours the terminal": (
        _member("\x1b[31m", b"x"), Reason.ARCHIVE_PATH, printable("\x1b[31m"),
    ),
    "a device": (_member("stacks/x", type=tarfile.CHRTYPE), Reason.ARCHIVE_PATH, "stacks/x"),
    "a name twice": (_member(STACKS, b"x"), Reason.DUPLICATE_KEY, STACKS),
    "one more file": (
        _member("stacks/part-00001.parquet", b"x"), TAMPERED, "stacks/part-00001.parquet",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MEMBERS)
def test_pack_archive_with_an_unexpected_member_is_refused(
    made: Path, tmp_path: Path, name: str
) -> None:
    (member, data), reason, field = MEMBERS[name]
    write_archive(path := tmp_path / "pack.tar", opened(made).places)
    with tarfile.open(path, "a") as tar:
        tar.addfile(member, io.BytesIO(data))
    with raised(InvalidPack, reason=reason, field=field, place=str(path)):
        opened(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[: len(data) // 2], None),
        (lambda data: data + data, TAMPERED),
        (lambda data: b"", Reason.ARCHIVE_BROKEN),
        (lambda data: b"\x1f\x8b" + data, Reason.ARCHIVE_BROKEN),
    ],
)
def test_pack_archive_with_a_wrong_end_is_refused(
    made: Path, tmp_path: Path, change: Callable[[bytes], bytes], reason: Reason | None
) -> None:
    write_archive(path := tmp_path / "pack.tar", opened(made).places)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InvalidPack) as caught:
        opened(path)
    assert reason is None or caught.value.reason is reason
