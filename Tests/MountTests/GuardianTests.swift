import CFuse
import Glibc
import SystemPackage
import Testing

/// What a daemon that dies leaves behind.
@Suite(.mounting) struct GuardianTests {
  /// The upper daemon is killed while one of its threads waits for the lower one, which has its request and does not
  /// answer: that thread cannot end, nor does the connection by itself.
  @Test(.asRoot, .tracing) func whoHoldsTheConnectionOfADeadDaemonHoldsNobodyUp() throws {
    let lower = try MountedView { root in try put("x", at: "\(root)/slow") }
    let upper = try MountedView { root in
      makeDirectory("\(root)/lower")
      try put("x", at: "\(root)/other")
      try #require(Shell.run("mount --bind '\(lower.mountPoint)' '\(root)/lower'").status == 0)
    }
    #expect(isThere(upper.at("lower/slow")))
    let daemon = try #require(upper.daemon)
    let tracer = try Tracer(of: try #require(lower.daemon), at: "newfstatat", "delay_enter=50000000")
    defer { tracer.stop() }
    let waiting = Shell.start("exec stat '\(upper.at("lower/slow"))'")
    defer { Shell.wait(for: waiting) }
    let tasks = "/proc/\(daemon)/task"
    let isStuck = eventually {
      names(tasks).contains { (text("\(tasks)/\($0)/wchan") ?? "").contains("request_wait_answer") }
    }
    guard isStuck else { return }
    #expect(kill(daemon, SIGKILL) == 0)
    let asking = Shell.start("exec stat '\(upper.at("other"))'")
    var outcome: CInt = 0
    #expect(eventually { waitpid(asking, &outcome, WNOHANG) == asking })
    #expect(outcome != 0)
  }

  @Test func mountingAgainRepairsAMountWhoseDaemonDied() throws {
    let view = try MountedView { root in try put("x", at: "\(root)/notes.txt") }
    #expect(kill(try #require(view.daemon), SIGKILL) == 0)
    #expect(eventually { !isThere(view.mountPoint) && errno == ENOTCONN })
    try view.mount()
    #expect(text(view.at("notes")) == "x")
    #expect(
      (text("/proc/self/mountinfo") ?? "").split(separator: "\n").filter { $0.contains(view.mountPoint) }
        .count == 1)
  }

  @Test func theGuardianEndsWithTheMount() throws {
    let view = try MountedView()
    let daemon = try #require(view.daemon)
    func guardians() -> [String] {
      (text("/proc/\(daemon)/task/\(daemon)/children") ?? "").split(separator: " ").map(String.init)
    }
    #expect(eventually { !guardians().isEmpty })
    let guardian = try #require(guardians().first)
    view.unmount()
    #expect(eventually { !isThere("/proc/\(daemon)") && !isThere("/proc/\(guardian)") })
  }
}
