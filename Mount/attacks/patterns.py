"""What the hostile user does. Each pattern starts processes, and returns what is to be done to them every few milliseconds.

`a` is the attack on one view (see attack.py): `a.hostile` starts a function as the hostile user, `a.place` holds `source` and
`view`, in both of which `hostile` belongs to that user.
"""

import ctypes
import mmap
import os
import random
import signal
import time

import canaries
import page_server

libc = ctypes.CDLL(None, use_errno=True)
GETDENTS64 = {"x86_64": 217, "aarch64": 61}
EXCHANGE = 2


def ignoring(operation, *arguments):
    try:
        return operation(*arguments)
    except OSError:
        return None


def make_files(directory, count):
    os.makedirs(directory, exist_ok=True)
    for number in range(count):
        open(f"{directory}/file{number}.txt", "w").close()


def change_beneath(directory, rnd):
    """Creates, renames and removes files of the backing tree, of which the kernel must be notified."""
    number = 0
    while True:
        number += 1
        path = f"{directory}/beneath{number % 100}"
        open(path + ".txt", "w").close()
        ignoring(os.rename, path + ".txt", path + ".pdf")
        ignoring(os.unlink, path + ".pdf")
        time.sleep(rnd.random() * 0.002)


def work_at_random(directories, rnd, pause=0.0):
    """All kinds of operations on few names, by ways that meet each other."""
    names = ["a", "b.txt", "b", "c.rtfd", "c", "d.jpg", "e"]
    while True:
        path, other = (f"{rnd.choice(directories)}/{rnd.choice(names)}" for _ in range(2))
        operation = rnd.choice([
            lambda: os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o666)), lambda: os.unlink(path), lambda: os.mkdir(path),
            lambda: os.rmdir(path), lambda: os.rename(path, other), lambda: os.link(path, other), lambda: os.symlink("/", path),
            lambda: os.stat(path), lambda: [entry.stat() for entry in os.scandir(os.path.dirname(path))],
            lambda: os.truncate(path, rnd.randrange(10000)), lambda: os.chmod(path, rnd.choice([0o644, 0o4755, 0])),
            lambda: os.setxattr(path, "user.tag", b"x" * rnd.randrange(200)), lambda: os.listxattr(path),
            lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)), lambda: os.utime(path),
            lambda: libc.renameat2(-100, os.fsencode(path), -100, os.fsencode(other), EXCHANGE)])
        ignoring(operation)
        if pause:
            time.sleep(rnd.random() * pause)


# MARK: Locks


def hold_directory(page, directory, state):
    """Lists a directory into memory that a stopped file system has to supply: the kernel holds the directory's lock meanwhile."""
    file = os.open(page, os.O_RDWR)
    memory = mmap.mmap(file, 1 << 16, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    listed = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    state[0] += 1
    while not state[1]:
        time.sleep(0.001)
    libc.syscall(GETDENTS64[os.uname().machine], listed, ctypes.c_void_p(address), 1 << 16)
    time.sleep(1000)


def locks(a):
    """Holds the locks of directories of the view, which the daemon needs in order to notify the kernel of changes there."""
    count = 3
    for number in range(count):
        a.as_hostile(make_files, f"{a.place}/source/hostile/held{number}", 50)
    server = a.file_system(f"{a.place}/page", for_all=False)
    state = mmap.mmap(-1, 4096)
    for number in range(count):
        # One after the other, as `state` is no atomic counter.
        a.hostile(hold_directory, f"{a.place}/page/file", f"{a.place}/view/hostile/held{number}", state)
        a.wait_until(lambda: state[0] > number)
    os.kill(server, signal.SIGSTOP)
    state[1] = 1
    for number in range(count):
        a.hostile(change_beneath, f"{a.place}/source/hostile/held{number}", a.random_generator())
    return lambda: None


# MARK: Descriptors


def hold_descriptors(directory, rnd, limit):
    import resource
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, limit), hard))
    held = []
    while True:
        number = rnd.randrange(400)
        path = f"{directory}/d{number}" + rnd.choice(["", "/file0", "/file0.txt", "/file1"])
        opened = ignoring(os.open, path, os.O_RDONLY)
        if opened is not None:
            held.append(opened)
        else:
            time.sleep(0.002)
            if held and rnd.random() < 0.02:
                os.close(held.pop(rnd.randrange(len(held))))


