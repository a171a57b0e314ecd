"""What the hostile user must not read, change or remove, and what shows that it did."""

import ctypes
import os
import subprocess

ADM = 4
SYMLINK_TARGET = "outside"


class Canaries:
    """
    place: the directory of one pattern, with `source`, `view`, `bind` (a bind mount of the view) and `outside`.
    """

    def __init__(self, place, second, token):
        self.place, self.second, self.token = place, second, token
        self.kept = {}
        self.keeper = None

    # MARK: Before

    def make(self):
        source, second = f"{self.place}/source", self.second
        for name, mode, owner in [
            ("shared", 0o1777, 0), ("common", 0o777, 0), ("mounts", 0o755, 0), ("mounts/below", 0o755, 0),
            ("mounts/container", 0o755, 0), ("root-closed", 0o700, 0), ("second/closed", 0o700, second),
            ("shared/Root.rtfd", 0o755, 0), ("shared/Group.rtfd", 0o755, 0),
            ("common/Pool.rtfd", 0o1777, 0), ("common/Nested.rtfd", 0o777, 0), ("common/Nested.rtfd/sticky", 0o1777, 0),
        ]:
            self.directory(f"{source}/{name}", mode, owner)
        self.directory(f"{self.place}/outside", 0o711, 0)
        # Not to be read.
        self.file(f"{source}/root-secret.txt", 0o600, 0)
        self.file(f"{source}/root-closed/secret.txt", 0o644, 0)
        self.file(f"{source}/second/private.txt", 0o600, second)
        self.file(f"{source}/second/closed/secret.txt", 0o644, second)
        self.file(f"{source}/shared/Root.rtfd/part.txt", 0o640, 0)
        self.file(f"{source}/shared/Group.rtfd/part.txt", 0o640, 0, ADM)
        self.file(f"{self.place}/outside/target.txt", 0o600, 0)
        # Not to be changed or removed.
        self.file(f"{source}/shared/second-note.txt", 0o644, second, is_secret=False)
        self.file(f"{source}/shared/trusted.txt", 0o644, 0, is_secret=False)
        os.setxattr(f"{source}/shared/trusted.txt", "trusted.canary", b"x")
        # These may be moved with the package that they are in, but not removed.
        self.movable = {}
        for path in ["common/Pool.rtfd/second-pool.txt", "common/Nested.rtfd/sticky/second-nested.txt"]:
            self.movable[os.path.basename(path)] = self.file(f"{source}/{path}", 0o600, second)
            del self.kept[f"{source}/{path}"]

    def directory(self, path, mode, owner):
        os.makedirs(path, exist_ok=True)
        os.chown(path, owner, owner)
        os.chmod(path, mode)

    def file(self, path, mode, owner, group=None, is_secret=True):
        content = f"{self.token if is_secret else 'note'} of {os.path.basename(path)}"
        with open(path, "w") as file:
            file.write(content)
        os.chown(path, owner, owner if group is None else group)
        os.chmod(path, mode)
        self.kept[path] = (content, mode, owner)
        return content

    def mount(self):
        """A file system of root below a bind mount of the view, and one in another mount namespace."""
        view, bind = f"{self.place}/view", f"{self.place}/bind"
        script = 'mount -t tmpfs root-canary "$1" && echo kept >"$1/kept"'
        subprocess.run(["mount", "--bind", view, bind], check=True)
        subprocess.run(["sh", "-ec", script, "sh", f"{bind}/mounts/below"], check=True)
        self.keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script + "; echo ready; exec sleep 100000", "sh",
             f"{view}/mounts/container"], stdout=subprocess.PIPE)
        if not self.keeper.stdout.readline():
            raise RuntimeError("nothing can be mounted in another namespace")

    # MARK: During and after

    def lost_mounts(self):
        for path, process in [("bind/mounts/below", "self"), ("view/mounts/container", self.keeper.pid)]:
            with open(f"/proc/{process}/mountinfo", errors="surrogateescape") as mounts:
                if not any(line.split()[4] == f"{self.place}/{path}" for line in mounts):
                    yield f"root's mount at {path} was taken away"

    def violations(self):
        """What is not as it was, on the backing file system."""
        for path, (content, mode, owner) in self.kept.items():
            name = os.path.relpath(path, self.place)
            try:
                status = os.lstat(path)
                with open(path) as file:
                    found = file.read()
            except OSError as error:
                yield f"{name} is gone: {error.strerror}"
                continue
            if found != content:
                yield f"{name} was changed: {found[:60]!r}"
            if (status.st_mode & 0o7777, status.st_uid) != (mode, owner):
                yield f"{name} has mode {status.st_mode & 0o7777:o} and owner {status.st_uid}"
        for name, content in self.movable.items():
            found = subprocess.run(["find", f"{self.place}/source", "-xdev", "-name", name], capture_output=True, text=True)
            paths = found.stdout.splitlines()
            if not any(open(path).read() == content for path in paths):
                yield f"{name}, the second user's only copy in another's package, is gone"
        if os.listdir(f"{self.place}/outside") != ["target.txt"]:
            yield f"outside SOURCE there is {os.listdir(f'{self.place}/outside')}"

    def release(self):
        if self.keeper:
            self.keeper.kill()
            self.keeper.wait()


