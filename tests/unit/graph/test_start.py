"""What a command that needs the stores does not load at its start."""

from __future__ import annotations

import subprocess
import sys


def test_the_drivers_are_loaded_without_pandas() -> None:
    program = "import graph.engine, neo4j, sys; print('pandas' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
