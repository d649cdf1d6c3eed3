"""Wheels by their native libraries; hostile archives end in a typed refusal."""

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.native import wheels
from ingest.native.wheels import WheelLimits, analyze_wheel, architectures_of, best_wheel, parse_pin
from model.errors import InvalidArgument, InvalidDocument, Reason
from model.packages.environments import environment
from model.packages.native_libraries import highest_versions
from model.packages.project_pages import IndexFile
from tests.factories.errors import raised
from tests.factories.golden import compare_views
from tests.factories.native import AARCH64, ARM, I386, elf, write_wheel

EXTENSION = elf(needed=("libhelp.so.1", "libc.so.6"), needs={"libc.so.6": ["GLIBC_2.34"]})
HELPER = elf("libhelp.so.1", ("libcudart.so.12",), {"libcudart.so.12": ["libcudart.so.12"]})


def test_equal_wheels_share_one_document_and_others_do_not(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = write_wheel(tmp_path / "a", {"demo/_c.abi3.so": EXTENSION})
    again = tmp_path / "b" / first.name
    again.write_bytes(first.read_bytes())
    other = write_wheel(tmp_path, {"demo/_c.abi3.so": HELPER})
    ids = [analyze_wheel(it).document_id for it in (first, again, other)]
    assert ids[0] == ids[1] != ids[2]
    assert analyze_wheel(first, index="mirror").document_id != ids[0]
    assert json.loads(analyze_wheel(first).body)["libraries"][0]["needed"] == [
        "libhelp.so.1", "libc.so.6",
    ]  # fmt: skip


def test_wheel_with_only_libraries_for_other_machines_causes_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    analyze_wheel(write_wheel(tmp_path, {"demo/_c.so": elf("x.so", machine=AARCH64)}))
    (record,) = caplog.records
    assert record.message == "native_libraries_of_other_machines"
    assert vars(record)["found"] == ["aarch64"]


@pytest.mark.parametrize(
    ("members", "limits", "reason"),
    [
        ({"../evil.so": EXTENSION}, WheelLimits(), Reason.ARCHIVE_PATH),
        ({"/etc/evil.so": EXTENSION}, WheelLimits(), Reason.ARCHIVE_PATH),
        ({"..\\evil.so": EXTENSION}, WheelLimits(), Reason.ARCHIVE_PATH),
        ({"C:\\evil.so": EXTENSION}, WheelLimits(), Reason.ARCHIVE_PATH),
        ({"a": b"", "b": b"", "c": b""}, WheelLimits(members=4), Reason.ARCHIVE_BOMB),
        ({"a": bytes(2000)}, WheelLimits(unpacked_bytes=1000), Reason.ARCHIVE_BOMB),
        ({"a.so": EXTENSION}, WheelLimits(library_bytes=100), Reason.ARCHIVE_BOMB),
    ],
    ids=["leaves", "absolute", "backslash", "drive", "members", "size", "library"],
)
def test_a_hostile_wheel_is_refused(
    tmp_path: Path, members: dict[str, bytes], limits: WheelLimits, reason: Reason
) -> None:
    with raised(InvalidDocument, reason=reason) as refused:
        analyze_wheel(write_wheel(tmp_path, members), limits=limits)
    assert refused.value.place.startswith("demo-1.0-")


def test_zip_bomb_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "_RATIO_FLOOR_BYTES", 2**20)
    path = write_wheel(tmp_path, {"demo/libbomb.so": bytes(2**21)})
    with raised(InvalidDocument, reason=Reason.ARCHIVE_BOMB):
        analyze_wheel(path)


