import Glibc
import SystemPackage
import Testing

/// The kernel's NFS server exports a view, and a client on the same machine mounts the export. (`Mount/kernels`)
@Suite(.mounting, .asRoot, .exporting, .nfsServer, .serialized) struct NFSTests {
  private static let versions = ["3", "4.2"]

  private func build(_ root: String) throws {
    try put("plain", at: "\(root)/Documents/notes.txt")
    try put("hidden", at: "\(root)/.hidden/file")
    try put("text", at: "\(root)/Letter.rtfd/TXT.rtf")
    makeDirectory("\(root)/Work.localized/.localized")
    try put("\"Work\" = \"Arbeit\";", at: "\(root)/Work.localized/.localized/en.strings")
  }

  @Test(arguments: versions) func client_readsAndWritesByDisplayNames(version: String) throws {
    let view = try MountedView("export,allow_other", build: build)
    let client = try NFSClient(of: view, version: version)
    #expect(names(client.root) == view.listing())
    #expect(names(client.at("Documents")) == ["notes"])
    #expect(text(client.at("Documents/notes")) == "plain")
    #expect(text(client.at(".hidden/file")) == "hidden")
    #expect(text(client.at("Letter.rtfd/TXT.rtf")) == "text")
    #expect(contents(client.at("Letter")) == contents(view.at("Letter")))
    // As editors save.
    try put("saved", at: client.at("Documents/.notes.tmp"))
    #expect(rename(client.at("Documents/.notes.tmp"), client.at("Documents/notes")) == 0)
    #expect(text(view.real("Documents/notes.txt")) == "saved")
    try put("new", at: client.at("Documents/new.txt"))
    #expect(text(view.real("Documents/new.txt")) == "new")
    #expect(unlink(client.at("Documents/new.txt")) == 0)
    #expect(!isThere(view.real("Documents/new.txt")))
  }

  @Test(arguments: versions) func client_copiesTreeAndUsesGit(version: String) throws {
    let view = try MountedView("export,allow_other,extensions=show", build: build)
    let client = try NFSClient(of: view, version: version)
    // In an emulated guest one script alone would take more than the minute that it may take.
    for script in [
      """
      cp -a Documents Copy
      diff -r Documents Copy
      git init -q repository
      cd repository
      git config user.name Anna
      git config user.email anna@example.org
      for number in $(seq 3); do echo "$number" >"file $number.txt"; done
      git add .
      git commit -qm first
      """,
      "git clone -q repository clone",
      """
      git -C clone fsck --strict
      test "$(ls clone | wc -l)" = 3
      """,
    ] {
      let outcome = Shell.run("set -ex\n" + script, in: client.root)
      #expect(outcome.status == 0, "\(outcome.complaint)")
    }
  }

