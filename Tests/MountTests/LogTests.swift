import Glibc
import Testing

/// What the daemon logs, and that nothing waits for the log.
@Suite(.mounting) struct LogTests {
  /// The system log is a socket that no process reads. Its queue is soon full.
  @Test(.asRoot) func fullSystemLog_delaysNeitherRequestsNorSignals() throws {
    try expectDone(Self.filling)
  }

  /// A name is the choice of any user, and syslog(3) takes a format. A scalar that joins the percent sign, before it or after it,
  /// makes another character of both.
  @Test(.asRoot, arguments: ["%d", "\u{600}%d%d%d%d", "%\u{34f}d%\u{600}%d%%"])
  func nameWithPercentSign_isLoggedAsItIs(name: String) throws {
    try expectDone(Self.naming, with: ["NAME": name])
  }

  /// Runs a program where the system log is a socket of its own: in a mount namespace. - Parameter program: prints `done`.
  private func expectDone(_ program: String, with variables: [String: String] = [:]) throws {
    let place = try TemporaryDirectory()
    for name in ["dev", "view", "source"] { makeDirectory(place.path(name)) }
    try put(String(repeating: "x", count: 100_000), at: place.path("source/Album.rtfd/part"))
    let devices = """
      mount -t tmpfs none '\(place.path("dev"))' && cd '\(place.path("dev"))'
      for device in null zero urandom fuse; do touch $device && mount --bind /dev/$device $device; done
      mount --rbind . /dev && exec python3 '\(place.path("program.py"))'
      """
    try put(Self.preparing + program, at: place.path("program.py"))
    let outcome = Shell.run(
      ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-ec", devices],
      with: variables.merging(["PLACE": place.root, "DISPLAYFS": Displayfs.path]) { $1 })
    #expect(outcome.text == "done", "\(outcome.text) \(outcome.complaint)")
  }

  private static let preparing = #"""
    import os, signal, socket, subprocess, sys, time

    place, program = os.environ["PLACE"], os.environ["DISPLAYFS"]
    source, view = f"{place}/source", f"{place}/view"
    log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    log.bind("/dev/log")
    subprocess.run([program, "mount", "-o", "language=en", source, view], check=True)
    # The guardian has one thread.
    processes = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    daemon = max(processes, key=lambda process: len(os.listdir(f"/proc/{process}/task")))

    def within(seconds, what, body):
        child = os.fork()
        if child == 0:
            body()
            os._exit(0)
        end = time.monotonic() + seconds
        while not os.waitpid(child, os.WNOHANG)[0]:
            if time.monotonic() > end:
                print(what, "has not ended after", seconds, "seconds")
                sys.exit(1)
            time.sleep(0.01)

    """#

  private static let filling = #"""
    # Statistics, many lines each time.
    def fill():
        for _ in range(100):
            os.kill(daemon, signal.SIGUSR1)
            time.sleep(0.002)

    def read_changed_package():
        file = os.open(f"{view}/Album", os.O_RDONLY)
        os.pread(file, 512, 0)
        with open(f"{source}/Album.rtfd/part", "w") as part: part.write("changed")
        # A worker logs that the package changed.
        try: os.pread(file, 65536, 4096)
        except OSError: return
        print("what changed was read")

    fill()
    within(5, "a read that logs", read_changed_package)
    # Statistics are messages that were not lost: the signals were fetched.
    fill()
    log.settimeout(5)
    while b"were dropped here" not in log.recv(65536): pass
    fill()
    os.kill(daemon, signal.SIGTERM)
    def end():
        # This is the first process of its namespace, and does not wait for those that it inherits.
        while open(f"/proc/{daemon}/stat").read().rsplit(") ")[1][0] != "Z": time.sleep(0.01)
    within(5, "the daemon", end)
    print("done")
    """#

  private static let naming = #"""
    # What an application says of itself is logged by its name where it is malformed.
    name = os.environ["NAME"] + ".app"
    os.makedirs(f"{source}/{name}/Contents")
    with open(f"{source}/{name}/Contents/Info.plist", "w") as file: file.write("no list")
    within(60, "a listing", lambda: os.listdir(view))
    log.settimeout(60)
    message = b""
    while b"malformed" not in message: message = log.recv(65536)
    if f" {name}: its Info.plist".encode() not in message: print("logged as", message)
    os.kill(daemon, signal.SIGTERM)
    print("done")
    """#
}
