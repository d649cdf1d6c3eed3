"""The files in ``locks/`` agree with ``setup.cfg`` and ``constraints.txt``, and have hashes."""

import configparser
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
EXTRAS = dict(re.findall(r"^lock (\w+) (.*) \"\$@\"$", (ROOT / ".ci/lock").read_text(), re.M))
LINE = re.compile(r"(\S+==\S+)( ; [^#]+?)?((?: --hash=sha256:[0-9a-f]{64})+)")


def _pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text("utf-8").splitlines()
    pins = (re.split(r"[ ;]", it)[0].split("==") for it in lines if not it.startswith("#"))
    return {canonicalize_name(package): version for package, version in pins}


def test_each_set_of_extras_has_a_lock() -> None:
    assert EXTRAS.keys() == {it.stem for it in (ROOT / "locks").iterdir()}


@pytest.mark.parametrize("name", EXTRAS)
def test_lock_has_every_requirement_in_its_tested_version_with_hashes(name: str) -> None:
    for line in (ROOT / f"locks/{name}.txt").read_text("utf-8").splitlines():
        assert LINE.fullmatch(line), line[:80]
    pins = _pins(f"locks/{name}.txt")
    assert pins.items() <= _pins("constraints.txt").items()
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    requirements = setup["options"]["install_requires"]
    for extra in re.findall(r"--extra (\w+)", EXTRAS[name]):
        requirements += setup["options.extras_require"][extra]
    for requirement in map(Requirement, requirements.split("\n")[1:]):
        version = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement
