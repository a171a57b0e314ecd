import CLinux
import Glibc
import Testing

/// Tags, comments and origins that Macs stored, as the extended attributes that Linux desktops show.
@Suite(.mounting) struct DesktopAttributeTests {
  private static let names = ["user.xdg.tags", "user.xdg.comment", "user.xdg.origin.url"]

  private typealias Writer = @Sendable (_ directory: String, _ name: String, _ text: String) throws -> Void

  /// The stores that can be written by hand, each with a function that gives an entry of a directory all three.
  private static let stores: [(name: String, write: Writer)] = [
    ("plain", { writeAttributes($2, of: "\($0)/\($1)") { "user.\($0)" } }),
    (
      "netatalk with a NUL for Samba",
      { writeAttributes($2, of: "\($0)/\($1)", ending: [0]) { "user.\(MacAttributes.streamName($0))" } }
    ),
    (
      "Samba's streams",
      {
        writeAttributes($2, of: "\($0)/\($1)", ending: [0]) {
          "user.DosStream.\(MacAttributes.streamName($0)):$DATA"
        }
      }
    ),
    (
      "Samba's depot",
      { directory, name, text in
        let file = "\(directory)/\(name)"
        _ = setAttribute("user.SAMBA_STREAMS", to: Array("1".utf8), of: file)
        for (name, list) in MacAttributes.all(text) {
          try put(list, at: "\(directory)/\(depotDirectory(file))/:\(MacAttributes.streamName(name)):$DATA")
        }
      }
    ),
    (
      "AppleDouble",
      {
        let file = MacAttributes.appleDouble(TestTree.finderInfo(0), MacAttributes.all($2))
        try put(file, at: "\($0)/._\($1)")
      }
    ),
    (
      "netatalk's files",
      { directory, name, text in
        let path = "\(directory)/\(name)"
        let file =
          status(path)?.isDirectory == true
          ? "\(path)/.AppleDouble/.Parent" : "\(directory)/.AppleDouble/\(name)"
        try put(TestTree.appleDouble(TestTree.finderInfo(0)), at: file)
        try put("list", at: "\(file)::EA")
        for (name, list) in MacAttributes.all(text) {
          try put(list, at: "\(file)::EA::\(name.replacing(":", with: ":3a"))")
        }
      }
    ),
  ]

  private static func writeAttributes(
    _ text: String, of path: String, ending: [UInt8] = [], _ name: (String) -> String
  ) {
    for (attribute, list) in MacAttributes.all(text) {
      _ = setAttribute(name(attribute), to: list + ending, of: path)
    }
  }

  private static func depotDirectory(_ file: String) -> String {
    FinderMetadataTests.depotPath(file).replacing("/:AFP_AfpInfo:$DATA", with: "")
  }

  private func values(_ path: String) -> [String?] { Self.names.map { attribute($0, of: path) } }

