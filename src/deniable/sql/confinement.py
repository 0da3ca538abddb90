"""Confines the process that runs an analyst's SQL: no files, no network, no other processes,
limited memory and time.

It imports nothing from this package, because it is loaded in a bare interpreter
(`worker.py`). Each protection that the platform has is enabled for good; one that it lacks is
reported as absent, and nothing is claimed for it.

* rlimits (POSIX): no new descriptor, no byte written to a file, no child, no core dump, limited
  address space and processor time;
* Landlock (Linux 5.13): no file or folder can be opened; from 6.7 no TCP, from 6.12 no signal or
  abstract socket leaves;
* seccomp (Linux, x86-64 and arm64): every system call fails except those that read and write open
  pipes, allocate memory and read the time.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import Any

if sys.platform != "win32":
    import resource

__all__ = ["WALLS", "confine"]

WALLS = ("rlimits", "address space", "landlock", "seccomp")
"""The names of the walls."""

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _SECCOMP_FILTER = 38, 22, 2  # prctl(2)
# the same numbers on all architectures
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT, _LANDLOCK_VERSION = 444, 446, 1
# landlock(7): what each version of the interface added. All of it is handled and nothing allowed,
# so all of it is denied.
_LANDLOCK_FILES = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
_LANDLOCK_NETWORK, _LANDLOCK_SCOPES = 4, 6

# Numbers of the calls that remain, from the kernel's tables; each row is one call on x86-64 and on
# arm64. fmt: off
_CALLS = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "setitimer": (38, 103),
    "gettimeofday": (96, 169),
    "clock_gettime": (228, 113),
    "getpid": (39, 172),
    "getrusage": (98, 165),
    "getrandom": (318, 278),
    "sched_yield": (24, 124),
    "futex": (202, 98),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
# fmt: on
# place in _CALLS; audit number
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint16),
        ("true", ctypes.c_uint8),
        ("false", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("first", ctypes.POINTER(_Instruction))]


def confine(memory: int, seconds: int) -> dict[str, bool]:
    """Bind this process to `memory` bytes on top of its address space and `seconds` of processor
    time. Returns which protections are in force."""
    # The address space is measured from a file, and Landlock goes through a descriptor: in this
    # order.
    space = _limit_address_space(memory)
    landlock = _landlock()
    return dict(zip(WALLS, (_limit(seconds), space, landlock, _seccomp()), strict=True))


def _limit(seconds: int) -> bool:
    if sys.platform == "win32":
        return False
    bounds = {"CPU": seconds, "FSIZE": 0, "CORE": 0, "NOFILE": 3, "NPROC": 0}
    for name, bound in bounds.items():
        what = getattr(resource, f"RLIMIT_{name}", None)  # not every system has all of them
        if what is not None:
            resource.setrlimit(what, (bound, bound))
    return True


def _limit_address_space(memory: int) -> bool:
    if sys.platform != "linux":  # macOS accepts the limit but does not enforce it
        return False
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - pathlib takes longer to import than all else here
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    return True


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    libc.syscall.restype = ctypes.c_long
    # without it only root may enable the two protections below
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    return libc


def _landlock() -> bool:
    if sys.platform != "linux":
        return False
    libc = _libc()
    version = libc.syscall(
        ctypes.c_long(_LANDLOCK_CREATE),
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint32(_LANDLOCK_VERSION),
    )
    if version < 1:
        return False
    rules = [sum(bits for since, bits in _LANDLOCK_FILES if version >= since)]
    rules += [3] * (version >= _LANDLOCK_NETWORK) + [3] * (version >= _LANDLOCK_SCOPES)
    ruleset = (ctypes.c_uint64 * len(rules))(*rules)
    size = ctypes.c_size_t(ctypes.sizeof(ruleset))
    descriptor = libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), ruleset, size, ctypes.c_uint32(0))
    if descriptor < 0:
        return False
    held = libc.syscall(
        ctypes.c_long(_LANDLOCK_RESTRICT), ctypes.c_int(descriptor), ctypes.c_uint32(0)
    )
    libc.close(ctypes.c_int(descriptor))
    return bool(held == 0)


def _seccomp() -> bool:
    if sys.platform != "linux" or os.uname().machine not in _ARCHITECTURES or sys.maxsize < 1 << 32:
        return False
    place, architecture = _ARCHITECTURES[os.uname().machine]
    numbers = [row[place] for row in _CALLS.values()]
    fail = _FAIL | errno.EPERM
    program = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, fail),
        (_LOAD, 0, 0, 0),
    ]
    program += [(_EQUAL, len(numbers) - i, 0, number) for i, number in enumerate(numbers)]
    program += [(_RETURN, 0, 0, fail), (_RETURN, 0, 0, _ALLOW)]
    instructions = (_Instruction * len(program))(*(_Instruction(*each) for each in program))
    whole = _Program(len(program), instructions)
    return bool(_libc().prctl(_SET_SECCOMP, _SECCOMP_FILTER, ctypes.addressof(whole), 0, 0) == 0)
