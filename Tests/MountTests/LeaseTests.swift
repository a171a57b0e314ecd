import Glibc
import SystemPackage
import Testing

/// Leases that a program has on a file of the backing tree, as Samba with kernel oplocks. (fcntl(2), F_SETLEASE)
@Suite(.mounting) struct LeaseTests {
  private let view: MountedView
  private let holder: StartedProgram

  /// A file `leased.txt` with a lease, which its holder releases once it was signalled and a file `go` is there.
  init() throws {
    view = try MountedView { root in try put("content", at: "\(root)/leased.txt") }
    holder = PythonProgram(
      """
      import fcntl, signal
      file = os.open("leased.txt", os.O_RDWR)
      def release(*_):
        open("signalled", "w").close()
        while not os.path.exists("go"): time.sleep(0.01)
        with open("order", "a") as order: order.write("released ")
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
      signal.signal(signal.SIGIO, release)
      fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
      open("held", "w").close()
      while True: time.sleep(1)
      """, in: view.source
    ).start()
    let view = view
    try waitUntil { isThere(view.real("held")) }
  }

  private func end() {
    for process in children(of: holder.id) { kill(process, SIGKILL) }
    holder.wait()
  }

  private static let calls = [
    "os.open('leased', os.O_RDONLY)", "os.open('leased', os.O_RDWR | os.O_TRUNC)", "os.truncate('leased', 3)",
  ]

  /// Starts a program that makes a call through the view.
  private func start(_ call: String) -> StartedProgram {
    PythonProgram(
      """
      \(call)
      with open("\(view.real("order"))", "a") as order: order.write("opened ")
      """, in: view.mountPoint
    ).start()
  }

  @Test(arguments: calls) func useOfLeasedFile_waitsForReleaseOfLease(call: String) throws {
    defer { end() }
    let client = start(call)
    try waitUntil { isThere(view.real("signalled")) }
    // Other requests are served meanwhile.
    #expect(failure { open(view.at("leased"), O_RDONLY | O_NONBLOCK) } == .wouldBlock)
    try put("", at: view.real("go"))
    #expect(client.wait() == 0)
    #expect(text(view.real("order")) == "released opened ")
  }

  @Test(arguments: calls) func clientWaitingForLease_whenKilled_ends(call: String) throws {
    defer { end() }
    let client = start(call)
    try waitUntil { isThere(view.real("signalled")) }
    // What was started is timeout(1), which ends with the client.
    let clients = children(of: client.id)
    #expect(!clients.isEmpty)
    for process in clients { kill(process, SIGKILL) }
    // Sooner than the kernel breaks the lease.
    try waitUntil { client.hasEnded }
  }
}