# MARK: What the hostile user tries


def attempts(place, token, random):
    """Endlessly: a description of each right that was exceeded, or None. Runs as the hostile user."""
    view, own = f"{place}/view", f"{place}/view/hostile"
    secrets = ["root-secret", "root-secret.txt", "root-closed/secret.txt", "root-closed/secret", "second/private",
               "second/private.txt", "second/closed/secret.txt", "shared/Root", "shared/Root.rtfd/part.txt", "shared/Group",
               "shared/Group.rtfd/part.txt", "common/Pool", "common/Pool.rtfd/second-pool.txt", "common/Nested",
               "common/Nested.rtfd/sticky/second-nested.txt", "hostile/out/target.txt", "hostile/swap/target.txt"]
    foreign = ["root-secret", "second/private", "second/file1", "shared/second-note", "shared/second-note.txt",
               "shared/trusted", "shared/Root.rtfd/part.txt", "common/Pool.rtfd/second-pool.txt"]
    packages = ["common/Pool", "common/Nested", "shared/Root", "shared/Group"]
    libc = ctypes.CDLL(None, use_errno=True)

    def read(path):
        descriptor = os.open(f"{view}/{path}", os.O_RDONLY | os.O_NONBLOCK)
        try:
            position = random.choice([0, 0, 512, 1024, random.randrange(8192)])
            return token.encode() in os.pread(descriptor, 65536, position)
        finally:
            os.close(descriptor)

    def replace(path):
        mine = f"{own}/mine{os.getpid()}"
        with open(mine, "w") as file:
            file.write("replaced")
        os.rename(mine, f"{view}/{path}")

    def exchange(path):
        mine = f"{own}/mine{os.getpid()}"
        open(mine, "w").close()
        return libc.renameat2(-100, os.fsencode(mine), -100, os.fsencode(f"{view}/{path}"), 2) == 0

    def link_and_write(path):
        link = f"{own}/link{os.getpid()}"
        os.link(f"{view}/{path}", link)
        try:
            os.close(os.open(link, os.O_WRONLY))
        finally:
            os.unlink(link)

    changes = {
        "opened for writing": lambda path: os.close(os.open(f"{view}/{path}", os.O_WRONLY)),
        "cut": lambda path: os.truncate(f"{view}/{path}", 0),
        "removed": lambda path: os.unlink(f"{view}/{path}"),
        "moved away": lambda path: os.rename(f"{view}/{path}", f"{own}/stolen{os.getpid()}"),
        "replaced": replace,
        "exchanged": exchange,
        "made writable": lambda path: os.chmod(f"{view}/{path}", 0o777),
        "taken": lambda path: os.chown(f"{view}/{path}", os.getuid(), os.getgid()),
        "marked": lambda path: os.setxattr(f"{view}/{path}", "user.canary", b"x"),
        "given another time": lambda path: os.utime(f"{view}/{path}", (1, 1)),
        "linked and written": link_and_write,
    }
    while True:
        path = "?"
        try:
            step = random.randrange(20)
            if step < 8:
                path = random.choice(secrets)
                yield f"{path} was read" if read(path) else None
            elif step < 16:
                path, how = random.choice(foreign), random.choice(list(changes))
                yield None if changes[how](path) is False else f"{path} was {how}"
            elif step < 18:
                path = random.choice(packages)
                os.unlink(f"{view}/{path}")
                yield f"{path}, of which not every part may be removed, was removed"
            elif step == 18:
                path = "shared/trusted"
                names = [name for name in os.listxattr(f"{view}/{path}") if name.startswith("trusted.")]
                yield f"{path} shows the attributes {names} to an ordinary user" if names else None
            elif random.randrange(20) == 0:
                path = "displayfs set"
                outcome = subprocess.run([f"{os.path.dirname(place)}/bin/displayfs", "set", view, "extensions=show"],
                                         capture_output=True)
                yield "an option of root's mount was set" if outcome.returncode == 0 else None
        except OSError:
            yield None
