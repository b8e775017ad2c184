"""The inside of the sandbox: a script of its own, which gives up its rights and runs a program from stdin.

`sandbox.py` starts it. The filter is Linux's seccomp, for x86-64, and knows by number what may be asked of
the kernel: compute, allocate, read files, sleep, end. All else fails with EPERM: sockets, processes, signals,
files opened for writing.
"""

from __future__ import annotations

import ctypes
import io
import json
import math
import os
import resource
import struct
import sys

MOST_WRITTEN = 4096  # bytes of the answer's file
MOST_FILES = 64
CPU_SPARE = 1  # seconds from the signal to the kill

# read write close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask
# rt_sigreturn pread64 readv access select sched_yield mremap madvise dup nanosleep getpid exit uname getcwd
# readlink gettimeofday getrusage sysinfo times getuid getgid geteuid getegid sigaltstack gettid time futex
# sched_getaffinity getdents64 restart_syscall clock_gettime clock_getres clock_nanosleep exit_group
# newfstatat readlinkat faccessat pselect6 ppoll set_robust_list getrandom statx rseq faccessat2
ALLOWED = (
    0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 19, 21, 23, 24, 25, 28, 32, 35, 39, 60, 63, 79, 89,
    96, 98, 99, 100, 102, 104, 107, 108, 131, 186, 201, 202, 204, 217, 219, 228, 229, 230, 231, 262, 267, 269,
    270, 271, 273, 318, 332, 334, 439,
)  # fmt: skip
OPENAT = 257
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06  # instructions of the kernel's filter language
NUMBER, ARCHITECTURE, THIRD_ARGUMENT = 0, 4, 32  # where they lie in what a filter sees
X86_64 = 0xC000003E
KILL, REFUSE, ALLOW = 0x80000000, 0x00050001, 0x7FFF0000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


class Program(ctypes.Structure):
    """The kernel's sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def filter_program() -> bytes:
    """Instructions: another architecture is killed, numbers in `ALLOWED` pass, openat for reading passes."""
    code = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, X86_64), (RETURN, 0, 0, KILL), (LOAD, 0, 0, NUMBER)]
    for number in ALLOWED:
        code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    code += [(EQUAL, 0, 4, OPENAT), (LOAD, 0, 0, THIRD_ARGUMENT), (ANY_BIT, 0, 1, WRITING)]
    code += [(RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def give_up_rights(seconds: float, memory: int) -> bool:
    """Limit processor time, memory, files, and what may be asked of the kernel; for good.

    Args:
        seconds: of processor time, rounded up.
        memory: bytes of address space.

    Returns:
        Whether the kernel took the filter.
    """
    most = math.ceil(seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + CPU_SPARE))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN, MOST_WRITTEN))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES, MOST_FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    library = ctypes.CDLL(None, use_errno=True)
    instructions = filter_program()
    program = Program(len(instructions) // 8, instructions)
    refused = library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or library.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0
    )
    return not refused


def main() -> None:
    """Read a request, run its program, write what became of it."""
    request = json.loads(sys.stdin.buffer.read())
    sys.stdin = io.StringIO()
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    kind, detail = "passed", ""
    if not give_up_rights(request["seconds"], request["memory"]):
        kind = "unprotected"
    else:
        try:
            exec(compile(request["program"], "program", "exec"), {"__name__": "__main__"})
        except SystemExit:
            kind = "exited"
        except MemoryError:
            kind = "memory"
        except BaseException as error:
            kind, detail = "failed", f"{type(error).__name__}: {error}"[:200]
    os.write(1, json.dumps([request["token"], kind, detail]).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