  private func listed(_ path: String) -> Set<String> {
    var buffer = [CChar](repeating: 0, count: 4096)
    let count = llistxattr(path, &buffer, buffer.count)
    let names = buffer.prefix(max(0, count)).split(separator: 0).map {
      String(decoding: $0.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
    return Set(names.filter { $0.hasPrefix("user.xdg.") })
  }

  @Test(arguments: stores.indices) func attributes_fromEveryStore_areReturnedAndListed(store: Int) throws {
    let (name, write) = Self.stores[store]
    let view = try MountedView { root in
      for name in ["a.txt", "none.txt", "folder/x", "Old.pages/data"] { try put("x", at: "\(root)/\(name)") }
      for name in ["a.txt", "folder", "Old.pages"] { try write(root, name, "mine") }
    }
    for entry in ["a", "a.txt", "folder", "Old"] {
      #expect(
        values(view.at(entry)) == ["mine,second", "mine", "https://mine.example/"], "\(name): \(entry)")
      #expect(listed(view.at(entry)) == Set(Self.names), "\(name): \(entry)")
    }
    #expect(values(view.at("none")) == [nil, nil, nil])
    #expect(listed(view.at("none")) == [])
    #expect(getxattr(view.at("a"), "user.xdg.tags", nil, 0) == 11)
    var small = [UInt8](repeating: 0, count: 4)
    #expect(getxattr(view.at("a"), "user.xdg.tags", &small, 4) == -1 && errno == ERANGE)
  }

  @Test(arguments: stores.indices) func attributes_survivingSave_areThoseOfTheFile(store: Int) throws {
    let (name, write) = Self.stores[store]
    let view = try MountedView("finder-info=on") { root in
      try put("old", at: "\(root)/a.txt")
      try write(root, "a.txt", "mine")
    }
    #expect(view.shell("printf new > .t && mv .t a").status == 0)
    #expect(text(view.real("a.txt")) == "new")
    #expect(values(view.at("a")) == ["mine,second", "mine", "https://mine.example/"], "\(name)")
  }

  @Test func attributeOfFileItself_takesPrecedence() throws {
    let view = try MountedView { root in
      try put("x", at: "\(root)/a.txt")
      try Self.stores[0].write(root, "a.txt", "mac")
      _ = setAttribute("user.xdg.tags", to: Array("linux".utf8), of: "\(root)/a.txt")
    }
    #expect(values(view.at("a")) == ["linux", "mac", "https://mac.example/"])
    #expect(listed(view.at("a")) == Set(Self.names))
    #expect(setAttribute("user.xdg.comment", to: Array("new".utf8), of: view.at("a")) == nil)
    #expect(attribute("user.xdg.comment", of: view.real("a.txt")) == "new")
    #expect(attribute("user.xdg.comment", of: view.at("a")) == "new")
    #expect(removexattr(view.at("a"), "user.xdg.comment") == 0)
    #expect(attribute("user.xdg.comment", of: view.at("a")) == "mac")
    #expect(failure { removexattr(view.at("a"), "user.xdg.comment") }?.rawValue == ENODATA)
  }

  @Test func stores_areReadInOrder_andMalformedOnesAreSkipped() throws {
    let view = try MountedView { root in
      for name in ["a.txt", "b.txt", "c.txt"] {
        try put("x", at: "\(root)/\(name)")
        try Self.stores[4].write(root, name, "sidecar")
      }
      try Self.stores[2].write(root, "a.txt", "samba")
      _ = setAttribute("user.\(MacAttributes.tags)", to: Array("bplist00?".utf8), of: "\(root)/a.txt")
      _ = setAttribute("user.\(MacAttributes.tags)", to: MacAttributes.list([]), of: "\(root)/b.txt")
      try Self.stores[0].write(root, "c.txt", "plain")
    }
    #expect(values(view.at("a")) == ["samba,second", "samba", "https://samba.example/"])
    // An empty list of tags says that the item has none.
    #expect(values(view.at("b")) == [nil, "sidecar", "https://sidecar.example/"])
    #expect(listed(view.at("b")) == Set(Self.names.dropFirst()))
    #expect(values(view.at("c"))[0] == "plain,second")
  }

  @Test func label_isTagOfItsColor_whereThereIsNoOther() throws {
    let view = try MountedView { root in
      for name in ["a.txt", "b.txt", "c.txt", "d.txt", "e.txt"] { try put("x", at: "\(root)/\(name)") }
      _ = setAttribute("user.com.apple.FinderInfo", to: TestTree.finderInfo(0x000c), of: "\(root)/a.txt")
      _ = setAttribute("user.com.apple.FinderInfo", to: TestTree.finderInfo(0x000c), of: "\(root)/b.txt")
      _ = setAttribute("user.\(MacAttributes.tags)", to: MacAttributes.list(["mine"]), of: "\(root)/b.txt")
      try put(TestTree.appleDouble(TestTree.finderInfo(0x0008)), at: "\(root)/._c.txt")
      try put(TestTree.appleDouble(TestTree.finderInfo(0x0004)), at: "\(root)/.AppleDouble/d.txt")
      _ = setAttribute(
        "user.org.netatalk.Metadata", to: TestTree.netatalk(TestTree.finderInfo(0x000e)), of: "\(root)/e.txt")
    }
    #expect(
      ["a", "b", "c", "d", "e"].map { attribute("user.xdg.tags", of: view.at($0)) } == [
        "Red", "mine", "Blue", "Green", "Orange",
      ])
    #expect(listed(view.at("d")) == ["user.xdg.tags"])
  }

  @Test func commentOfNetatalk_isReturned() throws {
    var metadata = TestTree.netatalk(TestTree.finderInfo(0))
    metadata.replaceSubrange(46..<50, with: [0, 0, 0, 4])
    metadata.replaceSubrange(154..<158, with: Array("note".utf8))
    let view = try MountedView { root in
      for name in ["a.txt", "b.txt"] { try put("x", at: "\(root)/\(name)") }
      _ = setAttribute("user.org.netatalk.Metadata", to: metadata, of: "\(root)/a.txt")
      try put(metadata, at: "\(root)/.AppleDouble/b.txt")
    }
    for name in ["a", "b"] {
      #expect(values(view.at(name)) == [nil, "note", nil])
      #expect(listed(view.at(name)) == ["user.xdg.comment"])
    }
  }

