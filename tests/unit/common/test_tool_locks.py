"""``poetry.lock``, ``pdm.lock``, ``pixi.lock`` and workspaces of uv: what they install."""

import pytest

from adviser.projects.locks import ProjectLock, read_lock
from common.formats.locks.entries import LockSelection
from model.errors import InvalidFile
from model.packages.environments import environment
from tests.factories.golden import DATA

LINUX = environment("3.11", "linux_x86_64").markers
WINDOWS = environment("3.12", "win_amd64").markers
HASH = "sha256:" + "a" * 64


def selected(*, extras: str = "", groups: str = "", **others: object) -> LockSelection:
    names = {"extras": extras.split(), "groups": groups.split(), "members": ()}
    return LockSelection.of(
        **{**names, "all_members": False, "default_groups": True, **others}  # type: ignore[arg-type]
    )


def read(
    name: str, text: str, manifest: str | None = None, selection: LockSelection | None = None,
    markers: dict[str, str] | object = LINUX,
) -> ProjectLock:  # fmt: skip
    files = {name: text.encode()}
    if manifest is not None:
        files["pyproject.toml"] = manifest.encode()
    return read_lock(name, files, selection or LockSelection(), markers)  # type: ignore[arg-type]


def versions(lock: ProjectLock) -> dict[str, str]:
    return {name: it.version for name, it in lock.packages(LINUX).items()}


POETRY = (DATA / "locks/poetry.lock").read_text("utf-8")


def poetry(version: str) -> str:
    return POETRY.replace("FORMAT", version)


MANIFEST = (DATA / "locks/poetry.toml").read_text("utf-8")


def test_packages_of_an_old_poetry_lock_are_selected_by_its_manifest() -> None:
    lock = read("poetry.lock", poetry("2.0"), MANIFEST)
    assert versions(lock) == {"web": "2.0", "forked": "1.0", "crypto": "1.5"}
    assert lock.left_out(LINUX) == {("forked", "2.0"), ("shown", "1.0"), ("tester", "1.0")}
    (web,) = [it for it in lock.entries if it.name == "web"]
    assert (web.hashes, web.files[0].filename) == ((HASH,), "web-2.0-py3-none-any.whl")
    windows = read("poetry.lock", poetry("2.0"), MANIFEST, markers=WINDOWS)
    assert windows.packages(WINDOWS)["forked"].version == "2.0"
    more = selected(extras="show", groups="test")
    lock = read("poetry.lock", poetry("1.1"), MANIFEST, more)
    assert versions(lock).keys() == {"web", "forked", "crypto", "tester", "shown"}


def test_old_poetry_lock_without_its_manifest_causes_a_warning() -> None:
    lock = read("poetry.lock", poetry("2.0"))
    assert versions(lock)["web"] == "2.0"
    assert any("no pyproject.toml beside it" in it.message for it in lock.warnings)


def test_packages_of_a_new_poetry_lock_are_selected_by_groups_and_markers() -> None:
    text = poetry("2.1").replace(
        'python-versions = ">=3.8"\n', 'python-versions = ">=3.8"\ngroups = ["main", "test"]\n'
        "[package.markers]\nmain = \"extra == 'show' or os_name == 'nt'\"\n"
    )  # fmt: skip
    text = text.replace('python-versions = "*"', 'python-versions = "*"\ngroups = ["test"]')
    text = text.replace('python-versions = ">=3.9"', 'python-versions = ">=3.9"\ngroups = ["main"]')
    assert versions(read("poetry.lock", text)) == {"forked": "2.0"}
    assert "web" in versions(read("poetry.lock", text, None, selected(extras="show")))
    assert "web" in read("poetry.lock", text, markers=WINDOWS).packages(WINDOWS)
    assert "web" in versions(read("poetry.lock", text, None, selected(groups="test")))
    everywhere = read("poetry.lock", text, markers=None)
    assert {it.name for it in everywhere.entries if it.dev} >= {"tester", "web"}


PDM = (DATA / "locks/pdm.lock").read_text("utf-8")


def pdm(strategy: str) -> str:
    return PDM.replace("STRATEGY", strategy)


