import CLinux
import Glibc
import SystemPackage
import Testing

/// A mount as a service: its reports to the service manager, the effect of signals, and the log.
@Suite(.mounting) struct ServiceTests {
  private let place: MountedView
  private let scratch: TemporaryDirectory

  init() throws {
    place = try MountedView { root in try put("x", at: "\(root)/notes.txt") }
    place.unmount()
    scratch = try TemporaryDirectory()
  }

  /// Starts a mount in the foreground, with its messages in `log`, and waits until it serves requests. `exec` makes the daemon
  /// the started process. A shell has background jobs ignore SIGINT, which `env` resets.
  private func start(_ environment: String = "") throws -> StartedProgram {
    let daemon = Shell.start(
      "exec env --default-signal=INT \(environment) '\(Displayfs.path)' mount -f -o language=en "
        + "'\(place.source)' '\(place.mountPoint)' 2>'\(scratch.path("log"))'")
    try waitUntil { isThere(place.at("notes")) }
    return daemon
  }

  /// Sends a signal to the daemon itself, not to what it was started by.
  private func send(_ signal: CInt) throws {
    let daemon = try #require(place.daemon)
    kill(daemon, signal)
  }

  private var log: String { text(scratch.path("log")) ?? "" }

  @Test(arguments: ["path", "abstract"]) func serviceManager_isNotifiedOfReadyReloadAndStop(_ kind: String)
    throws
  {
    let name = kind == "path" ? scratch.path("notify") : "@\(scratch.path("notify"))"
    let manager = try NotificationSocket(name)
    let daemon = Shell.start(
      "NOTIFY_SOCKET='\(name)' exec '\(Displayfs.path)' mount -f -o language=en '\(place.source)' '\(place.mountPoint)'"
    )
    let ready = try #require(manager.next())
    #expect(ready.contains("READY=1"))
    #expect(ready.contains { $0.hasPrefix("MAINPID=") })
    #expect(ready.contains { $0.hasPrefix("STATUS=Shows \(place.source) at ") }, "\(ready)")
    #expect(isThere(place.at("notes")), "the mount answers by then")
    try send(SIGHUP)
    let reloading = try #require(manager.next())
    #expect(reloading.first == "RELOADING=1")
    #expect(reloading.last?.hasPrefix("MONOTONIC_USEC=") == true, "\(reloading)")
    #expect(manager.next() == ["READY=1"])
    try send(SIGTERM)
    #expect(try #require(manager.next()).contains("STOPPING=1"))
    #expect(daemon.wait() == 0)
    #expect(!Displayfs.isMounted(place.mountPoint))
  }

  @Test(arguments: [SIGINT, SIGTERM]) func terminationSignal_whileFileIsOpen_unmounts(_ signal: CInt) throws {
    let daemon = try start()
    let file = try OpenFile(place.at("notes"))
    try send(signal)
    #expect(daemon.wait() == 0)
    #expect(!Displayfs.isMounted(place.mountPoint))
    withExtendedLifetime(file) {}
  }

  /// A manager unmounts and then sends a signal, or the other way round: either may come first.
  @Test func unmountAndSignalAtOnce_endCleanly() throws {
    for round in 0..<6 {
      let daemon = try start()
      let process = try #require(place.daemon)
      if round % 2 == 0 { kill(process, SIGTERM) }
      _ = Displayfs.run(["unmount", "--if-mounted", place.mountPoint])
      if round % 2 == 1 { kill(process, SIGTERM) }
      let status = daemon.wait()
      #expect(status == 0, "round \(round): \(log)")
      #expect(!Displayfs.isMounted(place.mountPoint))
    }
  }

  @Test func repeatedSignal_abandonsHangingRequests() throws {
    // A view of a view, of which the inner one has stopped: requests to the outer one wait for it.
    let inner = try MountedView { root in try put("x", at: "\(root)/Sub/notes.txt") }
    let stopped = try #require(inner.daemon)
    let daemon = Shell.start(
      "exec '\(Displayfs.path)' mount -f -o language=en '\(inner.mountPoint)' '\(place.mountPoint)' "
        + "2>'\(scratch.path("log"))'")
    try waitUntil { isThere(place.at("Sub/notes")) }
    #expect(kill(stopped, SIGSTOP) == 0)
    defer { kill(stopped, SIGCONT) }
    let reader = Shell.start("exec ls '\(place.at("Sub/other"))'")
    // The reader waits. The terminating daemon waits for the reader's request, unless that arrived too late.
    usleep(300_000)
    try send(SIGTERM)
    try waitUntil {
      guard let daemon = place.daemon else { return true }
      kill(daemon, SIGTERM)
      return false
    }
    #expect(!Displayfs.isMounted(place.mountPoint))
    kill(stopped, SIGCONT)
    #expect(daemon.wait() == 0, "\(log)")
    reader.wait()
  }

