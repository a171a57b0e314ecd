import CFuse
import Glibc
import Testing

/// A file system below SOURCE whose server has stopped.
@Suite(.mounting, .asRoot) struct HungMountTests {
  /// What happens around or in the stopped file system and makes the daemon look there.
  enum Cause: String, CaseIterable {
    case attributesOfCoveredDirectory, everythingBesideIt, changeInIt
  }

  @Test(arguments: Cause.allCases) func changesElsewhere_whileMountBelowHasStopped_areReported(_ cause: Cause)
    throws
  {
    // It keeps nothing: each look is a request.
    let lower = try MountedView("coherence=timeout,timeout=0") { root in try put("x", at: "\(root)/old.txt") }
    var covered: OpenFile?
    // The name of an application, which is looked into.
    let view = try MountedView { root in
      for name in ["Disk.app", "Folder"] { makeDirectory("\(root)/\(name)") }
      covered = try OpenFile("\(root)/Disk.app", dfs_O_PATH)
      try #require(Shell.run("mount --bind '\(lower.mountPoint)' '\(root)/Disk.app'").status == 0)
    }
    #expect(view.listing() == ["Disk.app", "Folder"] && view.listing("Disk.app") == ["old"])
    #expect(view.listing("Folder") == [])
    for _ in 0..<2 { #expect(!isThere(view.at("Disk.app/new")) && !isThere(view.at("Folder/new"))) }
    let (daemon, server) = (try #require(view.daemon), try #require(lower.daemon))
    // Whatever waits for it: it goes on after a while.
    let rescue = Shell.start("sleep 20; kill -CONT \(server)")
    defer {
      kill(server, SIGCONT)
      kill(rescue, SIGTERM)
      Shell.wait(for: rescue)
    }
    // The daemon learns of it when the server has stopped.
    kill(daemon, SIGSTOP)
    switch cause {
    case .attributesOfCoveredDirectory: chmod("/proc/self/fd/\(try #require(covered).descriptor)", 0o700)
    case .everythingBesideIt: try put("nothing\n", at: view.real(".hidden"))
    case .changeInIt: try put("y", at: lower.at("new.txt"))
    }
    kill(server, SIGSTOP)
    kill(daemon, SIGCONT)
    for number in 0..<3 {
      let name = "Folder/new\(number)"
      #expect(!isThere(view.at(name)))
      try put("x", at: view.real(name))
      #expect(eventually { isThere(view.at(name)) }, "\(number)")
    }
  }
}