  /// To the daemon every client of the server is a thread of the server.
  @Test(arguments: versions) func saves_keepExtension(version: String) throws {
    let view = try MountedView("export,allow_other")
    let client = try NFSClient(of: view, version: version)
    for save in Save.all {
      try put("old", at: view.real("report.txt"))
      #expect(eventually { names(client.root) == ["report"] }, "\(save.program)")
      #expect(throws: Never.self, "\(save.program)") { try save.calls(SaveDirectory(path: client.root)) }
      #expect(text(view.real("report.txt")) == "new", "\(save.program)")
      #expect(text(client.at("report")) == "new", "\(save.program)")
      for name in names(view.source) { #expect(unlink(view.real("\(name)")) == 0, "\(save.program)") }
    }
  }

  @Test(.needing("vim"), arguments: versions, EditorTests.vimRuns)
  func vim_savesAsInPlainDirectory(version: String, _ run: ProgramRun) throws {
    try run.expectNoDifferenceByDisplayName(byNFS: version)
  }

  /// In an emulated guest a run takes a minute or more.
  @Test(.needing("soffice"), arguments: versions)
  func libreOffice_savesAsInPlainDirectory(version: String) throws {
    try Office(longest: 900).expectNoDifferenceOfSaving(byNFS: version)
  }

  /// NFS 4 has locks in the protocol, and the server takes them in the view.
  @Test func byteRangeLock_ofClient_meetsOtherProcesses() throws {
    let view = try MountedView("export,allow_other", build: build)
    let client = try NFSClient(of: view, version: "4.2")
    func isFree(_ path: String, from start: Int) -> Bool {
      PythonProgram(
        """
        import fcntl
        try: fcntl.lockf(open("\(path)", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB, 2, \(start))
        except OSError: sys.exit(1)
        """
      ).run().status == 0
    }
    do {
      let file = try OpenFile(client.at("Documents/notes"), O_RDWR)
      var range = flock(l_type: Int16(F_WRLCK), l_whence: 0, l_start: 0, l_len: 2, l_pid: 0)
      #expect(failure { fcntl(file.descriptor, F_SETLK, &range) } == nil)
      for path in [client.at("Documents/notes.txt"), view.at("Documents/notes")] {
        #expect(!isFree(path, from: 1) && isFree(path, from: 2), "\(path)")
      }
    }
    #expect(isFree(client.at("Documents/notes.txt"), from: 0) && isFree(view.at("Documents/notes"), from: 0))
  }

  /// The client's handles outlive the daemon: its user notices nothing but the pause. The server is stopped meanwhile, as it keeps
  /// files of NFS 4 open.
  @Test(arguments: versions) func openFile_afterRestartOfDaemon_isReadAndWritten(version: String) throws {
    let view = try MountedView("export,allow_other", build: build)
    let client = try NFSClient(of: view, version: version)
    let file = try OpenFile(client.at("Documents/notes"), O_RDWR)
    #expect(file.text() == "plain")
    let directory = try OpenFile(client.at("Documents"))
    client.withdraw()
    Machine.stopNFS()
    view.unmount()
    try view.mount("export,allow_other")
    try put("2\n", at: "/proc/sys/vm/drop_caches")
    Machine.startNFS()
    client.export()
    #expect(file.write("PLAIN", at: 0) == 5)
    #expect(fsync(file.descriptor) == 0)
    #expect(text(view.real("Documents/notes.txt")) == "PLAIN")
    #expect(Set(namesAsListed("/proc/self/fd/\(directory.descriptor)") ?? []) == ["notes"])
    #expect(names(client.root) == view.listing())
  }

  /// A client repeats what it has no reply to. It makes no directories here: one that the stopped server had made would exist
  /// already.
  @Test(arguments: versions) func copies_whileServerIsRestarted_areComplete(version: String) throws {
    let view = try MountedView("export,allow_other") { root in
      for number in 1...20 {
        try put(String(repeating: "line \(number)\n", count: number * 500), at: "\(root)/Documents/\(number).txt")
      }
    }
    let client = try NFSClient(of: view.mountPoint, version: version, options: "")
    for number in 1...1000 { makeDirectory(view.real("Copies/\(number)")) }
    let signals = try TemporaryDirectory()
    try put("", at: signals.path("copied"))
    let copying = Shell.start(
      """
      cd '\(client.root)' || exit
      for copy in $(seq 1000); do
        for document in $(ls Documents); do
          cp -p "Documents/$document" "Copies/$copy/.new" && mv "Copies/$copy/.new" "Copies/$copy/$document.txt" || exit
          printf . >>'\(signals.path("copied"))'
        done
        [ ! -e '\(signals.path("enough"))' ] || exit 0
      done
      """, within: 600)
    for _ in 0..<2 {
      let before = status(signals.path("copied"))?.st_size ?? 0
      try waitUntil { (status(signals.path("copied"))?.st_size ?? 0) > before + 10 }
      Machine.stopNFS()
      sleep(1)
      #expect(Machine.startNFS())
    }
    try put("", at: signals.path("enough"))
    #expect(copying.wait() == 0)
    let copies = names(view.real("Copies")).filter { !names(view.real("Copies/\($0)")).isEmpty }
    #expect(!copies.isEmpty)
    for copy in copies {
      for (original, copied) in [
        (view.real("Documents"), view.real("Copies/\(copy)")), (view.at("Documents"), client.at("Copies/\(copy)")),
      ] {
        let compared = Shell.run(["diff", "-r", original, copied])
        #expect(compared.status == 0, "\(compared.complaint)")
      }
    }
  }

  /// What another program changes in the tree shows to a client that asks the server. (`actimeo=0`)
  @Test(arguments: versions) func changeInBackingTree_isVisibleToClient(version: String) throws {
    let view = try MountedView("export,allow_other", build: build)
    let client = try NFSClient(of: view, version: version)
    #expect(names(client.at("Documents")) == ["notes"])
    try put("other", at: view.real("Documents/other.txt"))
    #expect(rename(view.real("Documents/notes.txt"), view.real("Documents/papers.txt")) == 0)
    #expect(eventually { names(client.at("Documents")) == ["other", "papers"] })
    #expect(text(client.at("Documents/papers")) == "plain")
    #expect(!isThere(client.at("Documents/notes")))
  }
}

/// A mount of a directory by NFS, for as long as this object lives. There may be one at a time.
final class NFSClient {
  let root: String
  private let exported: String
  private let directory: TemporaryDirectory
  private var view: MountedView?

