"""``poetry.lock``, ``pdm.lock``, ``pixi.lock`` and workspaces of uv: what they install."""

from __future__ import annotations

import pytest

from adviser.projects.locks import ProjectLock, read_lock
from common.formats.locks.entries import LockSelection
from model.errors import InvalidFile
from model.packages.environments import environment

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


POETRY = f"""[[package]]
name = "Web"
version = "2.0"
python-versions = ">=3.8"
files = [{{file = "web-2.0-py3-none-any.whl", hash = "{HASH}"}}]
[package.dependencies]
forked = ">=1"
crypto = {{version = "^1", optional = true, markers = "extra == 'tls'"}}
[package.extras]
tls = ["crypto (>=1)"]
"""
POETRY += "".join(
    f'[[package]]\nname = "{name}"\nversion = "{version}"\npython-versions = "{python}"\n'
    for name, version, python in (
        ("forked", "1.0", "*"), ("forked", "2.0", ">=3.9"), ("crypto", "1.5", "*"),
        ("tester", "1.0", "*"), ("shown", "1.0", "*"),
    )
)  # fmt: skip
POETRY += """[extras]
show = ["shown"]
[metadata]
lock-version = "FORMAT"
python-versions = ">=3.8,<4"
"""


def poetry(version: str) -> str:
    return POETRY.replace("FORMAT", version)


MANIFEST = """[tool.poetry.dependencies]
python = "^3.8"
web = {version = "^2", extras = ["tls"]}
forked = [{version = "<2", python = "<3.12"}, {version = ">=2", python = ">=3.12"}]
shown = {version = "*", optional = true}
[tool.poetry.group.test.dependencies]
tester = "*"
"""


def test_an_earlier_poetry_lock_is_followed_from_its_manifest() -> None:
    lock = read("poetry.lock", poetry("2.0"), MANIFEST)
    assert versions(lock) == {"web": "2.0", "forked": "1.0", "crypto": "1.5"}
    (web,) = [it for it in lock.entries if it.name == "web"]
    assert (web.hashes, web.files[0].filename) == ((HASH,), "web-2.0-py3-none-any.whl")
    windows = read("poetry.lock", poetry("2.0"), MANIFEST, markers=WINDOWS)
    assert windows.packages(WINDOWS)["forked"].version == "2.0"
    more = selected(extras="show", groups="test")
    lock = read("poetry.lock", poetry("1.1"), MANIFEST, more)
    assert versions(lock).keys() == {"web", "forked", "crypto", "tester", "shown"}


def test_without_its_manifest_a_poetry_lock_says_what_is_unknown() -> None:
    lock = read("poetry.lock", poetry("2.0"))
    assert versions(lock)["web"] == "2.0"
    assert any("no pyproject.toml beside it" in it.message for it in lock.warnings)


def test_groups_and_markers_of_a_poetry_lock_count() -> None:
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


PDM = """[metadata]
groups = ["default", "tls", "test"]
strategy = [STRATEGY]
lock_version = "4.5.0"
[[metadata.targets]]
requires_python = ">=3.9"
platform = "manylinux_2_17_x86_64"
[[package]]
name = "web"
version = "2.0"
groups = ["default"]
dependencies = ["forked>=1", "gone; os_name == 'nt'"]
[[package]]
name = "web"
version = "2.0"
extras = ["tls"]
groups = ["tls"]
marker = "python_version < '3.12'"
dependencies = ["web==2.0", "crypto"]
[[package]]
name = "forked"
version = "1.0"
requires_python = ">=3.9"
groups = ["default"]
[[package]]
name = "crypto"
version = "1.5"
groups = ["tls"]
[[package]]
name = "tester"
version = "1.0"
groups = ["test"]
git = "https://git.example/tester"
revision = "1f2e"
"""


def pdm(strategy: str) -> str:
    return PDM.replace("STRATEGY", strategy)


PDM_MANIFEST = """[project]
name = "Me"
dependencies = ["web"]
[project.optional-dependencies]
tls = ["web[tls]"]
most = ["me[tls]"]
[dependency-groups]
base = ["tester"]
test = [{include-group = "base"}]
"""


@pytest.mark.parametrize("strategy", ['"inherit_metadata"', ""])
def test_a_pdm_lock_is_read_with_and_without_metadata(strategy: str) -> None:
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


PIXI = """version: 6
environments:
  default:
    packages:
      linux-64:
      - conda: https://conda.example/noarch/click-8.1.8-pyh_0.conda
      - conda: .
      - pypi: https://files.example/idna-3.7-py3-none-any.whl
  test:
    packages:
      linux-64:
      - pypi: ./lib
packages:
- pypi: https://files.example/idna-3.7-py3-none-any.whl
  name: idna
  version: '3.7'
  sha256: abab
- pypi: ./lib
  name: lib
  version: '1'
  editable: true
"""


def test_of_a_pixi_lock_counts_what_pip_installs() -> None:
    lock = read("pixi.lock", PIXI)
    assert versions(lock) == {"idna": "3.7"}
    assert lock.entries[0].hashes == ("sha256:abab",)
    assert [(it.what, it.code) for it in lock.elsewhere] == [("click", "conda")]
    (warning,) = lock.warnings
    assert warning.message == "lists 1 conda package, which is not covered: click"
    other = read("pixi.lock", PIXI, None, selected(groups="test"))
    assert [(it.name, it.local) for it in other.others] == [("lib", True)]


UV = """version = 1
revision = 3
requires-python = ">=3.10"
conflicts = [[{ package = "a", extra = "one" }, { package = "b", extra = "two" }]]
[manifest]
members = ["a", "b"]
[manifest.dependency-groups]
lint = [{ name = "idna" }]
[[package]]
name = "a"
version = "1"
source = { virtual = "a" }
dependencies = [{ name = "b", extra = ["two"], marker = "os_name == 'nt'" }]
[package.optional-dependencies]
one = [{ name = "six", marker = "extra != 'extra-1-b-two'" }]
[package.dev-dependencies]
dev = [{ name = "toml" }]
[[package]]
name = "b"
version = "1"
source = { editable = "b" }
dependencies = [{ name = "certifi" }]
[package.optional-dependencies]
two = [{ name = "six" }]
""" + "".join(
    f'[[package]]\nname = "{name}"\nversion = "1"\n'
    'source = { registry = "https://index.example/simple" }\n'
    for name in ("six", "toml", "idna", "certifi")
)


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
def test_members_of_a_workspace_are_selected_as_in_uv(
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
def test_what_a_lock_does_not_support_is_refused_with_its_field(
    name: str, text: str, selection: LockSelection, reason: str, field: str
) -> None:
    with pytest.raises(InvalidFile) as caught:
        read(name, text, None, selection)
    assert (caught.value.reason, caught.value.field) == (reason, field)
    assert caught.value.hint