def test_invalid_wheel_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    for data in (b"", b"PK\x03\x04 cut", bytes(1000)):
        path.write_bytes(data)
        with raised(InvalidDocument, reason=Reason.ARCHIVE_BROKEN):
            analyze_wheel(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("demo.py", "")
    with raised(InvalidDocument, reason=Reason.ARCHIVE_BROKEN):
        analyze_wheel(path)
    with raised(InvalidDocument, reason=Reason.UNREADABLE):
        analyze_wheel(tmp_path / "absent-1.0-py3-none-any.whl")
    with pytest.raises(InvalidArgument):
        analyze_wheel(tmp_path / "demo.zip")


def test_wheel_member_changed_after_packing_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "demo-1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("demo/a.so", EXTENSION)
        archive.writestr("demo-1.0.dist-info/WHEEL", "")
    path.write_bytes(path.read_bytes().replace(b"GLIBC_2.34", b"GLIBC_2.17"))
    with raised(InvalidDocument, reason=Reason.ARCHIVE_BROKEN):
        analyze_wheel(path)


@pytest.mark.parametrize(
    ("tags", "machines"),
    [
        ("cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", {"x86_64"}),
        ("py3-none-manylinux1_i686.musllinux_1_1_aarch64", {"i686", "aarch64"}),
        ("py3-none-linux_armv7l", {"armv7l"}),
        ("py3-none-any", set()),
        ("cp311-cp311-win_amd64", set()),
    ],
)
def test_machines_of_a_wheel_are_read_from_its_tags(tags: str, machines: set[str]) -> None:
    assert architectures_of(tags) == machines


def _file(tags: str, version: str = "1.0") -> IndexFile:
    return IndexFile(f"demo-{version}-{tags}.whl", version, "wheel", None)


def test_analysed_wheel_is_the_wheel_that_an_installer_chooses() -> None:
    files = [_file("py3-none-any"), _file("cp311-cp311-manylinux_2_17_x86_64"),
             _file("cp311-cp311-manylinux_2_39_x86_64"), _file("cp311-cp311-linux_x86_64", "2.0"),
             replace(_file("py3-none-any"), filename="demo-1.0.tar.gz", kind="sdist")]  # fmt: skip
    linux, mac = environment("3.11", "linux_x86_64"), environment("3.11", "macosx_14_0_arm64")
    assert best_wheel(files, parse_pin("demo==1"), linux).filename == files[1].filename
    assert best_wheel(files, parse_pin("Demo==1.0"), mac).filename == files[0].filename
    with pytest.raises(InvalidArgument, match=r"demo 2\.0 for CPython 3\.11 on macosx.*built for"):
        best_wheel(files, parse_pin("demo==2.0"), mac)
    with pytest.raises(InvalidArgument, match=r"has no demo 3\.0"):
        best_wheel(files, parse_pin("demo==3.0"), linux)


@pytest.mark.parametrize(
    "text", ["demo", "demo>=1", "demo==1,<2", "demo==1.*", "demo===x", "demo==1; os_name=='nt'",
             "demo @ file:///x", "==1", ""]
)  # fmt: skip
def test_wheel_analysis_requires_an_exact_name_and_version(text: str) -> None:
    with pytest.raises(InvalidArgument, match="NAME==VERSION"):
        parse_pin(text)


FOREIGN = {"demo/libremote.so": elf("libremote.so", ("librpc.so.1",), machine=AARCH64)}
#: Files of wheels, and the stem of its name if it is not the usual one.
WHEELS: dict[str, tuple[dict[str, bytes], *tuple[str, ...]]] = {
    "it needs what its libraries need and it does not bring along": (
        {
            "demo/__init__.py": b"",
            "demo/_core.cpython-311-x86_64-linux-gnu.so": EXTENSION,
            "demo.libs/libhelp.so.1": HELPER,
            "demo-1.0.data/purelib/other.py": b"",
            "demo/data.txt": b"nothing" * 10,
        },
    ),
    "code for another machine is listed and not needed": (FOREIGN,),
    "a wheel for any machine needs all": (FOREIGN, "demo-1.0-py3-none-any"),
    "ARM machines of 32 bits are one kind": (
        {"demo/_c.so": elf("libarm.so", ("libc.so.6",), machine=ARM)},
        "demo-1.0-cp311-cp311-linux_armv6l",
    ),
    "Intel machines of 32 bits are one kind": (
        {"demo/_c.so": elf("libold.so", ("libc.so.6",), machine=I386)},
        "demo-1.0-cp311-cp311-linux_i586",
    ),
    "a broken library is named and the rest is read": (
        {"demo/bad.so": EXTENSION[:150], "demo/good.so": EXTENSION},
    ),
}


def test_wheel_analysis_gives_libraries_and_required_interfaces(tmp_path: Path) -> None:
    views = {}
    for title, (members, *stem) in WHEELS.items():
        path = write_wheel(tmp_path, members, *stem)
        found = analyze_wheel(path)
        assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        lines = [f"{found.package.purl} {found.tags}", f"imports: {' '.join(found.imports)}"]
        lines += [f"bundled: {' '.join(found.bundled)}"]
        lines += [f"library: {it.path} for {it.architecture}" for it in found.libraries]
        lines += [f"needs: {it.key}" for it in found.needs]
        lines += [f"highest: {name} {it}" for name, it in highest_versions(found.needs).items()]
        views[title] = "\n".join([*lines, *(f"skipped: {it.path}" for it in found.skipped)])
    compare_views("native_wheels", views)
