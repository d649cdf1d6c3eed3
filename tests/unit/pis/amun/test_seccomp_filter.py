"""The filter of system calls, read as the kernel reads it, for every machine that it is for."""

from __future__ import annotations

import errno
import struct

import pytest

from pis.amun.sandbox import MACHINES, filter_of

_INSTRUCTION = struct.Struct("=HBBI")
ALLOW, KILL = 0x7FFF0000, 0x80000000
CLONE_NEWUSER, CLONE_THREAD, AF_VSOCK = 0x10000000, 0x00010000, 40
machines = pytest.mark.parametrize("machine", sorted(MACHINES))


def verdict(machine: str, number: int, argument: int = 0, audit: int | None = None) -> int:
    """What a filter says of a call (classic BPF, as far as seccomp(2) has it)."""
    data = struct.pack(
        "=IIQQ", number, MACHINES[machine].audit if audit is None else audit, 0, argument
    )
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
def test_calls_that_lead_out_are_refused_and_others_allowed(machine: str) -> None:
    known = MACHINES[machine]
    for number in known.refused:
        assert verdict(machine, number) == refused(errno.EPERM)
    for number in known.absent:
        assert verdict(machine, number) == refused(errno.ENOSYS)
    special = {*known.refused, *known.absent, known.clone, known.socket}
    for number in set(range(460)) - special:
        assert verdict(machine, number) == ALLOW


@machines
def test_threads_and_processes_are_allowed_namespaces_are_not(machine: str) -> None:
    clone = MACHINES[machine].clone
    assert verdict(machine, clone, CLONE_THREAD | 17) == ALLOW
    assert verdict(machine, clone, CLONE_NEWUSER | 17) == refused(errno.EPERM)


@machines
def test_only_sockets_that_a_namespace_holds_are_allowed(machine: str) -> None:
    number = MACHINES[machine].socket
    assert [verdict(machine, number, family) for family in (1, 2, 10, 16)] == [ALLOW] * 4
    for family in (0, 3, 17, 38, AF_VSOCK, 45):
        assert verdict(machine, number, family) == refused(errno.EAFNOSUPPORT)


@machines
def test_calls_in_the_words_of_another_machine_end_the_process(machine: str) -> None:
    assert verdict(machine, 0, audit=0x40000003) == KILL


def test_calls_with_pointers_of_32_bits_are_not_there() -> None:
    assert verdict("x86_64", 0x40000000 | 41, 2) == refused(errno.ENOSYS)


@machines
def test_the_kernel_would_take_it(machine: str) -> None:
    length = len(filter_of(machine)) // _INSTRUCTION.size
    assert length < 4096
    assert len(filter_of(machine)) == length * 8
