"""Scripts that want too much or do not end, each stopped for real."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pis.amun.jobs import JobEnd
from pis.amun.processes import GIBIBYTE
from tests.requirements import needs
from tests.services.confined import LIMITS, refusals, run

pytestmark = [needs("bwrap"), pytest.mark.faults]


def test_fork_bomb_is_ended_by_the_process_limit(tmp_path: Path, marker: str) -> None:
    finished = run(
        """
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
        tmp_path,
        marker,
    )
    assert finished.ended is JobEnd.PROCESS_LIMIT
    subprocess.run(["true"], check=True)  # noqa: S607


def test_allocation_of_ten_gigabytes_at_once_fails_in_the_sandbox(tmp_path: Path) -> None:
    finished = run("bytearray(10 * 10**9)", tmp_path)
    assert finished.ended is JobEnd.MEMORY_LIMIT or b"MemoryError" in finished.stderr
    assert finished.usage["ru_maxrss"] * 1024 < 3 * GIBIBYTE


def test_slow_memory_growth_ends_the_job(tmp_path: Path, marker: str) -> None:
    finished = run("held = [bytearray(2**22) for _ in range(2500)]", tmp_path, marker)
    assert finished.ended is JobEnd.MEMORY_LIMIT
    assert finished.usage["ru_maxrss"] * 1024 < 3 * GIBIBYTE


def test_memory_of_all_children_counts_towards_the_limit(tmp_path: Path, marker: str) -> None:
    finished = run(
        """
for _ in range(5):
    if not os.fork():
        break
held = b"x" * (80 * 2**20)
import time; time.sleep(60)
""",
        tmp_path,
        marker,
    )
    assert finished.ended is JobEnd.MEMORY_LIMIT


def test_shared_memory_counts_once_towards_the_limit(tmp_path: Path) -> None:
    finished = run(
        """
held = b"x" * (100 * 2**20)
for _ in range(5):
    if not os.fork():
        break
import time; time.sleep(1)
""",
        tmp_path,
    )
    assert (finished.ended, finished.exit_code) == (JobEnd.EXITED, 0)


def test_file_size_and_total_disk_use_are_limited(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path).f_bavail
    answers = refusals(
        run(
            """
import errno
def fill(name, count):
    written = 0
    try:
        for number in range(count):
            with open(f"{name}{number}", "wb", 0) as file:
                for _ in range(64):
                    written += file.write(b"x" * 2**20)
    except OSError as error:
        print(name, errno.errorcode[error.errno], written <= 64 * 2**20)
os.chdir("/tmp")
fill("large", 1)
def small():
    for number in range(100_000):
        with open(f"small{number}", "wb", 0) as file:
            file.write(b"x" * 4096)
attempt("small", small)
os.chdir("/dev/shm")
attempt("shared", lambda: [open(f"{it}", "wb", 0).write(b"x" * 2**20) for it in range(99)][98])
print("sum", sum(os.statvfs(it).f_blocks * os.statvfs(it).f_frsize for it in ("/tmp", "/dev/shm")))
""",
            tmp_path,
        )
    )
    assert answers == {
        "large": "EFBIG True",
        "small": "OSError",
        "shared": "OSError",
        "sum": str(LIMITS.disk_bytes),
    }
    assert free - os.statvfs(tmp_path).f_bavail < GIBIBYTE // os.statvfs(tmp_path).f_frsize


def test_no_process_of_a_sandboxed_job_survives_the_job(tmp_path: Path, marker: str) -> None:
    finished = run(
        """
started, starting = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        for number in range(3):
            os.close(number)
        words = ["-c", "import time; time.sleep(600)", sys.argv[1]]
        os.execv(sys.executable, [sys.executable, *words])
    os._exit(0)
os.close(starting)
os.read(started, 1)  # ends when the grandchild runs its own program, which closes the pipe
print("parent ends")
""",
        tmp_path,
        marker,
    )
    assert (finished.ended, finished.stdout) == (JobEnd.EXITED, b"parent ends\n")


def test_job_that_creates_too_many_folders_is_ended(tmp_path: Path) -> None:
    finished = run(
        """
os.chdir("/tmp")
for number in range(3_000_000):
    os.mkdir(str(number))
""",
        tmp_path,
    )
    assert finished.ended is JobEnd.FILE_LIMIT


def test_resource_usage_of_a_job_excludes_the_sandbox(tmp_path: Path) -> None:
    finished = run(
        """
import time
held = bytearray(b"x") * (600 * 2**20)
def spend():
    while time.process_time() < 1.0:
        pass
if not os.fork():
    spend()
    os._exit(0)
os.wait()
spend()
time.sleep(0.3)
""",
        tmp_path,
        limits=replace(LIMITS, memory_bytes=2 * GIBIBYTE),
    )
    assert finished.ended is JobEnd.EXITED, finished.stderr
    assert finished.usage["ru_utime"] + finished.usage["ru_stime"] > 1.8
    assert 600 * 1024 < finished.usage["ru_maxrss"] < 1000 * 1024
