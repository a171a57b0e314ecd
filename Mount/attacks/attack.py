"""See Mount/attack, which runs this as the first process of its own namespaces."""

import argparse
import json
import mmap
import os
import random
import resource
import secrets
import signal
import subprocess
import sys
import time
import traceback

import canaries
import page_server
import patterns
import second_user

HOSTILE, SECOND = 61101, 61102
# Where the second user works at the same time: the directory, where that is changed beneath, and what the names there end with.
# `calm` is a view of another daemon, and is not attacked: its waits are what the machine's load costs a FUSE file system.
SIDES = {
    "view": ("view/second", "source/second", ""),
    "calm": ("calm/second", "calm-source/second", ""),
    "plain": ("plain/second", "plain/second", ".txt"),
}
MNT_DETACH = 2
SHORT_SECONDS = 2
# In seconds.
END_BOUND, KILL_BOUND = 5, 20


def parse(arguments):
    names = [pattern.__name__ for pattern in patterns.PATTERNS]
    parser = argparse.ArgumentParser(
        prog="Mount/attack", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="patterns:\n" + "\n".join(f"  {p.__name__:12} {p.__doc__}" for p in patterns.PATTERNS))
    parser.add_argument("seconds", nargs="?", type=int, default=180, help="for all patterns together, 180 unless given")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="repeats the choices of a run")
    parser.add_argument("--pattern", choices=names, metavar="NAME", help="one pattern alone")
    parser.add_argument("--bar", type=float, default=100, metavar="MILLISECONDS",
                        help="how much longer than in the plain directory the second user may wait, 100 unless given")
    parser.add_argument("--short", action="store_true", help=f"{SHORT_SECONDS} seconds for each pattern")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


