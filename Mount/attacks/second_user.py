"""The second user, who works in a directory of the view, or of the plain tree, while the hostile one attacks.

Each operation is timed. What was written is read again, and an error is as much a failure as a wait.
"""

import errno
import json
import os
import random
import struct
import time

KINDS = ["stat", "stat absent", "list", "stat listed", "open and read", "create", "write", "rename", "unlink", "mkdir", "rmdir",
         "getcwd", "change beneath shows"]
FILES = 40


def prepare(directory):
    """The files that are there from the beginning. Their content is their name."""
    for number in range(FILES):
        with open(f"{directory}/file{number}.txt", "w") as file:
            file.write(f"file{number}")


class Worker:
    """
    directory: where the work is done.
    beneath: the same directory as it is changed behind the view, or `directory` itself.
    pending: memory that the parent reads: which operation is under way, and since when.
    stop: memory whose first byte ends the work.
    """

    def __init__(self, directory, beneath, shows, pending, stop, seed):
        self.directory, self.beneath, self.shows = directory, beneath, shows
        self.pending, self.stop = pending, stop
        self.random = random.Random(seed)
        self.waits = {kind: [] for kind in KINDS}
        self.failures = {}
        self.number = 0

    def time(self, kind, operation):
        start = time.monotonic()
        self.pending[:16] = struct.pack("<dq", start, KINDS.index(kind))
        try:
            return operation()
        except OSError as error:
            self.fail(f"{kind}: {errno.errorcode.get(error.errno, error.errno)}")
        finally:
            self.waits[kind].append(time.monotonic() - start)
            self.pending[:16] = struct.pack("<dq", 0, 0)

    def fail(self, what):
        # The view ends with the attack.
        if self.stop[0]:
            return
        self.failures[what] = self.failures.get(what, 0) + 1

    def expect(self, what, found, expected):
        if found is not None and found != expected:
            self.fail(f"{what}: {found!r} instead of {expected!r}")

    def read(self, path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return os.read(descriptor, 4096)
        finally:
            os.close(descriptor)

    def write(self, path, content):
        descriptor = os.open(path, os.O_WRONLY)
        try:
            return os.write(descriptor, content)
        finally:
            os.close(descriptor)

    def wait_until_shown(self, name):
        """Ends with the attack at the latest: how long it has taken until then is counted."""
        while not os.path.lexists(f"{self.directory}/{name}") and not self.stop[0]:
            time.sleep(0.0002)

    def round(self):
        self.number += 1
        at = f"{self.directory}/"
        known = f"file{self.random.randrange(FILES)}"
        new, other = f"new{self.number}.bin", f"other{self.number}.bin"
        self.time("stat", lambda: os.stat(at + known + self.shows))
        self.time("stat absent", lambda: os.path.lexists(at + f"absent{self.number % 50}"))
        names = self.time("list", lambda: os.listdir(at)) or []
        if not set(names).issuperset(f"file{number}{self.shows}" for number in range(FILES)):
            self.fail("a file is not listed")
        for name in names:
            self.time("stat listed", lambda: os.stat(at + name))
        self.expect("content", self.time("open and read", lambda: self.read(at + known + self.shows)), known.encode())
        self.time("create", lambda: os.close(os.open(at + new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)))
        content = f"content {self.number}".encode()
        self.expect("written", self.time("write", lambda: self.write(at + new, content)), len(content))
        self.time("rename", lambda: os.rename(at + new, at + other))
        self.expect("content after a rename", self.time("open and read", lambda: self.read(at + other)), content)
        self.time("unlink", lambda: os.unlink(at + other))
        self.time("mkdir", lambda: os.mkdir(at + "made"))
        self.time("rmdir", lambda: os.rmdir(at + "made"))
        self.expect("getcwd", self.time("getcwd", os.getcwd), self.directory)
        if self.number % 5 == 0:
            beneath = f"beneath{self.number}.bin"
            os.path.lexists(at + beneath)
            os.close(os.open(f"{self.beneath}/{beneath}", os.O_WRONLY | os.O_CREAT, 0o600))
            self.time("change beneath shows", lambda: self.wait_until_shown(beneath))
            os.unlink(f"{self.beneath}/{beneath}")

    def run(self, result):
        """Works until `stop` is set, and writes its waits into an open file."""
        os.chdir(self.directory)
        while not self.stop[0]:
            try:
                self.round()
            except OSError as error:
                self.fail(f"{error}")
            time.sleep(0.001)
        with result:
            json.dump({"waits": self.waits, "failures": self.failures}, result)
