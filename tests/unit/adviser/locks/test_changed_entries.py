"""A changed ``Pipfile.lock`` or ``pylock.toml`` keeps entries and markers of other environments."""

import json
import tomllib

from packaging.pylock import Pylock

from adviser.locks.changed_entries import with_changed_entries
from adviser.locks.formats import LockFormat
from model.packages.identity import VersionChange

CHANGES = (
    VersionChange("a-b", "1.0", "2.0"),
    VersionChange("gone", "1", None),
    VersionChange("added", None, "3"),
)


def test_changed_pipfile_lock_keeps_markers_and_other_packages() -> None:
    other = {"hashes": ["sha256:12"], "markers": "sys_platform == 'win32'", "version": "==0.4"}
    old = {
        "_meta": {"hash": {"sha256": "12"}, "sources": [{"name": "pypi", "url": "u"}]},
        "default": {
            "A_b": {"hashes": ["sha256:12"], "markers": "python_version >= '3.9'",
                    "version": "==1.0", "extras": ["x"]},
            "gone": {"version": "==1"},
            "colorama": other,
        },
        "develop": {"a-b": {"version": "==0.9"}},
    }  # fmt: skip
    new = {
        "_meta": {"hash": {"sha256": "34"}, "sources": [{"name": "pypi"}, {"name": "own"}]},
        "default": {"a-b": {"hashes": ["sha256:56"], "index": "pypi", "version": "==2.0"}},
        "develop": {"added": {"hashes": ["sha256:78"], "version": "==3"}},
    }
    data = with_changed_entries(
        LockFormat.PIPFILE_LOCK, json.dumps(old).encode(), json.dumps(new).encode(), CHANGES
    )
    assert json.loads(data) == {
        "_meta": {
            "hash": {"sha256": "12"},
            "sources": [{"name": "pypi", "url": "u"}, {"name": "own"}],
        },
        "default": {
            "A_b": {"hashes": ["sha256:56"], "markers": "python_version >= '3.9'",
                    "version": "==2.0", "extras": ["x"], "index": "pypi"},
            "colorama": other,
        },
        "develop": {**old["develop"], **new["develop"]},
    }  # fmt: skip


def _pylock(*packages: tuple[str, str, str]) -> bytes:
    text = '# made by a tool\nlock-version = "1.0"\ncreated-by = "it"\n'
    for name, version, more in packages:
        file = f"{name.replace('-', '_')}-{version}.tar.gz"
        text += (
            f'[[packages]]\nname = "{name}"\nversion = "{version}"\n{more}\n'
            f'sdist = {{ name = "{file}", url = "https://f.example/{file}",'
            ' hashes = { sha256 = "12" } }\n'
        )
    return text.encode()


def test_changed_pylock_keeps_markers_and_other_packages() -> None:
    needs = '{ name = "a-b", version = "1.0" }, { name = "gone", version = "1" }'
    old = _pylock(
        ("a-b", "1.0", "marker = \"python_version >= '3.9'\""),
        ("a-b", "0.9", "marker = \"python_version < '3.9'\""),
        ("colorama", "0.4",
         f"marker = \"sys_platform == 'win32'\"\ndependencies = [{needs}]"),
        ("gone", "1", ""),
    )  # fmt: skip
    new = _pylock(("a-b", "2.0", ""), ("added", "3", ""))
    new = b"environments = [\"sys_platform == 'linux'\"]\n" + new
    data = with_changed_entries(LockFormat.PYLOCK, old, new, CHANGES)
    lock = Pylock.from_dict(tomllib.loads(data.decode()))
    assert data.startswith(b"# made by a tool\n")
    assert lock.environments is None
    assert [(it.name, str(it.version), it.marker and str(it.marker)) for it in lock.packages] == [
        ("a-b", "2.0", 'python_version >= "3.9"'),
        ("a-b", "0.9", 'python_version < "3.9"'),
        ("colorama", "0.4", 'sys_platform == "win32"'),
        ("added", "3", None),
    ]
    assert lock.packages[2].dependencies == [{"name": "a-b", "version": "2.0"}]
