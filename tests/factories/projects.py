"""Files of projects: a Pipfile with the hashes that pipenv gives it, and locks."""

import json
from typing import Any

LINUX = {"os_name": "posix", "sys_platform": "linux", "python_version": "3.11"}
WINDOWS = {"os_name": "nt", "sys_platform": "win32", "python_version": "3.11"}


PYLOCK = f"""
lock-version = "1.0"
created-by = "a test"
requires-python = ">=3.11"
[[packages]]
name = "numpy"
version = "2.2.6"
marker = "os_name == 'posix'"
index = "https://me:hidden@h.example/simple"
dependencies = [{{name = "pad"}}]
[[packages.wheels]]
name = "numpy-2.2.6-py3-none-any.whl"
url = "https://f.example/n.whl"
hashes = {{sha256 = "{"a" * 64}"}}
[packages.sdist]
name = "numpy-2.2.6.tar.gz"
url = "https://f.example/n.tar.gz"
hashes = {{sha256 = "{"b" * 64}"}}
[[packages]]
name = "numpy"
version = "2.0"
marker = "os_name == 'nt'"
wheels = [{{name = "numpy-2.0-py3-none-any.whl", path = "n.whl", hashes = {{sha256 = "a1"}}}}]
[[packages]]
name = "tool"
version = "1"
marker = "'dev' in dependency_groups"
wheels = [{{name = "tool-1-py3-none-any.whl", path = "n.whl", hashes = {{sha256 = "a1"}}}}]
"""


def pipfile_lock(**sections: Any) -> bytes:
    """A Pipfile.lock with these sections."""
    source = {"name": "main", "url": "https://me:hidden@h.example/simple", "verify_ssl": True}
    meta = {"hash": {"sha256": "ab"}, "pipfile-spec": 6, "requires": {"python_version": "3.11"},
            "sources": [source]}  # fmt: skip
    return json.dumps({"_meta": meta, "default": {}, "develop": {}} | sections).encode()


#: Its two hashes were made by pipenv 2026.10.3, and by the plette 2.4.0 of older versions.
WHOLE = """
[[source]]
name = "main"
url = "https://index.example/simple"
verify_ssl = true

[packages]
Flask = ">=3"
my_pkg = {version = "==1.0", extras = ["b", "a"], markers = "os_name == 'posix'"}
left-pad = "*"

[dev-packages]
pytest = {version = "*", index = "main"}

[docs]
Sphinx_Theme = "*"

[requires]
python_version = "3.11"

[scripts]
go = "python x.py"
[pipenv]
allow_prereleases = true
"""
BY_PIPENV = "ca2235084753753ee8935fa5f81d492ee6fc175415cbcd9c99e7f8045b4f6951"


BY_OLDER = "4f5d63de0b15c8711368018264426f27af748ef4459ff0fdde64cff8afcc8a22"