def descriptors(a):
    """Opens more files and directories than the daemon has descriptors, and keeps them open."""
    directory = f"{a.place}/source/hostile/many"

    def make():
        for number in range(400):
            make_files(f"{directory}/d{number}", 2)
    a.as_hostile(make)
    for _ in range(6):
        a.hostile(hold_descriptors, f"{a.place}/view/hostile/many", a.random_generator(), 1000)
    return lambda: None


# MARK: Packages


def dig(path, depth):
    """A package of nested directories. Returns the innermost one."""
    os.mkdir(path)
    directory = os.open(path, os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=directory)
        inner = os.open("d", os.O_DIRECTORY, dir_fd=directory)
        os.close(directory)
        directory = inner
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=directory))
    return directory


def dig_all(hostile, count, depth):
    for number in range(count):
        os.close(dig(f"{hostile}/deep{number}.rtfd", depth))


def look_at_packages(directory, names, rnd):
    while True:
        path = f"{directory}/{rnd.choice(names)}"
        step = rnd.randrange(4)
        if step == 0:
            ignoring(lambda: [entry.stat() for entry in os.scandir(directory)])
        elif step == 1:
            ignoring(os.stat, path)
        else:
            file = ignoring(os.open, path, os.O_RDONLY)
            if file is not None:
                def read():
                    size = os.fstat(file).st_size
                    os.pread(file, 4096, rnd.choice([0, max(0, size - 2048), rnd.randrange(max(1, size))]))
                ignoring(read)
                os.close(file)


def change_packages(paths, rnd):
    """So that nothing that was found out of a package stays valid."""
    while True:
        path = rnd.choice(paths)
        ignoring(lambda: os.close(os.open(f"{path}/changed", os.O_WRONLY | os.O_CREAT)))
        ignoring(os.unlink, f"{path}/changed")
        time.sleep(rnd.random() * 0.02)


def deep(a):
    """Looks at packages of thousands of nested directories, which are walked to find out their size."""
    count, depth = (3, 1000) if a.is_short else (8, 4000)
    hostile = f"{a.place}/source/hostile"
    a.as_hostile(dig_all, hostile, count, depth)
    for _ in range(10):
        a.hostile(look_at_packages, f"{a.place}/view/hostile", [f"deep{number}" for number in range(count)], a.random_generator())
    a.hostile(change_packages, [f"{hostile}/deep{number}.rtfd" for number in range(count)], a.random_generator())
    return lambda: None


def make_sparse(package, size):
    """Holes that are just too small to be left out of the stream: see SparseMap."""
    os.mkdir(package)
    with open(f"{package}/a-holes", "wb") as file:
        file.truncate(size)
        for position in range(0, size, max(64 << 10, size >> 16) - 4096):
            os.pwrite(file.fileno(), b"x", position)
    with open(f"{package}/b-tail", "w") as file:
        file.write("tail")


def read_behind(path, rnd):
    while True:
        file = ignoring(os.open, path, os.O_RDONLY)
        if file is None:
            time.sleep(0.01)
            continue
        # The header of the last file, which holds the checksum of the one before.
        ignoring(lambda: os.pread(file, 1, max(0, os.fstat(file).st_size - 1600 - rnd.randrange(512))))
        os.close(file)


def sparse(a):
    """Reads one byte behind 40 GB of holes in a package's stream."""
    package = f"{a.place}/source/hostile/holes.rtfd"
    a.as_hostile(make_sparse, package, (1 if a.is_short else 40) << 30)
    for _ in range(12):
        a.hostile(read_behind, f"{a.place}/view/hostile/holes", a.random_generator())
    a.hostile(change_packages, [package], a.random_generator())
    return lambda: None


