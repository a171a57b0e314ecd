import Glibc
import Testing

/// A file system below SOURCE with a stopped server.
@Suite(.mounting, .asRoot) struct HungMountTests {
  /// The event that makes the daemon look into that file system.
  enum Cause: String, CaseIterable { case mountOnNewDirectory, changeInMountedFileSystem }

  @Test(arguments: Cause.allCases) func changesElsewhere_whileNestedFileSystemHangs_areReported(_ cause: Cause)
    throws
  {
    // It caches nothing: each lookup is a request.
    let lower = try MountedView("coherence=timeout,timeout=0") { root in try put("x", at: "\(root)/old.txt") }
    let view = try MountedView { root in
      for name in ["Disk", "Folder"] { makeDirectory("\(root)/\(name)") }
      try #require(Shell.run("mount --bind '\(lower.mountPoint)' '\(root)/Disk'").status == 0)
    }
    #expect(view.listing() == ["Disk", "Folder"] && view.listing("Disk") == ["old"])
    #expect(view.listing("Folder") == [])
    // The first pass may look up entries of directories that are not watched yet, and such entries are not cacheable.
    for _ in 0..<2 { #expect(!isThere(view.at("Disk/new")) && !isThere(view.at("Folder/new"))) }
    let (daemon, server) = (try #require(view.daemon), try #require(lower.daemon))
    // Resumes the server after 30 seconds, so that nothing waits for it for ever.
    let rescue = Shell.start("sleep 30; kill -CONT \(server)")
    defer {
      kill(server, SIGCONT)
      rescue.send(SIGTERM)
      rescue.wait()
    }
    // The daemon receives the event only after the server has stopped.
    kill(daemon, SIGSTOP)
    switch cause {
    case .mountOnNewDirectory:
      makeDirectory(view.real("New"))
      #expect(Shell.run("mount --bind '\(lower.mountPoint)' '\(view.real("New"))'").status == 0)
    case .changeInMountedFileSystem: try put("y", at: lower.at("new.txt"))
    }
    kill(server, SIGSTOP)
    kill(daemon, SIGCONT)
    for number in 0..<4 {
      let name = "Folder/new\(number)"
      #expect(!isThere(view.at(name)))
      try put("x", at: view.real(name))
      #expect(eventually { isThere(view.at(name)) }, "\(number)")
    }
  }
}
