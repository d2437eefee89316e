# SPDX-License-Identifier: MIT
"""inject.py - makes a thread of another process call the kernel: what a fault would let an attacker do there.

The thread is stopped in a system call (ptrace(2)), its registers say another one, and it executes the same instruction again.
Afterwards the process is of no use and should be killed.
"""
import ctypes
import os
import platform
import signal
import struct

ATTACH, PEEKDATA, POKEDATA, GETREGS, SETREGS, SINGLESTEP, CONT = 16, 2, 5, 12, 13, 9, 7
REGISTERS = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base "
             "ds es fs gs").split()
ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
SYSCALL = b"\x0f\x05"
RED_ZONE = 4096  # bytes below the stack that are left alone
WALL = 0x40000000
MAY = platform.machine() == "x86_64" and os.geteuid() == 0

# Numbers of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
CALLS = {"read": 0, "open": 2, "mmap": 9, "mprotect": 10, "ioctl": 16, "getpid": 39, "socket": 41, "connect": 42,
         "sendto": 44, "shutdown": 48, "bind": 49, "clone": 56, "execve": 59, "kill": 62, "fcntl": 72, "truncate": 76,
         "rename": 82, "mkdir": 83, "unlink": 87, "chmod": 90, "chown": 92, "ptrace": 101, "setuid": 105, "setpriority": 141,
         "prctl": 157, "chroot": 161, "mount": 165, "init_module": 175, "tgkill": 234, "openat": 257, "linkat": 265,
         "unshare": 272, "prlimit64": 302, "setns": 308, "process_vm_readv": 310, "memfd_create": 319, "bpf": 321, "io_uring_setup": 425,
         "clone3": 435, "pidfd_getfd": 438, "mount_setattr": 442}

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.restype = ctypes.c_long
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in REGISTERS]


class Victim:
    """A thread of the server that makes the calls that a test asks for."""

    def __init__(self, tid):
        self.tid = tid
        self.trace(ATTACH)
        self.stopped()
        self.registers = Registers()
        self.trace(GETREGS, 0, ctypes.addressof(self.registers))
        self.at = self.registers.rip - len(SYSCALL)
        with open(f"/proc/{tid}/mem", "rb") as memory:
            memory.seek(self.at)
            assert memory.read(len(SYSCALL)) == SYSCALL, "it does not wait in a system call"

    def trace(self, request, address=0, data=0):
        ctypes.set_errno(0)
        result = LIBC.ptrace(request, self.tid, address, data)
        if result == -1 and ctypes.get_errno():
            raise OSError(ctypes.get_errno(), f"ptrace {request}")
        return result

    def stopped(self):
        """The signal that it was stopped by; None, and self.ended, if it has ended instead."""
        _, status = os.waitpid(self.tid, WALL)
        if os.WIFSTOPPED(status):
            return os.WSTOPSIG(status)
        self.ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return None

    def call(self, name, *args):
        """The call's result, negative: -errno; None: the process was ended."""
        new = Registers.from_buffer_copy(self.registers)
        top = (self.registers.rsp - RED_ZONE) & ~15
        with open(f"/proc/{self.tid}/mem", "r+b", buffering=0) as memory:
            for register, value in zip(ARGUMENTS, args):
                if isinstance(value, bytes):
                    top -= len(value) + 16 & ~15
                    memory.seek(top)
                    memory.write(value)
                    value = top
                setattr(new, register, value & 0xffffffffffffffff)
        new.rip, new.rax, new.orig_rax = self.at, CALLS[name], 0xffffffffffffffff
        self.trace(SETREGS, 0, ctypes.addressof(new))
        for _ in range(10):
            self.trace(SINGLESTEP)
            reason = self.stopped()
            if reason is None:
                return None
            if reason == signal.SIGTRAP:
                break
        self.trace(GETREGS, 0, ctypes.addressof(new))
        return struct.unpack("<q", struct.pack("<Q", new.rax))[0]