def work_with_packages(hostile, view, rnd):
    names = ["p", "q", "r", "s"]
    while True:
        name, other = rnd.choice(names), rnd.choice(names)
        step = rnd.randrange(6)
        if step == 0:
            ignoring(os.mkdir, f"{view}/{name}.rtfd")
            for number in range(rnd.randrange(60)):
                ignoring(lambda: os.close(os.open(f"{view}/{name}.rtfd/{number}", os.O_WRONLY | os.O_CREAT)))
        elif step == 1:
            ignoring(os.rename, f"{view}/{name}", f"{view}/{other}")
        elif step == 2:
            ignoring(os.rename, f"{hostile}/{name}.rtfd", f"{hostile}/{other}.rtfd")
        elif step == 3:
            ignoring(os.unlink, f"{view}/{name}")
        elif step == 4:
            # A copy becomes a package when it is closed.
            def copy():
                with open(f"{view}/{name}", "rb") as source, open(f"{view}/copy{os.getpid()}", "wb") as target:
                    target.write(source.read())
            ignoring(copy)
            ignoring(os.unlink, f"{view}/copy{os.getpid()}")
        else:
            ignoring(lambda: [entry.stat() for entry in os.scandir(view)])


def look_at_mounts(view):
    """Root has mounted file systems there: an invalidation that makes the kernel look up again may detach their mount points."""
    while True:
        for name in ("below", "container"):
            ignoring(os.stat, f"{view}/mounts/{name}")
        time.sleep(0.005)


def packages(a):
    """Makes, renames, copies and removes packages, on both sides, and looks at directories that root has mounted on."""
    for _ in range(4):
        a.hostile(work_with_packages, f"{a.place}/source/hostile", f"{a.place}/view/hostile", a.random_generator())
    a.hostile(look_at_mounts, f"{a.place}/view")
    return lambda: None


# MARK: Hung file systems


def wait_below(directory, rnd):
    while True:
        ignoring(os.stat, f"{directory}/unknown{rnd.randrange(1000)}")
        ignoring(lambda: os.listdir(directory))


def change_projection(directory, rnd):
    """Has the daemon look at all entries of a directory again, the hung file system among them."""
    while True:
        with open(f"{directory}/.hidden", "w") as file:
            file.write(f"nothing{rnd.randrange(1000)}\n")
        ignoring(os.listdir, directory)
        time.sleep(0.05)


def lower(a):
    """Waits in a file system below SOURCE that does not reply, with more programs than the daemon has workers."""
    mount_point = f"{a.place}/source/hostile/lower"
    a.as_hostile(os.mkdir, mount_point)
    server = a.file_system(mount_point, for_all=True)
    for _ in range(16):
        a.hostile(wait_below, f"{a.place}/view/hostile/lower", a.random_generator())
    a.hostile(change_beneath, f"{a.place}/source/hostile", a.random_generator())
    a.hostile(change_projection, f"{a.place}/source/hostile", a.random_generator())
    return stop_and_continue(a, lambda: [server], longest=max(3, a.seconds / 3))


def stop_and_continue(a, processes, longest):
    """Stops processes for random times, most of the time."""
    rnd = a.random_generator()
    state = {"until": 0.0, "stopped": []}

    def tick():
        if time.monotonic() < state["until"]:
            return
        if state["stopped"]:
            for process in state["stopped"]:
                ignoring(os.kill, process, signal.SIGCONT)
            state.update(stopped=[], until=time.monotonic() + rnd.random() * 0.2)
        else:
            chosen = [process for process in processes() if rnd.random() < 0.7] or processes()[:1]
            for process in chosen:
                ignoring(os.kill, process, signal.SIGSTOP)
            state.update(stopped=chosen, until=time.monotonic() + rnd.random() * longest)
    return tick


# MARK: Names


def exchange(pairs):
    while True:
        for one, other in pairs:
            libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), EXCHANGE)


def walk_as_root(view, rnd):
    """Follows no symlink itself, one component at a time: what is reached outside, the daemon has followed."""
    name = f"root{os.getpid()}"
    while True:
        opened = []

        def open_below(name, flags):
            directory = opened[-1] if opened else None
            opened.append(os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=directory))

        def work():
            for component in (view, "hostile", "swap"):
                open_below(component, os.O_DIRECTORY)
            open_below(name, os.O_WRONLY | os.O_CREAT)
            os.rename(name, name + "x", src_dir_fd=opened[-2], dst_dir_fd=opened[-2])
            os.unlink(name + "x", dir_fd=opened[-2])
        ignoring(work)
        for descriptor in opened:
            os.close(descriptor)