class Attack:
    """One pattern against one view."""

    def __init__(self, work, pattern, seconds, seed, is_short):
        self.pattern, self.seconds, self.is_short = pattern, seconds, is_short
        self.place = f"{work}/{pattern.__name__}"
        self.program = f"{work}/bin/displayfs"
        self.token = f"SECRET-{secrets.token_hex(8)}"
        self.random = random.Random(f"{seed} {pattern.__name__}")
        self.hostiles, self.endings, self.mounted = [], [], []
        self.daemon = self.calm_daemon = None

    # MARK: For patterns

    def random_generator(self):
        return random.Random(self.random.random())

    def as_user(self, user, function, *arguments):
        """Starts a function in a process of a user."""
        child = os.fork()
        if child:
            self.hostiles.append(child)
            return child
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.become(user)
        try:
            function(*arguments)
        except BaseException:
            traceback.print_exc()
        os._exit(0)

    def hostile(self, function, *arguments):
        return self.as_user(HOSTILE, function, *arguments)

    def as_hostile(self, function, *arguments):
        """Runs a function as the hostile user, and waits for it. It prepares the backing tree: nothing here may wait for the view."""
        child = self.hostile(function, *arguments)
        self.hostiles.remove(child)
        os.waitpid(child, 0)

    @staticmethod
    def become(user):
        os.setsid()
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)

    def file_system(self, path, for_all):
        """Mounts a file system that a process of the hostile user serves. Returns the process."""
        device = page_server.mount(path, HOSTILE, for_all)
        self.mounted.append(path)
        server = self.hostile(page_server.serve, device)
        os.close(device)
        return server

    def wait_until(self, condition, seconds=10):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError("the attack could not be prepared")
            time.sleep(0.002)

    def at_end(self, function):
        self.endings.append(function)

    # MARK: A run

    def run(self):
        """Returns (what the second user waited on each of the sides, what was exceeded)."""
        self.prepare()
        exceeded = []
        self.stop = mmap.mmap(-1, 4096)
        try:
            self.mount()
            self.guard.mount()
            workers = [self.start_second(side) for side in SIDES]
            tick = self.pattern(self)
            end = time.monotonic() + self.seconds
            while time.monotonic() < end:
                tick()
                time.sleep(0.01)
            exceeded += self.guard.lost_mounts()
            self.stop[0] = 1
            # An operation that the attack keeps from ending is counted until the attack ends.
            self.wait_for(workers, 2)
            exceeded += self.end_daemon()
        finally:
            self.release()
        self.stop[0] = 2
        self.wait_for(workers, KILL_BOUND)
        results = {side: self.result(side) for side in SIDES}
        exceeded += self.guard.violations()
        exceeded += sorted(set(os.pread(self.findings, 1 << 20, 0).decode().splitlines()))
        return results, exceeded

    def prepare(self):
        for name in ["", "source", "view", "bind", "page", "plain", "calm", "source/hostile",
                     *(beneath for _, beneath, _ in SIDES.values())]:
            os.makedirs(f"{self.place}/{name}", exist_ok=True)
            user = {"hostile": HOSTILE, "second": SECOND, "page": HOSTILE}.get(os.path.basename(name), 0)
            os.chown(f"{self.place}/{name}", user, user)
        self.findings = os.open(f"{self.place}/findings", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self.guard = canaries.Canaries(self.place, SECOND, self.token)
        self.guard.make()
        for _, beneath, _ in SIDES.values():
            child = os.fork()
            if child == 0:
                self.become(SECOND)
                second_user.prepare(f"{self.place}/{beneath}")
                os._exit(0)
            os.waitpid(child, 0)

    def mount(self):
        """A daemon of root in many groups. The pattern that uses descriptors up gets one with few of them."""
        limit = 1024 if self.pattern.__name__ == "descriptors" else min(20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])

        def become_daemon():
            os.setgroups([0, canaries.ADM, 42])
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        self.log = open(f"{self.place}/log", "w")
        environment = {**os.environ, "DISPLAYFS_CONFIG": "none"}

        def start(source, view):
            return subprocess.Popen(
                [self.program, "mount", "-f", "-o", "allow_other,language=en", f"{self.place}/{source}", f"{self.place}/{view}"],
                stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=environment, preexec_fn=become_daemon)
        self.daemon, self.calm_daemon = start("source", "view"), start("calm-source", "calm")
        self.wait_until(lambda: os.path.lexists(f"{self.place}/view/root-secret.txt") and os.path.ismount(f"{self.place}/view"))
        self.wait_until(lambda: os.path.ismount(f"{self.place}/calm"))

    def start_second(self, side):
        directory, beneath, shows = SIDES[side]
        pending = mmap.mmap(-1, 4096)
        result = os.open(f"{self.place}/{side}.json", os.O_WRONLY | os.O_CREAT, 0o600)
        child = os.fork()
        if child == 0:
            try:
                self.become(SECOND)
                worker = second_user.Worker(
                    f"{self.place}/{directory}", f"{self.place}/{beneath}", shows, pending, self.stop, 1)
                worker.run(os.fdopen(result, "w"))
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        os.close(result)
        return child

    @staticmethod
    def wait_for(processes, seconds):
        end = time.monotonic() + seconds
        while processes and time.monotonic() < end:
            for process in list(processes):
                if os.waitpid(process, os.WNOHANG)[0]:
                    processes.remove(process)
            time.sleep(0.01)

    def end_daemon(self):
        """One SIGTERM unmounts the view and ends the daemon, also under attack. A thread that waits uninterruptibly for a lock which
        the hostile user holds (FUSE_NOTIFY_INVAL_ENTRY), or for a request that the hostile user's stopped file system has begun to
        serve, keeps the process in the table, though it serves nothing any more."""
        self.daemon.send_signal(signal.SIGTERM)
        try:
            self.daemon.wait(END_BOUND)
        except subprocess.TimeoutExpired:
            if self.is_mounted():
                yield f"the view is still mounted {END_BOUND} s after SIGTERM"
            if not self.waits_in_kernel():
                yield f"the daemon has not ended {END_BOUND} s after SIGTERM"

    def is_mounted(self):
        with open("/proc/self/mounts") as mounts:
            return any(line.split()[1:3] == [f"{self.place}/view", "fuse.displayfs"] for line in mounts)

    def waits_in_kernel(self):
        """Whether a thread of the daemon waits uninterruptibly for a directory's lock, or for a file system that is stopped."""
        tasks = f"/proc/{self.daemon.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/wchan") as place:
                if place.read() in ("fuse_reverse_inval_entry", "request_wait_answer"):
                    return True
        return False

    def release(self):
        """Ends everything, in an order in which nothing waits for what has been ended."""
        for process in self.hostiles:
            patterns.ignoring(os.kill, process, signal.SIGCONT)
        for ending in self.endings:
            ending()
        for process in self.hostiles:
            # With the processes that it has started: each hostile process began a session.
            patterns.ignoring(os.killpg, process, signal.SIGKILL)
            patterns.ignoring(os.kill, process, signal.SIGKILL)
        self.guard.release()
        for daemon in filter(None, (self.daemon, self.calm_daemon)):
            daemon.kill()
            daemon.wait()
        self.wait_for(self.hostiles, KILL_BOUND)
        for path in [*self.mounted, f"{self.place}/bind", f"{self.place}/view", f"{self.place}/calm"]:
            while subprocess.run(["umount", "-l", path], stderr=subprocess.DEVNULL).returncode == 0:
                pass

    def result(self, side):
        try:
            with open(f"{self.place}/{side}.json") as file:
                return json.load(file)
        except ValueError:
            return {"waits": {kind: [] for kind in second_user.KINDS}, "failures": {"the second user's work did not end": 1}}