  @Test(arguments: ["finder-info=off", "profile=none"])
  func withoutFinderInfo_onlyAttributesOfFileItselfAreShown(options: String) throws {
    let view = try MountedView(options) { root in
      try put("x", at: "\(root)/a.txt")
      for store in Self.stores { try store.write(root, "a.txt", "mac") }
      _ = setAttribute("user.xdg.comment", to: Array("mine".utf8), of: "\(root)/a.txt")
    }
    #expect(values(view.at("a.txt")) == [nil, "mine", nil])
    #expect(listed(view.at("a.txt")) == ["user.xdg.comment"])
  }

  @Test(arguments: stores.indices) func attributesWrittenLater_showAtOnceAndAreReported(store: Int) throws {
    let (name, write) = Self.stores[store]
    let view = try MountedView("finder-info=on") { root in
      for name in ["a.txt", "b.txt"] { try put("x", at: "\(root)/\(name)") }
      try write(root, "a.txt", "old")
    }
    #expect(view.listing() == ["a", "b"])
    let watcher = try InotifyWatcher(view.mountPoint)
    try write(view.source, "a.txt", "new")
    #expect(values(view.at("a")) == ["new,second", "new", "https://new.example/"], "\(name)")
    #expect(watcher.reportsChanges("attributes a"), "\(name): \(watcher.reportedEvents)")
    watcher.reset()
    try write(view.source, "b.txt", "new")
    #expect(values(view.at("b")) == ["new,second", "new", "https://new.example/"], "\(name)")
    #expect(watcher.reportsChanges("attributes b"), "\(name): \(watcher.reportedEvents)")
    #expect(eventually { listed(view.at("b")) == Set(Self.names) })
  }

  @Test func sidecarRemoved_isReported() throws {
    let view = try MountedView { root in
      try put("x", at: "\(root)/a.txt")
      try Self.stores[4].write(root, "a.txt", "old")
    }
    #expect(view.listing() == ["a"])
    let watcher = try InotifyWatcher(view.mountPoint)
    unlink(view.real("._a.txt"))
    #expect(values(view.at("a")) == [nil, nil, nil])
    #expect(watcher.reportsChanges("attributes a"))
  }

  @Test func netatalkFile_writtenLater_isReported() throws {
    let view = try MountedView("finder-info=on") { root in
      try put("x", at: "\(root)/a.txt")
      try put(TestTree.appleDouble(TestTree.finderInfo(0x0004)), at: "\(root)/.AppleDouble/a.txt")
    }
    #expect(view.listing() == ["a"])
    #expect(attribute("user.xdg.tags", of: view.at("a")) == "Green")
    let watcher = try InotifyWatcher(view.mountPoint)
    try put(TestTree.appleDouble(TestTree.finderInfo(0x000c)), at: view.real(".AppleDouble/a.txt"))
    #expect(attribute("user.xdg.tags", of: view.at("a")) == "Red")
    #expect(watcher.reportsChanges("attributes a"))
  }

  @Test func netatalkFilesOfAttributes_followTheirEntry() throws {
    let view = try MountedView("finder-info=on") { root in
      for name in ["a.txt", "b.txt", "c.txt", "d.txt", "Sub/x"] { try put(name, at: "\(root)/\(name)") }
      for name in ["a.txt", "b.txt", "c.txt"] {
        try Self.stores[5].write(root, name, String(name.prefix(1)))
      }
      try put("more", at: "\(root)/.AppleDouble/b.txt::EA::com.apple.quarantine")
      unlink("\(root)/.AppleDouble/c.txt::EA::\(MacAttributes.comment.replacing(":", with: ":3a"))")
    }
    func values(_ path: String) -> [String?] { self.values(view.at(path)) }
    #expect(values("d") == [nil, nil, nil])
    #expect(view.shell("mv a Sub/moved").status == 0)
    #expect(values("Sub/moved") == ["a,second", "a", "https://a.example/"])
    #expect(view.realListing(".AppleDouble").count == 10)
    let made = try #require(status(view.real("Sub/.AppleDouble")))
    #expect(made.st_mode == status(view.real(".AppleDouble"))?.st_mode)
    // Nothing of the replaced file passes for the new one's.
    #expect(view.shell("mv c b").status == 0)
    #expect(values("b") == ["c,second", nil, "https://c.example/"])
    #expect(view.realListing(".AppleDouble").count == 4)
    let exchange: CUnsignedInt = 2
    #expect(dfs_renameat(AT_FDCWD, view.at("b"), AT_FDCWD, view.at("d"), exchange) == 0)
    #expect(values("d") == ["c,second", nil, "https://c.example/"])
    #expect(values("b") == [nil, nil, nil])
    #expect(view.shell("rm d").status == 0)
    #expect(view.realListing(".AppleDouble") == [])
  }

