import CLinux
import Glibc
import SystemPackage
import Testing

/// What a daemon that dies leaves behind.
@Suite(.mounting) struct GuardianTests {
  /// A daemon with a thread that waits for another daemon, which has received a request and does not reply. That thread cannot
  /// end, and so the connection does not end by itself either.
  private final class StuckView {
    let view: MountedView
    let daemon: pid_t
    private let lower: MountedView
    private let tracer: Tracer
    private let waiting: StartedProgram

    init() throws {
      let lower = try MountedView { root in try put("x", at: "\(root)/slow") }
      let upper = try MountedView { root in
        makeDirectory("\(root)/lower")
        try put("x", at: "\(root)/other")
        try #require(Shell.run("mount --bind '\(lower.mountPoint)' '\(root)/lower'").status == 0)
      }
      #expect(isThere(upper.at("lower/slow")))
      daemon = try #require(upper.daemon)
      tracer = try Tracer(of: try #require(lower.daemon), at: "newfstatat", "delay_enter=50000000")
      waiting = Shell.start("exec stat '\(upper.at("lower/unknown"))'")
      (self.lower, view) = (lower, upper)
      let daemon = daemon
      try waitUntil { threadsWaiting(in: daemon) > 0 }
    }

    deinit {
      tracer.stop()
      waiting.wait()
    }
  }

  @Test(.asRoot, .tracing) func request_afterDaemonWithStuckThreadIsKilled_fails() throws {
    let stuck = try StuckView()
    #expect(kill(stuck.daemon, SIGKILL) == 0)
    let asking = Shell.start("exec stat '\(stuck.view.at("other"))'")
    #expect(eventually(within: .work) { asking.hasEnded })
    #expect(asking.hasEnded && asking.wait() != 0)
  }

  /// As when a service manager or a container kills all processes of a group.
  @Test(.asRoot, .tracing) func mountOfKilledDaemonAndGuardian_isUnmountedByForce() throws {
    let stuck = try StuckView()
    try waitUntil { !children(of: stuck.daemon).isEmpty }
    for process in children(of: stuck.daemon) + [stuck.daemon] { kill(process, SIGKILL) }
    let asking = Shell.start("exec stat '\(stuck.view.at("other"))'")
    #expect(Displayfs.run(["unmount", "--force", stuck.view.mountPoint]).status == 0)
    #expect(eventually(within: .work) { asking.hasEnded })
    #expect(!Displayfs.isMounted(stuck.view.mountPoint))
    try stuck.view.mount()
    #expect(text(stuck.view.at("other")) == "x")
  }

  /// The client that waits keeps the mount busy, and no signal ends it.
  @Test(.asRoot, .tracing, arguments: [[], ["-z"]])
  func mountOfKilledDaemonAndGuardian_isDeadAndUnmounted(option: [String]) throws {
    let stuck = try StuckView()
    try waitUntil { !children(of: stuck.daemon).isEmpty }
    for process in children(of: stuck.daemon) + [stuck.daemon] { kill(process, SIGKILL) }
    let asking = Shell.start("cd '\(stuck.view.mountPoint)' && exec stat other")
    usleep(100_000)
    let listed = Displayfs.run(["list"]).text
    #expect(listed.contains("its daemon has died"), "\(listed)")
    let outcome = Displayfs.run(["unmount"] + option + [stuck.view.mountPoint])
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(eventually(within: .work) { asking.hasEnded })
    #expect(!Displayfs.isMounted(stuck.view.mountPoint))
  }

  @Test func mountOverDeadMount_replacesIt() throws {
    let view = try MountedView { root in try put("x", at: "\(root)/notes.txt") }
    #expect(kill(try #require(view.daemon), SIGKILL) == 0)
    #expect(eventually(within: .work) { !isThere(view.at("other")) && errno == ENOTCONN })
    try view.mount()
    #expect(text(view.at("notes")) == "x")
    #expect(
      (text("/proc/self/mountinfo") ?? "").split(separator: "\n").filter { $0.contains(view.mountPoint) }
        .count == 1)
  }

  @Test func guardian_afterUnmount_ends() throws {
    let view = try MountedView()
    let daemon = try #require(view.daemon)
    #expect(eventually(within: .work) { !children(of: daemon).isEmpty })
    let guardian = try #require(children(of: daemon).first)
    view.unmount()
    #expect(eventually(within: .work) { !isThere("/proc/\(daemon)") && !isThere("/proc/\(guardian)") })
  }
}
