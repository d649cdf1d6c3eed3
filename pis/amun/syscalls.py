"""What a confined job may not ask of the kernel, as a seccomp filter.

Namespaces, mounts and limits do most of the confining. The filter closes what they leave
open: new user namespaces (a job with one could mount memory without bound), memory that
no process maps and nobody counts, and families of sockets that no namespace holds.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from dataclasses import dataclass

#: ``struct sock_filter``: operation, jump if true, jump if false, operand (linux/filter.h).
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

#: Offsets in ``struct seccomp_data``; the arguments' low words, on a little-endian machine.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16

_KILL, _REFUSE, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000  # linux/seccomp.h

#: All ``CLONE_NEW…`` flags that ``clone`` takes (linux/sched.h).
_NEW_NAMESPACES = 0x7E020000

#: Unix, IPv4, IPv6 and netlink: those that a network namespace holds. Not vsock, for one,
#: which leads from a virtual machine to its host.
_FAMILIES = (1, 2, 10, 16)

#: x86-64 numbers the calls of its 32-bit pointers from here on.
_X32 = 0x40000000


@dataclass(frozen=True, slots=True)
class _Machine:
    """Numbers of system calls; the kernel's tables, ``asm/unistd.h``.

    :param refused: fails with ``EPERM``
    :param absent: fails with ``ENOSYS``, so that libraries take their other way
    """

    audit: int
    clone: int
    socket: int
    refused: dict[str, int]
    absent: dict[str, int]


MACHINES = {
    "x86_64": _Machine(
        audit=0xC000003E,
        clone=56,
        socket=41,
        refused={
            "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155,
            "ptrace": 101, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
            "add_key": 248, "request_key": 249, "keyctl": 250, "syslog": 103,
        },
        absent={
            "clone3": 435, "memfd_create": 319, "memfd_secret": 447, "shmget": 29,
            "msgget": 68, "io_uring_setup": 425,
        },
    ),
    "aarch64": _Machine(
        audit=0xC00000B7,
        clone=220,
        socket=198,
        refused={
            "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41,
            "ptrace": 117, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
            "add_key": 217, "request_key": 218, "keyctl": 219, "syslog": 116,
        },
        absent={
            "clone3": 435, "memfd_create": 279, "memfd_secret": 447, "shmget": 194,
            "msgget": 186, "io_uring_setup": 425,
        },
    ),
}  # fmt: skip


def filter_of(machine: str) -> bytes:
    """The filter for ``machine`` (``platform.machine()``), as bubblewrap's ``--seccomp`` reads it.

    :raises KeyError: if the numbers of the machine's system calls are not known here
    """
    return b"".join(_program(MACHINES[machine]))


def _program(machine: _Machine) -> Iterator[bytes]:
    yield _instruction(_LOAD, _ARCHITECTURE)
    yield _instruction(_EQUAL, machine.audit, 1, 0)
    yield _instruction(_RETURN, _KILL)
    yield _instruction(_LOAD, _NUMBER)
    if machine is MACHINES["x86_64"]:
        yield _instruction(_AT_LEAST, _X32, 0, 1)
        yield _instruction(_RETURN, _REFUSE | errno.ENOSYS)
    for numbers, error in ((machine.refused, errno.EPERM), (machine.absent, errno.ENOSYS)):
        for number in numbers.values():
            yield _instruction(_EQUAL, number, 0, 1)
            yield _instruction(_RETURN, _REFUSE | error)
    yield from _clone(machine.clone)
    yield from _socket(machine.socket)
    yield _instruction(_RETURN, _ALLOW)


def _clone(number: int) -> Iterator[bytes]:
    """Threads and processes, but no namespaces; leaves the number loaded unless it answers."""
    yield _instruction(_EQUAL, number, 0, 4)
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    yield _instruction(_ANY_BIT, _NEW_NAMESPACES, 0, 1)
    yield _instruction(_RETURN, _REFUSE | errno.EPERM)
    yield _instruction(_RETURN, _ALLOW)


def _socket(number: int) -> Iterator[bytes]:
    families = len(_FAMILIES)
    yield _instruction(_EQUAL, number, 0, families + 2)
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    for place, family in enumerate(_FAMILIES):
        yield _instruction(_EQUAL, family, families - place, 0)
    yield _instruction(_RETURN, _REFUSE | errno.EAFNOSUPPORT)


def _instruction(operation: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return _INSTRUCTION.pack(operation, if_true, if_false, operand)