# MARK: Report


def of(waits, share):
    ordered = sorted(waits)
    return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def report(results, bar):
    """Prints a table. Returns what exceeds the bar."""
    view, calm, plain = (results[side] for side in SIDES)
    load = max((of(waits, 1) for waits in plain["waits"].values() if waits), default=0)
    exceeded = []
    print("| second user, ms | operations | view: median | 99 % | worst | view not attacked: worst | plain: median | 99 % | worst |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for kind in second_user.KINDS:
        figures = [of(side["waits"][kind], share) for side in (view, plain) for share in (0.5, 0.99, 1)]
        worst = figures[2]
        mark = "**" if worst - load >= bar else ""
        if mark:
            exceeded.append(f"{kind} waited {worst:.0f} ms, {worst - load:.0f} ms longer than anything in the plain directory")
        cells = [f"{figure:.2f}" for figure in figures]
        cells[2] = f"{mark}{cells[2]}{mark} | {of(calm['waits'][kind], 1):.2f}"
        print(f"| {kind} | {len(view['waits'][kind])} | " + " | ".join(cells) + " |")
    for side, result in (("view", view), ("view that is not attacked", calm), ("plain directory", plain)):
        for what, count in sorted(result["failures"].items()):
            exceeded.append(f"in the {side} the second user met, {count} times: {what}")
    return exceeded


def leave_other_mounts():
    """This namespace's copies of other FUSE mounts would keep those alive when they are unmounted outside."""
    with open("/proc/self/mountinfo", "rb") as mounts:
        lines = [line.split() for line in mounts]
    for fields in lines:
        if fields[fields.index(b"-") + 1].startswith(b"fuse"):
            # Bytes, with \040 for a blank. umount(8) would look at the mount, which may have stopped.
            path = fields[4].decode("unicode_escape").encode("latin-1")
            page_server.libc.umount2(path, MNT_DETACH)


def main():
    options = parse(sys.argv[1:])
    if options.check:
        return 0
    leave_other_mounts()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen = [pattern for pattern in patterns.PATTERNS if options.pattern in (None, pattern.__name__)]
    seconds = SHORT_SECONDS if options.short else max(1, options.seconds / len(chosen))
    print(f"seed {options.seed}, {seconds:.0f} s for each of {len(chosen)} patterns, {os.cpu_count()} processors", flush=True)
    faults = []
    for pattern in chosen:
        print(f"\n==> {pattern.__name__}: {pattern.__doc__}", flush=True)
        attack = Attack(options.work, pattern, seconds, options.seed, options.short)
        results, exceeded = attack.run()
        exceeded = report(results, options.bar) + exceeded
        for line in exceeded:
            print(f"    EXCEEDED: {line}")
        sys.stdout.flush()
        faults += exceeded
    print(f"\n{len(faults)} faults" if faults else "\nno right was exceeded, and no wait was beyond the bar")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