  @Test func userSignals_logStatisticsAndChangeLogLevel() throws {
    let daemon = try start()
    try send(SIGUSR1)
    try waitUntil { log.contains("known files") }
    try send(SIGUSR2)
    try waitUntil { log.contains("messages of level debug and above") }
    try send(SIGTERM)
    #expect(daemon.wait() == 0)
  }

  @Test func journalMessages_havePriorities() throws {
    try put("", at: scratch.path("log"))
    let stream = try #require(status(scratch.path("log")))
    let daemon = try start("JOURNAL_STREAM=\(stream.st_dev):\(stream.st_ino)")
    try send(SIGUSR2)
    try waitUntil { log.contains("<7>messages of level debug") }
    try send(SIGTERM)
    #expect(daemon.wait() == 0)
  }

  @Test(
    .enabled(if: Shell.run(["which", "systemd-analyze"]).status == 0, "There is no systemd-analyze here."))
  func serviceFile_isValidUnit() throws {
    let unit = try #require(text("\(repository)/Mount/displayfs@.service.in"))
    let prefix = scratch.path("prefix")
    makeDirectory("\(prefix)/bin")
    try #require(symlink(Displayfs.path, "\(prefix)/bin/displayfs") == 0)
    let filled = unit.split(separator: "@prefix@", omittingEmptySubsequences: false).joined(separator: prefix)
    try put(filled, at: scratch.path("displayfs@.service"))
    let verified = Shell.run(
      ["systemd-analyze", "verify", "--man=no", scratch.path("displayfs@.service")],
      with: ["HOME": scratch.root])
    #expect(verified.status == 0, "\(verified.complaint)")
    #expect(!verified.errorText.contains("displayfs@"), "\(verified.complaint)")
  }

  private static let generator = "/lib/systemd/system-generators/systemd-fstab-generator"

  /// The lines of the manual, as systemd reads them at boot.
  @Test(
    .enabled(if: access(generator, X_OK) == 0, "There is no systemd here."),
    .enabled(if: Shell.run(["which", "systemd-analyze"]).status == 0, "There is no systemd-analyze here."))
  func fstabLinesOfManual_makeValidUnits() throws {
    let manual = try #require(text("\(repository)/man/mount.displayfs.8"))
    let lines = manual.split(separator: "\n").filter { $0.hasPrefix("/") && $0.hasSuffix(" 0 0") }
    #expect(lines.count == 2)
    for line in lines {
      let table = try TemporaryDirectory()
      try put("\(line)\n", at: table.path("fstab"))
      let made = Shell.run(
        [Self.generator, table.root, table.root, table.root], with: ["SYSTEMD_FSTAB": table.path("fstab")])
      #expect(made.status == 0, "\(made.complaint)")
      let unit = try #require(text(table.path("srv-mac.mount")), "\(line)")
      #expect(unit.contains("Type=displayfs\n") && unit.contains("What=/media/mac\n"), "\(unit)")
      #expect(isThere(table.path("srv-mac.automount")) == line.contains("x-systemd.automount"))
      let verified = Shell.run(["systemd-analyze", "verify", "--man=no", table.path("srv-mac.mount")])
      #expect(verified.status == 0, "\(verified.complaint)")
    }
  }

  @Test func unmountIfMounted_ofPathWithoutMount_succeeds() {
    #expect(Displayfs.run(["unmount", "--if-mounted", place.mountPoint]).status == 0)
    #expect(Displayfs.run(["unmount", place.mountPoint]).status == 32)
  }

  /// At boot nothing is in the environment.
  @Test func mount_withEmptyEnvironment_succeeds() throws {
    let outcome = Shell.run([
      "env", "-i", Displayfs.path, "mount", "-o", "extensions=show", place.source, place.mountPoint,
    ])
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(place.listing() == ["notes.txt"])
  }
}

/// The service manager's end of sd_notify.
private final class NotificationSocket {
  private let descriptor: CInt

  init(_ name: String) throws {
    descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(name.utf8)
    withUnsafeMutableBytes(of: &address.sun_path) { path in
      path.copyBytes(from: bytes)
      if path[0] == UInt8(ascii: "@") { path[0] = 0 }
    }
    let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
    }
    try #require(bound == 0)
  }

  deinit { close(descriptor) }

  /// The lines of the next message; nil when there is none within 30 seconds.
  func next() -> [String]? {
    var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    var buffer = [UInt8](repeating: 0, count: 4096)
    guard poll(&waiting, 1, 30_000) == 1 else { return nil }
    let count = recv(descriptor, &buffer, buffer.count, 0)
    return count < 0
      ? nil : String(decoding: buffer.prefix(count), as: UTF8.self).split(separator: "\n").map(String.init)
  }
}
