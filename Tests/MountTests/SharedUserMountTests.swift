import Glibc
import Testing

/// An ordinary user's mount for all users. Its daemon has its user's rights alone, and must not lend them to others.
@Suite(.mounting, .asRoot, .enabled(if: OrdinaryUser.canMount, "Ordinary users cannot mount here."))
final class SharedUserMountTests {
  private let view: MountedView
  private let daemon: pid_t
  private let temporary: TemporaryDirectory

  init() throws {
    view = try MountedView { root in
      for (part, mode) in [("TXT.rtf", 0o644), ("private", 0o600)] as [(String, mode_t)] {
        for package in ["Letter.rtfd", "Album.rtfd"] where package == "Album.rtfd" || mode == 0o644 {
          try put("secret", at: "\(root)/\(package)/\(part)")
          chmod("\(root)/\(package)/\(part)", mode)
        }
      }
      _ = Shell.run("chown -R \(OrdinaryUser.owner) . && chmod 777 . Album.rtfd", in: root)
    }
    view.unmount()
    temporary = try TemporaryDirectory()
    let configuration = temporary.path("fuse.conf")
    try put("user_allow_other\n", at: configuration)
    let mounted = OrdinaryUser.mount(
      view, "allow_other",
      in: [
        "unshare", "-m", "sh", "-c", "mount --bind '\(configuration)' /etc/fuse.conf && exec \"$@\"", "sh",
      ])
    try #require(mounted.status == 0, "\(mounted.complaint)")
    daemon = try #require(view.daemon)
  }

  deinit { kill(daemon, SIGKILL) }

  /// A command that has a user run a script where the view is mounted.
  private func run(by user: String, _ script: String) -> String {
    "nsenter -t \(daemon) -m setpriv --reuid=\(user) --regid=\(user) --clear-groups sh -c '\(script)'"
  }

  private func other(_ script: String) -> String { run(by: OrdinaryUser.other, script) }

  @Test func package_isReadByOtherUserThatMayReadAllParts() throws {
    #expect(Shell.run(other("cat \(view.at("Letter"))")).output.count > 1024)
    for _ in 0..<2 {
      let outcome = Shell.run(other("cat \(view.at("Album"))"))
      #expect(outcome.status != 0 && outcome.output.isEmpty)
      // Then its layout is known.
      #expect(Shell.run(run(by: OrdinaryUser.owner, "cat \(view.at("Album"))")).output.count > 1024)
    }
  }

  /// Each part could be removed by its path.
  @Test func package_isRemovedByOtherUserThatMayRemoveAllParts() throws {
    #expect(Shell.run(other("rm -f \(view.at("Letter"))")).status != 0)
    #expect(isThere(view.real("Letter.rtfd/TXT.rtf")))
    #expect(Shell.run(other("rm -f \(view.at("Album"))")).status == 0)
    #expect(!isThere(view.real("Album.rtfd")))
  }

  /// In a sticky directory, the file may be removed by its owner, and the sidecar by its own. (inode(7))
  @Test(arguments: ["rm -f", "ln -f", "mv -f"]) func sidecarOfOwner_isNotChangedByOtherUser(command: String)
    throws
  {
    let script = """
      mkdir Sticky; chmod 1777 Sticky; cd Sticky; touch file.txt; chmod 666 file.txt
      { printf '\\000\\005\\026\\007\\000\\002\\000\\000'; head -c 18 /dev/zero; } >._file.txt
      chown \(OrdinaryUser.owner) . ._file.txt; chown \(OrdinaryUser.other) file.txt; chmod 600 ._file.txt
      """
    try #require(Shell.run(script, in: view.source).status == 0)
    let target = command == "rm -f" ? "" : view.at("Sticky/moved.txt")
    #expect(Shell.run(other("\(command) \(view.at("Sticky/file.txt")) \(target)")).status == 0)
    #expect(status(view.real("Sticky/._file.txt"))?.st_nlink == 1)
    #expect(!isThere(view.real("Sticky/._moved.txt")))
  }

  /// The kernel took the name for free, so it has checked no permission.
  @Test func fileMadeMeanwhile_isNotOpenedByOtherUserThatMayNotRead() throws {
    let path = view.at("notes.txt")
    // The kernel keeps that the name is free once the directory is watched.
    for _ in 0..<3 { #expect(Shell.run(other("cat \(path)")).status != 0) }
    kill(daemon, SIGSTOP)
    let client = Shell.start(other("exec 3<>\(path) && cat <&3") + " >'\(temporary.path("read"))'")
    usleep(300_000)
    try put("secret", at: view.real("notes.txt"))
    _ = Shell.run("chmod 600 notes.txt && chown \(OrdinaryUser.owner) notes.txt", in: view.source)
    kill(daemon, SIGCONT)
    #expect(client.wait() != 0)
    #expect(contents(temporary.path("read")) == [])
  }
}