  @Test(.asRoot, .programForAll) func unreadableSidecar_isNotReadForOtherUsers() throws {
    let view = try MountedView("allow_other") { root in
      try put("x", at: "\(root)/a.txt")
      try Self.stores[4].write(root, "a.txt", "secret")
      chmod("\(root)/._a.txt", 0o600)
    }
    let read = "getfattr --only-values -n user.xdg.tags a"
    #expect(view.shell(read).text == "secret,second")
    let refused = OrdinaryUser.shell(OrdinaryUser.other, view, read)
    #expect(refused.status == 1 && refused.errorText.contains("No such attribute"), "\(refused.errorText)")
    chmod(view.real("._a.txt"), 0o644)
    #expect(OrdinaryUser.shell(OrdinaryUser.other, view, read).text == "secret,second")
  }

  @Test(.asRoot, .programForAll, .enabled(if: OrdinaryUser.canMount, "Ordinary users cannot mount here."))
  func mountOfOrdinaryUser_showsAndReportsAttributes() throws {
    let view = try MountedView { root in
      for name in ["a.txt", "b.txt"] { try put("x", at: "\(root)/\(name)") }
      try Self.stores[0].write(root, "a.txt", "mac")
      try Self.stores[4].write(root, "b.txt", "sidecar")
    }
    view.unmount()
    // The daemon of a user can report changes of files that the user may touch.
    _ = Shell.run("chown -R \(OrdinaryUser.owner) '\(view.source)'")
    #expect(OrdinaryUser.mount(view).status == 0)
    let read = "ls >/dev/null; getfattr --only-values -n user.xdg.tags a b"
    #expect(OrdinaryUser.shell(OrdinaryUser.owner, view, read).text == "mac,secondsidecar,second")
    let (log, watcher) = ("\(view.source).events", "\(view.source).py")
    try put(Self.watching, at: watcher)
    let watching = Shell.start(
      "exec setpriv --reuid=\(OrdinaryUser.owner) --regid=\(OrdinaryUser.owner) --clear-groups "
        + "/usr/bin/python3 '\(watcher)' '\(view.mountPoint)' >'\(log)'")
    #expect(eventually(within: .work) { (text(log) ?? "").contains("ready") })
    try Self.stores[4].write(view.source, "b.txt", "new")
    #expect(eventually(within: .work) { (text(log) ?? "").contains("attributes b") })
    watching.wait()
    let shown = OrdinaryUser.shell(OrdinaryUser.owner, view, "getfattr --only-values -n user.xdg.tags b")
    #expect(shown.text == "new,second")
    for path in [log, watcher] { unlink(path) }
  }

  /// Prints the first entry of a directory whose attributes change.
  private static let watching = """
    import ctypes, os, struct, sys
    libc = ctypes.CDLL(None)
    watch = libc.inotify_init1(0)
    assert libc.inotify_add_watch(watch, sys.argv[1].encode(), 4) > 0
    print("ready", flush=True)
    event = os.read(watch, 4096)
    print("attributes", event[16:].split(b"\\0")[0].decode(), flush=True)
    """

  /// What programs do with each file of a directory, `name`, as statements of Python.
  private static let perFile = [
    "os.listxattr(name)", "try: os.getxattr(name, 'user.absent')\n  except OSError: pass",
    "try: os.getxattr(name, 'security.selinux')\n  except OSError: pass",
  ]

  /// The daemon serves a file without metadata by as many system calls as with `finder-info=off`. The kernel knows the names.
  @Test(.tracing, arguments: perFile) func fileWithoutMetadata_costsNoMoreSystemCalls(statement: String)
    throws
  {
    let counts = try ["finder-info=off", "finder-info=auto"].map { options in
      let view = try MountedView(options) { root in
        for number in 0..<500 { try put("x", at: "\(root)/file\(number).txt") }
      }
      #expect(view.shell("ls -l").status == 0)
      let log = "\(view.source).calls"
      defer { unlink(log) }
      let tracer = try Tracer(of: try #require(view.daemon), recording: Self.calls, to: log)
      let program = "import os\nfor name in os.listdir('.'):\n  \(statement)"
      #expect(view.shell("python3 -c \"\(program)\"").status == 0)
      tracer.stop()
      return (text(log) ?? "").split(separator: "\n").count
    }
    #expect(counts[0] >= 500 && counts[1] <= counts[0] + 20, "\(statement): \(counts)")
  }

  /// Not those by which the daemon looks at the client and at its own threads: their number depends on the moment.
  private static let calls = [
    "openat2", "fstat", "newfstatat", "statx", "getxattr", "lgetxattr", "listxattr", "llistxattr",
    "getdents64",
    "pread64", "readlinkat",
  ]
}