def names(a):
    """Exchanges directories and symlinks that lead outside while another client, root, looks them up and creates files."""
    hostile, outside = f"{a.place}/source/hostile", f"{a.place}/outside"

    def make():
        for name in ("swap", "inner"):
            os.mkdir(f"{hostile}/{name}", 0o755)
        os.symlink(outside, f"{hostile}/out")
        os.symlink(f"{outside}/target.txt", f"{hostile}/target")
        open(f"{hostile}/file.txt", "w").close()
    a.as_hostile(make)
    view = f"{a.place}/view/hostile"
    a.hostile(exchange, [(f"{hostile}/swap", f"{hostile}/out"), (f"{hostile}/file.txt", f"{hostile}/target")])
    a.hostile(exchange, [(f"{view}/swap", f"{view}/out"), (f"{view}/inner", f"{view}/swap")])
    for _ in range(2):
        a.as_user(0, walk_as_root, f"{a.place}/view", a.random_generator())
    a.hostile(try_rights, a.place, a.token, a.random_generator(), a.findings)
    return lambda: None


def try_rights(place, token, rnd, findings):
    for finding in canaries.attempts(place, token, rnd):
        if finding:
            os.write(findings, (finding + "\n").encode())


def rights(a):
    """Tries all that the backing tree does not allow, by every name."""
    for _ in range(4):
        a.hostile(try_rights, a.place, a.token, a.random_generator(), a.findings)
    return lambda: None


# MARK: Clients that end or stop


def end_clients(directories, rnd):
    while True:
        child = os.fork()
        if child == 0:
            work_at_random(directories, random.Random(rnd.random()))
        time.sleep(rnd.random() * 0.02)
        number = rnd.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGHUP, signal.SIGQUIT])
        os.kill(child, number)
        time.sleep(rnd.random() * 0.002)
        ignoring(os.kill, child, signal.SIGKILL)
        os.waitpid(child, 0)
        rnd.random()


def signals(a):
    """Has clients end by signals in the middle of requests."""
    for _ in range(6):
        a.hostile(end_clients, [f"{a.place}/view/hostile", f"{a.place}/view/common"], a.random_generator())
    return lambda: None


def make_freezer(name_of_group):
    """A control group and how it is frozen: (its directory, the file, frozen, thawed); None where there is none."""
    for base, name, frozen, thawed in [("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"),
                                       ("/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0"),
                                       ("/sys/fs/cgroup", "cgroup.freeze", "1", "0")]:
        group = f"{base}/{name_of_group}"
        if ignoring(os.mkdir, group) is None and os.path.exists(f"{group}/{name}"):
            return group, name, frozen, thawed
        ignoring(os.rmdir, group)
    return None


def stops(a):
    """Stops clients in the middle of requests, by SIGSTOP and by the freezer of control groups."""
    directories = [f"{a.place}/view/hostile", f"{a.place}/view/common"]
    stopped = [a.hostile(work_at_random, directories, a.random_generator(), 0.001) for _ in range(6)]
    frozen = [a.hostile(work_at_random, directories, a.random_generator(), 0.001) for _ in range(6)]
    tick, freezer, rnd = stop_and_continue(a, lambda: stopped, longest=2), make_freezer(os.path.basename(os.path.dirname(a.place))), a.random_generator()
    if freezer is None:
        print("    there is no freezer of control groups here: clients are stopped by signals only", flush=True)
        return stop_and_continue(a, lambda: stopped + frozen, longest=2)
    group, name, freeze, thaw = freezer
    for process in frozen:
        with open(f"{group}/cgroup.procs", "w") as file:
            file.write(str(process))

    def write(word):
        with open(f"{group}/{name}", "w") as file:
            file.write(word)

    def unmount_lazily():
        write(thaw)
        for process in frozen:
            ignoring(os.kill, process, signal.SIGKILL)
        for _ in range(200):
            if ignoring(os.rmdir, group) is None and not os.path.exists(group):
                return
            time.sleep(0.01)
    a.at_end(unmount_lazily)
    state = {"until": 0.0, "word": thaw}

    def both():
        tick()
        if time.monotonic() >= state["until"]:
            state.update(word=freeze if state["word"] == thaw else thaw, until=time.monotonic() + rnd.random() * 0.5)
            ignoring(write, state["word"])
    return both


ALONE = [locks, descriptors, deep, sparse, packages, lower, names, rights, signals, stops]


def everything(a):
    """All patterns at once."""
    ticks = [pattern(a) for pattern in ALONE]

    def all_of_them():
        for tick in ticks:
            tick()
    return all_of_them


PATTERNS = [*ALONE, everything]
