"""The walls hold without the rights of root too."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.requirements import needs
from tests.services.confined import ROOT

pytestmark = needs("bwrap")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="the whole pack runs as an ordinary user already")
def test_sandbox_confines_scripts_of_an_ordinary_user() -> None:
    python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if not Path(python).exists():
        pytest.skip(f"{python}, which every user could run, is not installed")
    user = 61_234
    own = Path("/tmp") / f"confinement-{uuid.uuid4()}"
    own.mkdir(mode=0o700)
    os.chown(own, user, user)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    words = [f"--reuid={user}", f"--regid={user}", "--clear-groups", "--", python]
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(own / "pytest")]
    options += [f"--ignore={__file__}", str(Path(__file__).parent)]
    try:
        done = subprocess.run(
            ["setpriv", *words, "-m", "pytest", *options],  # noqa: S607
            cwd=ROOT,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(own),
                "TMPDIR": str(own),
                "PYTHONPATH": f"{ROOT}:{packages}",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        subprocess.run(["rm", "-rf", str(own)], check=True)  # noqa: S607
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout[-2000:]