PDM_MANIFEST = (DATA / "locks/pdm.toml").read_text("utf-8")


@pytest.mark.parametrize("strategy", ['"inherit_metadata"', ""])
def test_pdm_lock_is_read_with_and_without_inherited_metadata(strategy: str) -> None:
    def installed(**names: str) -> dict[str, str]:
        return versions(read("pdm.lock", pdm(strategy), PDM_MANIFEST, selected(**names)))

    assert installed() == {"web": "2.0", "forked": "1.0"}
    assert installed(extras="tls").keys() == {"web", "forked", "crypto"}
    lock = read("pdm.lock", pdm(strategy), PDM_MANIFEST, selected(groups="test"))
    assert [f"{it.name} @ {it.target}" for it in lock.others] == [
        "tester @ git+https://git.example/tester@1f2e"
    ]
    missing = read("pdm.lock", pdm(strategy), PDM_MANIFEST, selected(extras="most"))
    assert any("was made without most" in it.message for it in missing.warnings)


PIXI = (DATA / "locks/pixi.lock").read_text("utf-8")


def test_only_pypi_packages_of_a_pixi_lock_count() -> None:
    lock = read("pixi.lock", PIXI)
    assert versions(lock) == {"idna": "3.7"}
    assert lock.entries[0].hashes == ("sha256:abab",)
    assert [(it.what, it.code) for it in lock.elsewhere] == [("click", "conda")]
    (warning,) = lock.warnings
    assert warning.message == "lists 1 conda package, which is not covered: click"
    other = read("pixi.lock", PIXI, None, selected(groups="test"))
    assert [(it.name, it.local) for it in other.others] == [("lib", True)]


UV = (DATA / "locks/workspace.uv.lock").read_text("utf-8")


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (selected(), {"toml", "certifi"}),
        (selected(default_groups=False), {"certifi"}),
        (selected(groups="lint"), {"toml", "certifi", "idna"}),
        (selected(members=["a"]), {"toml"}),
        (selected(members=["b"]), {"certifi"}),
        (selected(members=["b"], groups="lint"), {"certifi", "idna"}),
        (selected(members=["a"], extras="one"), {"toml", "six"}),
    ],
)
def test_workspace_members_of_a_uv_lock_are_selected_as_by_uv(
    selection: LockSelection, names: set[str]
) -> None:
    assert versions(read("uv.lock", UV, None, selection)).keys() == names


@pytest.mark.parametrize(
    ("name", "text", "selection", "reason", "field"),
    [
        ("poetry.lock", poetry("3.0"), selected(), "unknown_schema",
         "metadata.lock-version"),
        ("pdm.lock", pdm("").replace("4.5.0", "5.0"), selected(), "unknown_schema",
         "metadata.lock_version"),
        ("pixi.lock", PIXI.replace("version: 6", "version: 9"), selected(), "unknown_schema",
         "version"),
        ("poetry.lock", poetry("2.0"), selected(extras="no"), "missing_field", "extras"),
        ("pdm.lock", pdm(""), selected(groups="no"), "missing_field", "metadata.groups"),
        ("pdm.lock", pdm("").replace("3.9", "3.12"), selected(), "out_of_range",
         "environments"),
        ("pixi.lock", PIXI, selected(groups="no"), "missing_field", "environments"),
        ("uv.lock", UV, selected(members=["c"]), "missing_field", "manifest.members"),
        ("uv.lock", UV, selected(extras="one two"), "conflicting_fields", "conflicts[0]"),
        ("uv.lock", UV, selected(members=["a", "b"], groups="no"), "missing_field", "$"),
        ("uv.lock", UV.replace(">=3.10", ">=3.12"), selected(), "out_of_range", "requires-python"),
    ],
)  # fmt: skip
def test_unsupported_lock_content_is_refused_with_its_field(
    name: str, text: str, selection: LockSelection, reason: str, field: str
) -> None:
    with pytest.raises(InvalidFile) as caught:
        read(name, text, None, selection)
    assert (caught.value.reason, caught.value.field) == (reason, field)
    assert caught.value.hint