  /// Keeps the view mounted. Every look is a request to the server.
  convenience init(of view: MountedView, version: String) throws {
    try self.init(of: view.mountPoint, version: version, options: ",actimeo=0,lookupcache=none")
    self.view = view
  }

  /// - Parameter options: more options of mount(8), each after a comma.
  init(of exported: String, version: String, options: String) throws {
    self.exported = exported
    directory = try TemporaryDirectory()
    root = directory.path("client")
    makeDirectory(root)
    export()
    let lock = version == "3" ? ",nolock" : ""
    let mounted = Shell.run(
      "mount -t nfs -o vers=\(version)\(options)\(lock) localhost:'\(exported)' '\(root)'")
    try #require(mounted.status == 0, "\(mounted.complaint)")
  }

  deinit {
    // By force, requests to close files are dropped, and the server keeps those open.
    _ = Shell.run("timeout 30 umount '\(root)' || umount -f '\(root)' || umount -l '\(root)'")
    withdraw()
    // The server closes a file some seconds after its last use, and a mount that is in use cannot be unmounted.
    _ = eventually(within: .work) { !isBusy(exported) }
  }

  /// A mount that is idle is marked (EAGAIN), and unmounted when it still has the mark the next time. Any path lookup clears the mark.
  private func isBusy(_ mountPoint: String) -> Bool {
    _ = isThere(mountPoint)
    return umount2(mountPoint, CInt(MNT_EXPIRE)) != 0 && errno == EBUSY
  }

  func at(_ path: String) -> String { "\(root)/\(path)" }

  func export() {
    let outcome = Shell.run(
      "exportfs -o rw,fsid=7,no_root_squash,no_subtree_check,insecure localhost:'\(exported)'")
    #expect(outcome.status == 0, "\(outcome.complaint)")
  }

  /// Makes the server let go of the directory.
  func withdraw() { _ = Shell.run("exportfs -u localhost:'\(exported)'; exportfs -f") }
}

extension Trait where Self == ConditionTrait {
  static var nfsServer: Self {
    .enabled(if: Machine.servesNFS, "The kernel has no NFS server, or nfs-kernel-server is missing.")
  }
}

extension Machine {
  /// Starts the server where none runs.
  static let servesNFS =
    Shell.run(
      """
      set -ex
      modprobe -a nfsd nfs 2>/dev/null || true
      grep -qw nfsd /proc/filesystems
      grep -qw nfs /proc/filesystems
      command -v exportfs rpc.nfsd rpc.mountd
      grep -q ' /proc/fs/nfsd ' /proc/self/mountinfo || mount -t nfsd nfsd /proc/fs/nfsd
      mkdir -p /run/rpcbind
      pgrep -x rpcbind || rpcbind -w
      pgrep -x rpc.mountd || rpc.mountd
      """
    ).status == 0 && startNFS()

  /// - Returns: whether the server runs. For 10 s clients may only claim what they had open before.
  @discardableResult
  static func startNFS() -> Bool { Shell.run("rpc.nfsd --grace-time 10 --lease-time 10 4").status == 0 }

  static func stopNFS() { _ = Shell.run("rpc.nfsd 0") }
}
