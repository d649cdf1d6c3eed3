"""The sandbox: its filter of system calls, and what a job's end says of it."""

import errno
import struct
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pis.amun.jobs import FinishedJob, JobEnd, failed_to_launch
from pis.amun.sandbox import ABSENT_CALLS, MACHINES, REFUSED_CALLS, end_of_job, filter_of

ENDED = replace(
    failed_to_launch("", datetime(2024, 5, 1, tzinfo=UTC)), exit_code=0, ended=JobEnd.EXITED
)


def ending(exit_code: int, stderr: bytes = b"", stdout: bytes = b"") -> FinishedJob:
    return end_of_job(replace(ENDED, exit_code=exit_code, stderr=stderr, stdout=stdout))


@pytest.mark.parametrize("program", [b"bwrap", b"setpriv", b"prlimit"])
def test_sandbox_failure_is_not_reported_as_a_crash_of_the_script(program: bytes) -> None:
    finished = ending(1, program + b": No permissions to create new namespace\n")
    assert (finished.ended, finished.exit_code) == (JobEnd.LAUNCH_FAILED, 1)


def test_failure_of_a_sandboxed_script_is_reported_as_its_own() -> None:
    assert ending(1, b"Traceback: bwrap: x").ended is JobEnd.EXITED
    assert ending(1, b"bwrap: printed by the script", b"a line").ended is JobEnd.EXITED
    assert ending(0, b"bwrap: a warning").ended is JobEnd.EXITED
    assert (ending(139).ended, ending(139).exit_code) == (JobEnd.SIGNALLED, -11)


_INSTRUCTION = struct.Struct("=HBBI")
ALLOW, KILL = 0x7FFF0000, 0x80000000
CLONE_NEWUSER, CLONE_THREAD, AF_VSOCK = 0x10000000, 0x00010000, 40
machines = pytest.mark.parametrize("machine", sorted(MACHINES))


def verdict(machine: str, number: int, argument: int = 0, audit: int | None = None) -> int:
    """What a filter says of a call (classic BPF, as far as seccomp(2) has it)."""
    data = struct.pack("=IIQQ", number, audit or MACHINES[machine].audit, 0, argument)
    program = list(_INSTRUCTION.iter_unpack(filter_of(machine)))
    place, loaded = 0, 0
    while True:
        operation, if_true, if_false, operand = program[place]
        place += 1
        if operation == 0x06:
            return int(operand)
        if operation == 0x20:
            (loaded,) = struct.unpack_from("=I", data, operand)
        else:
            holds = {
                0x15: loaded == operand,
                0x35: loaded >= operand,
                0x45: bool(loaded & operand),
            }[operation]
            place += if_true if holds else if_false


def refused(error: int) -> int:
    return 0x00050000 | error


@machines
def test_sandbox_refuses_system_calls_that_could_leave_it(machine: str) -> None:
    known = MACHINES[machine]
    special = {known.clone, known.socket}
    for calls, error in ((REFUSED_CALLS, errno.EPERM), (ABSENT_CALLS, errno.ENOSYS)):
        for numbers in calls.values():
            assert verdict(machine, numbers[known.column]) == refused(error)
            special.add(numbers[known.column])
    for number in set(range(460)) - special:
        assert verdict(machine, number) == ALLOW


@machines
def test_sandbox_allows_threads_and_processes_but_no_namespaces(machine: str) -> None:
    clone = MACHINES[machine].clone
    assert verdict(machine, clone, CLONE_THREAD | 17) == ALLOW
    assert verdict(machine, clone, CLONE_NEWUSER | 17) == refused(errno.EPERM)


@machines
def test_sandbox_allows_only_socket_families_confined_by_its_namespace(machine: str) -> None:
    number = MACHINES[machine].socket
    assert [verdict(machine, number, family) for family in (1, 2, 10, 16)] == [ALLOW] * 4
    for family in (0, 3, 17, 38, AF_VSOCK, 45):
        assert verdict(machine, number, family) == refused(errno.EAFNOSUPPORT)


@machines
def test_sandbox_kills_processes_that_use_another_system_call_architecture(machine: str) -> None:
    assert verdict(machine, 0, audit=0x40000003) == KILL


def test_sandbox_reports_x32_system_calls_as_missing() -> None:
    assert verdict("x86_64", 0x40000000 | 41, 2) == refused(errno.ENOSYS)


@machines
def test_seccomp_filter_fits_the_kernel_limit(machine: str) -> None:
    length = len(filter_of(machine)) // _INSTRUCTION.size
    assert length < 4096
    assert len(filter_of(machine)) == length * 8
