"""A FUSE file system of one file, spoken directly over /dev/fuse, so that a test can stop its server at any instant.

Programs that wait for it while its process is stopped (SIGSTOP) hang: in a look-up, in a read, or in a page fault inside another
system call, which then keeps the locks that it holds.
"""

import ctypes
import os
import struct

libc = ctypes.CDLL(None, use_errno=True)
MS_NOSUID, MS_NODEV = 2, 4
DIRECTORY, FILE = 1, 2
FILE_SIZE = 1 << 20
LOOKUP, GETATTR, OPEN, READ, STATFS, INIT, OPENDIR, READDIR = 1, 3, 14, 15, 17, 26, 27, 28
RELEASE, RELEASEDIR = 18, 29
WITHOUT_REPLY = {2, 36, 42}  # FORGET, INTERRUPT, BATCH_FORGET
ENOENT, ENOSYS = 2, 38


def mount(path, user, for_all):
    """Mounts as fusermount3 does for a user; root only. Returns the descriptor that `serve` reads."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={user},group_id={user}" + (",allow_other" if for_all else "")
    if libc.mount(b"hostile", os.fsencode(path), b"fuse", MS_NOSUID | MS_NODEV, options.encode()):
        raise OSError(ctypes.get_errno(), "mount", path)
    return device


def attributes(node):
    mode, size = (0o40755, 4096) if node == DIRECTORY else (0o100666, FILE_SIZE)
    return struct.pack("<6Q10I", node, size, 8, 0, 0, 0, 0, 0, 0, mode, 1, os.getuid(), os.getgid(), 0, 4096, 0)


def listing():
    result = b""
    for position, (node, kind, name) in enumerate([(DIRECTORY, 4, b"."), (FILE, 8, b"file")]):
        entry = struct.pack("<QQII", node, position + 1, len(name), kind) + name
        result += entry + b"\0" * (-len(entry) % 8)
    return result


def reply_to(operation, node, body):
    """The bytes of a reply, or an error number."""
    if operation == INIT:
        return struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 16, 12, 65536, 1, 16, 0, 0)
    if operation == LOOKUP:
        # Nothing is kept by the kernel: each use is a request.
        return struct.pack("<QQQQII", FILE, 0, 0, 0, 0, 0) + attributes(FILE) if body == b"file\0" else ENOENT
    if operation == GETATTR:
        return struct.pack("<QII", 0, 0, 0) + attributes(node)
    if operation in (OPEN, OPENDIR):
        return struct.pack("<QII", 0, 0, 0)
    if operation in (RELEASE, RELEASEDIR):
        return b""
    if operation == STATFS:
        return struct.pack("<5QIIII24x", 1, 0, 0, 0, 0, 4096, 255, 4096, 0)
    offset, size = struct.unpack_from("<QI", body, 8) if operation in (READ, READDIR) else (0, 0)
    if operation == READ:
        return bytes(max(0, min(size, FILE_SIZE - offset)))
    if operation == READDIR:
        return listing() if offset == 0 else b""
    return ENOSYS


def serve(device):
    """Replies until the file system is unmounted."""
    while True:
        try:
            request = os.read(device, 1 << 18)
        except OSError as error:
            if error.errno in (ENOENT, 4, 11):
                continue
            return
        _, operation, unique, node = struct.unpack_from("<IIQQ", request)
        if operation in WITHOUT_REPLY:
            continue
        reply = reply_to(operation, node, request[40:])
        error, data = (-reply, b"") if isinstance(reply, int) else (0, reply)
        try:
            os.write(device, struct.pack("<IiQ", 16 + len(data), error, unique) + data)
        except OSError as error:
            # The client has been killed meanwhile.
            if error.errno != ENOENT:
                return
