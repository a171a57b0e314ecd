import Glibc
import SystemPackage
import Testing

/// Containers: clients and daemons in mount and user namespaces of their own, and trees that are mounted with other owners.
@Suite(.mounting, .asRoot, .needing("python3")) struct NamespaceTests {
  /// Root of the namespace is this user outside of it; the namespace has a thousand users.
  private static let first: uid_t = 61000
  private static let users = [UserNamespace.Range(0, first, count: 1000)]

  /// A tree of root with two equal directories of the namespace's root, with a file of another user of the namespace.
  private static func build(_ root: String) throws {
    for directory in ["a", "b"].map({ "\(root)/\($0)" }) {
      for (name, owner) in [("own", first), ("other", first + 33), ("roots", 0)] {
        try put("\(name)\n", at: "\(directory)/\(name).txt")
        chown("\(directory)/\(name).txt", owner, owner)
        chmod("\(directory)/\(name).txt", 0o600)
      }
      try put("text\n", at: "\(directory)/Letter.rtfd/TXT.rtf")
      try put("x", at: "\(directory)/closed/x")
      chmod("\(directory)/closed", 0o700)
      for path in ["", "/Letter.rtfd", "/Letter.rtfd/TXT.rtf"] { chown(directory + path, first, first) }
    }
  }

  /// What root of the namespace tries, by the rights of a user.
  private static let byUser = [
    "reads its own": "cat own.txt", "writes its own": "echo x >>own.txt", "makes": "echo x >new.txt",
    "renames": "echo x >old.txt && mv old.txt newer.txt", "removes": "echo x >old.txt && rm old.txt",
    "reads a package": "cat Letter.rtfd/TXT.rtf", "sets set-user-ID": "cp /bin/true prog && chmod u+s prog",
    "lets another user read that one's": "setpriv --reuid=33 --regid=33 --clear-groups cat other.txt",
  ]
  /// By its capabilities, which hold for the users of the namespace.
  private static let byCapability = [
    "reads another's": "cat other.txt", "writes another's": "echo x >>other.txt",
    "gives away": "echo x >given.txt && chown 33:33 given.txt", "changes another's": "chmod 640 other.txt",
  ]
  /// What is root's alone.
  private static let byRoot = [
    "reads root's": "cat roots.txt", "writes root's": "echo x >>roots.txt",
    "takes root's": "chown 0 roots.txt",
    "changes root's": "chmod 644 roots.txt", "enters root's": "ls closed",
    "makes a device": "mknod device c 1 3",
    "sets a trusted attribute": "setfattr -n trusted.x -v 1 own.txt",
    "makes beside": "echo x >../beside.txt",
    "lets another user read its own": "setpriv --reuid=33 --regid=33 --clear-groups cat own.txt",
  ]

  /// The attempts of all three kinds, as a script that prints those that succeed.
  private static let attempts = [byUser, byCapability, byRoot].joined().map { name, script in
    "if (\(script)) >/dev/null 2>&1; then echo \"\(name)\"; fi"
  }.sorted().joined(separator: "\n")

  private func succeeding(in directory: String) -> Set<String> {
    let outcome = UserNamespace.run(Self.users, Self.attempts, in: directory)
    return Set(outcome.text.split(separator: "\n").map(String.init))
  }

  @Test(.userNamespaces) func rootOfUserNamespace_inView_hasRightsOfItsUserAlone() throws {
    let view = try MountedView("allow_other", build: Self.build)
    #expect(succeeding(in: view.at("b")) == Set(Self.byUser.keys))
    #expect(succeeding(in: view.real("a")) == Set(Self.byUser.keys).union(Self.byCapability.keys))
    for name in ["new.txt", "newer.txt", "prog"] {
      #expect(status(view.real("b/\(name)"))?.st_uid == Self.first, "\(name)")
      #expect(status(view.real("b/\(name)"))?.st_mode == status(view.real("a/\(name)"))?.st_mode, "\(name)")
    }
  }

  @Test(.userNamespaces, .programForAll) func viewMountedInUserNamespace_givesRightsOfTree() throws {
    let view = try MountedView(build: Self.build)
    view.unmount()
    let outcome = UserNamespace.run(
      Self.users,
      """
      '\(Displayfs.path)' mount -o language=en,allow_other '\(view.source)' '\(view.mountPoint)' || exit
      cd '\(view.mountPoint)/b'
      \(Self.attempts)
      rm Letter || echo package not removed
      cd /
      '\(Displayfs.path)' unmount '\(view.mountPoint)'
      """)
    #expect(outcome.status == 0, "\(outcome.complaint)")
    let succeeded = Set(outcome.text.split(separator: "\n").map(String.init))
    #expect(succeeded == Set(Self.byUser.keys).union(Self.byCapability.keys), "\(outcome.complaint)")
    #expect(status(view.real("b/given.txt"))?.st_uid == Self.first + 33)
    #expect(!isThere(view.real("b/Letter.rtfd")))
  }

  @Test(.userNamespaces, .enabled(if: OrdinaryUser.canMount, "Ordinary users cannot mount here."))
  func privateView_isClosedToUserNamespacesOfOthers() throws {
    let view = try MountedView { root in try put("text", at: "\(root)/notes.txt") }
    view.unmount()
    try #require(OrdinaryUser.mount(view).status == 0)
    let command = ["unshare", "-Urm", "cat", view.at("notes")]
    #expect(OrdinaryUser.run(OrdinaryUser.owner, command).text == "text")
    #expect(OrdinaryUser.run(OrdinaryUser.other, command).status != 0)
    // Its user is there, but not the client.
    let owner = try #require(OrdinaryUser.identifier)
    let container = [UserNamespace.Range(0, Self.first), UserNamespace.Range(1, owner)]
    #expect(UserNamespace.run(container, "cat '\(view.at("notes"))'").status != 0)
  }

  // MARK: - Mount namespaces

  /// A container keeps what is mounted in it, and with it the daemon, when the view is unmounted outside.
  @Test func viewBoundInContainer_outlivesItsUnmount() throws {
    let view = try MountedView { root in try put("text", at: "\(root)/notes.txt") }
    let daemon = try #require(view.daemon)
    let place = try TemporaryDirectory()
    makeDirectory(place.path("bound"))
    let container = Shell.start(
      """
      exec unshare -m --propagation private sh -c '
        mount --bind \(view.mountPoint) \(place.path("bound"))
        umount \(view.mountPoint)
        echo $$ >\(place.path("id")).new && mv \(place.path("id")).new \(place.path("id"))
        while [ ! -e \(place.path("end")) ]; do sleep 0.01; done'
      """)
    try waitUntil { isThere(place.path("id")) }
    let id = try #require(text(place.path("id"))?.split(separator: "\n").first.map(String.init))
    func inside(_ script: String) -> Outcome {
      Shell.run(["nsenter", "-m", "-t", id, "sh", "-c", "cd '\(place.path("bound"))' && { \(script)\n}"])
    }
    #expect(inside("cat notes").text == "text")
    #expect(inside("ls").text == "notes")
    let watcher = try InotifyWatcher("/proc/\(id)/root\(place.path("bound"))")
    try put("new", at: view.real("report.pdf"))
    #expect(watcher.reportsChanges("create report", "written report"), "\(watcher.reportedEvents)")
    view.unmount()
    try put("newer", at: view.real("report.pdf"))
    #expect(eventually { inside("cat report").text == "newer" })
    #expect(inside("mv report paper; rm notes").status == 0)
    #expect(names(view.source) == ["paper.pdf"])
    #expect(isThere("/proc/\(daemon)"))
    try put("", at: place.path("end"))
    container.wait()
    #expect(eventually(within: .work) { !isThere("/proc/\(daemon)") })
  }

  // MARK: - Mounts with other owners

  /// The disk has users from 61000 on, the mount and the view of it from 62000 on.
  private func idMappedView(_ ranges: [UserNamespace.Range]) throws -> MountedView {
    try MountedView("allow_other") { root in
      makeDirectory("\(root)-disk")
      try Self.build("\(root)-disk")
      chmod("\(root)-disk", 0o777)
      let mounted = UserNamespace.mountIDMapped("\(root)-disk", at: root, ranges)
      try #require(mounted.status == 0, "\(mounted.complaint)")
    }
  }

  private func owner(_ path: String) -> uid_t? { status(path)?.st_uid }

  @Test(.idMappedMounts) func idMappedSource_isReadAndWrittenByItsOwners() throws {
    let view = try idMappedView([.init(0, 0), .init(61000, 62000, count: 100)])
    let disk = "\(view.source)-disk"
    #expect(owner(view.at("a/own")) == 62000 && owner(view.at("a/other")) == 62033)
    #expect(owner(view.at("a/Letter")) == 62000 && owner(view.at("a/roots")) == 0)
    let work = view.run(
      as: 62000,
      """
      set -e; cd a; cat own; echo x >>own; echo x >new.txt; mkdir folder; ln own link; mv new newer
      cp Letter Copy; rm Letter; setfacl -m u:62033:r own
      """)
    #expect(work.status == 0 && work.text == "own", "\(work.complaint)")
    for name in ["own.txt", "newer.txt", "folder", "link.txt", "Copy.rtfd", "Copy.rtfd/TXT.rtf"] {
      #expect(owner("\(disk)/a/\(name)") == 61000, "\(name)")
    }
    #expect(!isThere("\(disk)/a/Letter.rtfd"))
    #expect(view.run(as: 62033, "cat a/own a/other").text == "own\nx\nother")
    #expect(view.run(as: 62001, "cat a/own").status != 0)
    // The owner that the disk records has no rights by that.
    #expect(view.run(as: 61000, "cat b/own").status != 0)
    #expect(view.run(as: 0, "echo x >top.txt && chown 62033:62033 top.txt && cat b/own b/roots").status == 0)
    #expect(owner("\(disk)/top.txt") == 61033)
    // As on the mount itself: no owner can be stored that the mount does not have.
    for place in [view.mountPoint, view.source] {
      #expect(Shell.run("setpriv --reuid=7 --regid=7 --clear-groups touch '\(place)/file'").status != 0)
      #expect(Shell.run("chown 7 '\(place)/b/own.txt'").status != 0)
    }
    try put("x", at: "\(disk)/behind.txt")
    #expect(eventually { isThere(view.at("behind")) })
  }

  /// The daemon cannot make a staging directory: root's files cannot be stored.
  @Test(.idMappedMounts) func idMappedSource_withoutRoot_hasPackagesRemoved() throws {
    let view = try idMappedView([.init(61000, 62000, count: 100)])
    #expect(owner(view.at("a/roots")) == 65534)
    let work = view.run(as: 62000, "cd a && rm Letter && mv -f own ../b/Letter && ls ../b")
    #expect(work.text == "Letter\nclosed\nother\nown\nroots", "\(work.complaint)")
    #expect(!isThere("\(view.source)-disk/a/Letter.rtfd"))
    #expect(text("\(view.source)-disk/b/Letter.txt") == "own\n")
  }

  /// Until FUSE's FUSE_ALLOW_IDMAP, which gives a daemon no ids of clients but for those that make something.
  @Test(.idMappedMounts) func viewItself_isNotMountedWithOtherOwners() throws {
    let view = try MountedView("allow_other")
    let place = try TemporaryDirectory()
    makeDirectory(place.path("mount"))
    let outcome = UserNamespace.mountIDMapped(
      view.mountPoint, at: place.path("mount"), [.init(61000, 62000)])
    #expect(outcome.errorText.contains("[Errno \(EINVAL)]"), "\(outcome.complaint)")
  }
}
