import CLinux
import Glibc
import SystemPackage
import Testing

/// A view of a tree that lies on another machine. (`Mount/kernels`)
@Suite(.mounting, .networks, .serialized) struct NetworkSourceTests {
  /// The share is the backing tree of the view.
  private struct RemoteView {
    let share: NetworkShare
    let view: MountedView
  }

  private func remoteView(_ network: Network, _ options: String = "") throws -> RemoteView {
    var share: NetworkShare?
    let view = try MountedView(options) { root in
      let mounted = try NetworkShare(network, at: root)
      try put("old", at: "\(mounted.served)/report.txt")
      try put("plain", at: "\(mounted.served)/Documents/notes.txt")
      try put("text", at: "\(mounted.served)/Letter.rtfd/TXT.rtf")
      share = mounted
    }
    return RemoteView(share: try #require(share), view: view)
  }

  @Test(arguments: Network.allCases) func documentsAndPackages_areUsedByDisplayNames(_ network: Network)
    throws
  {
    let remote = try remoteView(network)
    let (view, served) = (remote.view, remote.share.served)
    #expect(view.listing() == ["report", "Documents", "Letter"])
    #expect(text(view.at("Documents/notes")) == "plain")
    #expect(rename(view.at("Documents/notes"), view.at("Documents/papers")) == 0)
    #expect(names("\(served)/Documents") == ["papers.txt"])
    #expect(mkdir(view.at("Folder"), 0o755) == 0)
    #expect(rename(view.at("Documents/papers"), view.at("Folder/notes")) == 0)
    #expect(rename(view.at("Folder"), view.at("Other")) == 0)
    #expect(text("\(served)/Other/notes.txt") == "plain")
    try put("new", at: view.at("Other/new.csv"))
    #expect(unlink(view.at("Other/new.csv")) == 0 && unlink(view.at("Other/notes")) == 0)
    #expect(rmdir(view.at("Other")) == 0 && !isThere("\(served)/Other"))
    let stream = try #require(text(view.at("Letter")))
    #expect(stream.contains("./TXT.rtf"))
    #expect(text(view.at("Letter.rtfd/TXT.rtf")) == "text")
    try put("more", at: view.at("Letter.rtfd/more.txt"))
    #expect(eventually { text(view.at("Letter"))?.contains("./more.txt") == true })
    #expect(failure { unlink(view.at("Letter")) } == nil)
    #expect(eventually(within: .work) { names(served) == ["report.txt", "Documents"] })
  }

  @Test(arguments: Network.allCases) func saves_keepExtension(_ network: Network) throws {
    let remote = try remoteView(network)
    let (view, served) = (remote.view, remote.share.served)
    for name in ["Documents/notes", "Letter"] { #expect(unlink(view.at(name)) == 0) }
    #expect(rmdir(view.at("Documents")) == 0)
    for save in Save.all where network.hasSymlinks || !save.program.hasPrefix("emacs") {
      try put("old", at: view.at("report"))
      #expect(throws: Never.self, "\(save.program)") {
        try save.calls(SaveDirectory(path: view.mountPoint))
      }
      #expect(text("\(served)/report.txt") == "new", "\(save.program)")
      #expect(text(view.at("report")) == "new", "\(save.program)")
      for name in view.listing() where name != "report" { unlink(view.at("\(name)")) }
    }
  }

  /// NFS gives a removed file that any process refers to another name in its directory, until that process lets go of it.
  @Test(arguments: Network.allCases) func tree_isRemovedAtOnce(_ network: Network) throws {
    let remote = try remoteView(network)
    let view = remote.view
    let links = network.hasSymlinks ? "ln -s target link$number; mkfifo pipe$number;" : ""
    let outcome = view.shell(
      """
      set -e
      mkdir -p tree/sub
      cd tree/sub
      for number in $(seq 10); do echo text >file$number.csv; \(links) done
      cd ../..
      ls -lR tree >/dev/null
      cat tree/sub/*.csv >/dev/null
      rm -r tree
      """)
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(!isThere("\(remote.share.served)/tree"))
  }

  @Test(arguments: Network.allCases) func openFile_afterUnlink_isReadAndNotShown(_ network: Network) throws {
    let remote = try remoteView(network)
    let (view, served) = (remote.view, remote.share.served)
    do {
      let file = try OpenFile(view.at("Documents/notes"), O_RDWR)
      #expect(unlink(view.at("Documents/notes")) == 0)
      #expect(file.text() == "plain")
      // diod finds no such file any more when its size is requested.
      if network != .plan9 { #expect(file.write("PLAIN", at: 0) == 5 && file.text() == "PLAIN") }
      // SMB keeps the name until the file is closed.
      if network != .smb { #expect(view.listing("Documents") == []) }
      if network.isNFS { #expect(names("\(served)/Documents").count == 1) }
    }
    #expect(eventually { names("\(served)/Documents") == [] && view.listing("Documents") == [] })
  }

  /// Those on SMB are the view's alone, and those of NFS 3 its client's, which is mounted with `nolock` here.
  @Test(arguments: Network.allCases) func locks_holdInView_andAtServerOfNFS4AndCephFS(_ network: Network) throws {
    let remote = try remoteView(network)
    let view = remote.view
    for call in ["flock", "lockf"] {
      let attempt = PythonProgram(
        """
        import fcntl
        try: fcntl.\(call)(open("report.txt", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError: sys.exit(1)
        """, in: view.mountPoint)
      // The server has all locks of NFS as record locks.
      let attemptAtServer = PythonProgram(
        """
        import fcntl
        try: fcntl.\(network == .ceph ? call : "lockf")(open("report.txt", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError: sys.exit(1)
        """, in: remote.share.served)
      do {
        let file = try OpenFile(view.at("report"), O_RDWR)
        var range = flock(l_type: Int16(F_WRLCK), l_whence: 0, l_start: 0, l_len: 0, l_pid: 0)
        let failed = failure {
          call == "flock" ? dfs_flock(file.descriptor, LOCK_EX) : fcntl(file.descriptor, F_SETLK, &range)
        }
        #expect(failed == nil)
        #expect(attempt.run().status == 1, "\(call)")
        if [.nfs4, .ceph].contains(network) { #expect(attemptAtServer.run().status == 1, "\(call)") }
        // A program reads and writes what it has locked.
        #expect(file.text() == "old" && file.write("old", at: 0) == 3)
      }
      #expect(attempt.run().status == 0, "\(call)")
    }
  }

  /// The client of NFS believes for half a minute or longer that a directory is unchanged, unless it is opened by name.
  /// (`acdirmin` of nfs(5))
  @Test(arguments: Network.allCases, ["", "profile=none"])
  func changeAtServer_isVisibleAfterTimeout(_ network: Network, options: String) throws {
    let remote = try remoteView(network, options)
    let (view, served) = (remote.view, remote.share.served)
    let shown = options.isEmpty ? "notes" : "notes.txt"
    try put("x", at: "\(served)/Documents/gone.csv")
    // The client has looked at all of it, and a while ago.
    for _ in 0..<2 {
      usleep(1_500_000)
      _ = view.listing("Documents")
    }
    #expect(text(view.at("Documents/\(shown)")) == "plain" && !isThere(view.at("Documents/new.csv")))
    try put("x", at: "\(served)/Documents/new.csv")
    #expect(unlink("\(served)/Documents/gone.csv") == 0)
    try put("another text", at: "\(served)/Documents/notes.txt")
    let expected: Set = [FileName(shown), "new.csv"]
    #expect(eventually(within: .atOnce * 2) { view.listing("Documents") == expected })
    #expect(eventually(within: .atOnce) { text(view.at("Documents/\(shown)")) == "another text" })
    #expect(eventually(within: .work) { text(view.at("Documents/new.csv")) == "x" })
    #expect(eventually(within: .work) { !isThere(view.at("Documents/gone.csv")) })
    #expect(eventually(within: .work) { status(view.at("Documents/\(shown)"))?.st_size == 12 })
  }

  /// The server gives root the rights of an anonymous user, so the owner mounts the view.
  @Test(
    .nfsServer, .enabled(if: OrdinaryUser.canMount, "Ordinary users cannot mount here."),
    arguments: [Network.nfs3, .nfs4])
  func homeOnServerThatSquashesRoot_isUsedByItsOwner(_ network: Network) throws {
    var made: NetworkShare?
    let view = try MountedView { root in
      let share = try NetworkShare(network, at: root, squashesRoot: true)
      try put("old", at: "\(share.served)/notes.txt")
      try put("text", at: "\(share.served)/Letter.rtfd/TXT.rtf")
      let owned = Shell.run("chown -R \(OrdinaryUser.owner) '\(share.served)' && chmod 700 '\(share.served)'")
      try #require(owned.status == 0, "\(owned.complaint)")
      made = share
    }
    let share = try #require(made)
    view.unmount()
    let mounted = OrdinaryUser.mount(view)
    try #require(mounted.status == 0, "\(mounted.complaint)")
    let outcome = OrdinaryUser.shell(
      OrdinaryUser.owner, view,
      """
      set -e
      test "$(ls | tr '\\n' ' ')" = 'Letter notes '
      printf new >.notes.tmp
      mv .notes.tmp notes
      tar -tf Letter >/dev/null
      rm Letter
      mkdir folder
      mv notes folder
      """)
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(eventually { names(share.served) == ["folder"] })
    #expect(text("\(share.served)/folder/notes.txt") == "new")
    #expect(status("\(share.served)/folder")?.st_uid == OrdinaryUser.identifier)
  }

  /// Its access lists are an attribute for the programs of nfs4-acl-tools.
  @Test(.nfsServer) func accessList_ofNFS4_isReadThroughView() throws {
    let remote = try remoteView(.nfs4)
    let view = remote.view
    let list = try #require(attributeBytes("system.nfs4_acl", of: view.real("report.txt")))
    #expect(attributeBytes("system.nfs4_acl", of: view.at("report")) == list)
  }
}
