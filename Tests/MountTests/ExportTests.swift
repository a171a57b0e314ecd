import Glibc
import SystemPackage
import Testing

/// File handles of an exported view: what an NFS server hands to its clients, which keep it for days.
@Suite(.mounting, .asRoot, .exporting, .serialized) struct ExportTests {
  private static let stale = Errno(rawValue: ESTALE)

  private func build(_ root: String) throws {
    try put("plain", at: "\(root)/Documents/notes.txt")
    try put("hidden", at: "\(root)/.hidden/folder/file")
    try put("text", at: "\(root)/Letter.rtfd/TXT.rtf")
    try put("localized", at: "\(root)/Work.localized/report.txt")
    makeDirectory("\(root)/Work.localized/.localized")
    try put("\"Work\" = \"Arbeit\";", at: "\(root)/Work.localized/.localized/en.strings")
    symlink("nowhere", "\(root)/link")
    mkfifo("\(root)/pipe", 0o600)
  }

  private static let paths = [
    "Documents", "Documents/notes", ".hidden", ".hidden/folder", ".hidden/folder/file", "Letter",
    "Letter.rtfd",
    "Letter.rtfd/TXT.rtf", "Work.localized", "Work.localized/report.txt", "link", "pipe",
  ]

  private func dropCaches() throws { try put("2\n", at: "/proc/sys/vm/drop_caches") }

  private func remount(_ view: MountedView, _ options: String = "export") throws {
    view.unmount()
    try view.mount(options)
  }

  enum Event: CaseIterable {
    case nothing, cachesDropped, restarted, restartedAndCachesDropped
  }

  private func apply(_ event: Event, to view: MountedView) throws {
    if event == .restarted || event == .restartedAndCachesDropped { try remount(view) }
    if event == .cachesDropped || event == .restartedAndCachesDropped { try dropCaches() }
  }

  @Test(arguments: Event.allCases) func handle_opensSameFileAfter(event: Event) throws {
    let view = try MountedView("export", build: build)
    let known = try Self.paths.map { path in
      (path, try FileHandle(path, of: view.mountPoint), try #require(status(view.at(path)), "\(path)"))
    }
    try apply(event, to: view)
    for (path, handle, before) in known {
      let now = try handle.status
      #expect(now.st_ino == before.st_ino && now.st_mode == before.st_mode, "\(path)")
      #expect(now.st_size == before.st_size, "\(path)")
    }
    #expect(try FileHandle("Documents/notes", of: view.mountPoint).text == "plain")
    let package = try #require(known.first { $0.0 == "Letter" }).1
    #expect(try package.text.contains("TXT.rtf"))
  }

  @Test(arguments: Event.allCases) func handle_ofRemovedFile_isStaleAfter(event: Event) throws {
    let view = try MountedView("export")
    var handles: [FileHandle] = []
    for number in 0..<50 {
      try put("old \(number)", at: view.at("file"))
      handles.append(try FileHandle("file", of: view.mountPoint))
      #expect(unlink(number % 2 == 0 ? view.at("file") : view.real("file")) == 0)
    }
    // The file system gives it the inode number of one of those.
    try put("new", at: view.at("file"))
    try apply(event, to: view)
    for handle in handles { #expect(throws: Self.stale) { try handle.text } }
    #expect(try FileHandle("file", of: view.mountPoint).text == "new")
  }

  /// A client that holds a handle means the file, whatever name it has.
  @Test(arguments: Event.allCases) func handle_ofFileMovedInBackingTree_opensItAfter(event: Event) throws {
    let view = try MountedView("export", build: build)
    let file = try FileHandle("Documents/notes", of: view.mountPoint)
    let directory = try FileHandle("Documents", of: view.mountPoint)
    #expect(rename(view.real("Documents/notes.txt"), view.real("Work.localized/other.txt")) == 0)
    #expect(rename(view.real("Documents"), view.real(".hidden/Papers")) == 0)
    try apply(event, to: view)
    #expect(try file.text == "plain")
    #expect(try directory.status.st_ino == status(view.real(".hidden/Papers"))?.st_ino)
  }

  @Test(arguments: Event.allCases) func handle_ofFileMovedOutOfSource_isStaleAfter(event: Event) throws {
    let view = try MountedView("export", build: build)
    let file = try FileHandle("Documents/notes", of: view.mountPoint)
    let directory = try FileHandle(".hidden/folder", of: view.mountPoint)
    let inside = try FileHandle(".hidden/folder/file", of: view.mountPoint)
    #expect(rename(view.real("Documents/notes.txt"), view.source + "-notes") == 0)
    #expect(rename(view.real(".hidden/folder"), view.source + "-folder") == 0)
    try apply(event, to: view)
    if event == .nothing {
      // The kernel still knows the nodes, and asks for what it needs of them.
      try dropCaches()
    }
    for handle in [file, directory, inside] { #expect(throws: Self.stale) { try handle.status } }
  }

  @Test(arguments: [Event.restarted, .restartedAndCachesDropped])
  func handle_ofHiddenFile_isStaleWhereHiddenFilesAreDenied(event: Event) throws {
    let view = try MountedView("export", build: build)
    let hidden = try [".hidden", ".hidden/folder", ".hidden/folder/file"].map {
      try FileHandle($0, of: view.mountPoint)
    }
    let shown = try FileHandle("Documents/notes", of: view.mountPoint)
    try remount(view, "export,hidden=deny")
    if event == .restartedAndCachesDropped { try dropCaches() }
    for handle in hidden { #expect(throws: Self.stale) { try handle.status } }
    #expect(try shown.text == "plain")
  }

  /// The handle of the removed file is refused while a process has the file open, and the new file has another handle.
  @Test(.enabled(if: Machine.reusesInodeNumbers, "Inode numbers are not reused here."))
  func handle_ofFileWithInodeNumberOfRemovedOne_opensIt() throws {
    let view = try MountedView("export", build: build)
    try put("old", at: view.real("old"))
    let old = try FileHandle("old", of: view.mountPoint)
    var held: OpenFile? = try OpenFile(view.real("old"))
    let inode = try #require(held).status.st_ino
    #expect(unlink(view.real("old")) == 0)
    try dropCaches()
    #expect(throws: Self.stale) { try old.status }
    held = nil
    let name = try #require(
      try (0..<256).map { "new\($0)" }.first { name in
        try put("new", at: view.real(name))
        return status(view.real(name))?.st_ino == inode
      })
    let new = try FileHandle(name, of: view.mountPoint)
    try dropCaches()
    // Neither the kernel nor the daemon knows any longer where it is.
    #expect(rename(view.real(name), view.real(".hidden/\(name)")) == 0)
    try dropCaches()
    #expect(try new.text == "new")
    #expect(throws: Self.stale) { try old.status }
  }

  @Test func handle_ofFileWithTwoLinks_opensItByTheOther() throws {
    let view = try MountedView("export", build: build)
    let file = try FileHandle("Documents/notes", of: view.mountPoint)
    #expect(link(view.real("Documents/notes.txt"), view.real(".hidden/link")) == 0)
    #expect(unlink(view.at("Documents/notes")) == 0)
    try remount(view)
    try dropCaches()
    #expect(try file.text == "plain")
  }

  /// Whatever is made, removed and renamed on either side: a handle opens its file or is stale. `DISPLAYFS_SOAK_SECONDS` makes
  /// it longer.
  @Test func handle_whileFilesComeAndGo_opensNoOtherFile() throws {
    let view = try MountedView("export") { root in
      for name in ["a", ".b", "c.rtfd"] { makeDirectory("\(root)/\(name)") }
    }
    let seconds = getenv("DISPLAYFS_SOAK_SECONDS").flatMap { Int(String(cString: $0)) } ?? 4
    let end = ContinuousClock.now + .seconds(seconds)
    let seed = UInt64.random(in: 0 ... .max)
    var random = SplitMix(seed)
    var handles: [(handle: FileHandle, text: String)] = []
    var paths: [String: Int] = [:]
    var (opened, refused, restarts) = (0, 0, 0)
    func place() -> String {
      let directory = ["", "a/", ".b/", "c.rtfd/"].randomElement(using: &random)!
      return directory + ["x", "y.txt", ".z", "É"].randomElement(using: &random)!
        + "\(Int.random(in: 0..<4, using: &random))"
    }
    while ContinuousClock.now < end {
      let root = Bool.random(using: &random) ? view.source : view.mountPoint
      switch Int.random(in: 0..<100, using: &random) {
      case 0..<30:
        let path = place()
        if paths[path] != nil { continue }
        let text = "file \(handles.count)"
        try put(text, at: "\(root)/\(path)")
        paths[path] = handles.count
        // What was just done in the backing tree shows a moment later. Until then the name may lead to the file that had it.
        var handle: FileHandle?
        #expect(
          eventually {
            handle = try? FileHandle(path, of: view.mountPoint)
            return (try? handle?.text) == text
          }, "\(text), seed \(seed)")
        handles.append((try #require(handle), text))
      case 30..<45:
        guard let (path, _) = paths.randomElement(using: &random) else { continue }
        #expect(unlink("\(root)/\(path)") == 0, "seed \(seed)")
        paths[path] = nil
      case 45..<60:
        guard let (path, number) = paths.randomElement(using: &random) else { continue }
        let new = place()
        if paths[new] != nil { continue }
        #expect(rename("\(root)/\(path)", "\(root)/\(new)") == 0, "seed \(seed)")
        paths[path] = nil
        paths[new] = number
      case 60: try dropCaches()
      case 61 where restarts < seconds:
        try remount(view)
        restarts += 1
      default:
        // Most files are gone after a while: half of the time it is one of those that are there.
        let number =
          Bool.random(using: &random)
          ? paths.randomElement(using: &random)?.value : handles.indices.randomElement(using: &random)
        guard let number else { continue }
        let isThere = paths.values.contains(number)
        do {
          #expect(try handles[number].handle.text == handles[number].text, "seed \(seed)")
          opened += 1
        } catch let error as Errno {
          #expect(error == Self.stale && !isThere, "\(handles[number].text), seed \(seed)")
          refused += 1
        }
      }
    }
    #expect(opened > 0 && refused > 0)
    print("\(handles.count) files, \(opened) handles opened, \(refused) refused, \(restarts) restarts")
  }

  // MARK: Where there are no handles

  @Test(
    .enabled(
      if: !kernelRelease.lexicographicallyPrecedes([6, 9]), "Linux knows views without handles since 6.9."))
  func handle_ofViewThatIsNotExported_isRefused() throws {
    let view = try MountedView(build: build)
    #expect(throws: Errno(rawValue: EOPNOTSUPP)) { try FileHandle("Documents", of: view.mountPoint) }
  }

  @Test(.enabled(if: Machine.hasOtherUsers)) func export_byOrdinaryUser_isRefused() throws {
    let directory = try TemporaryDirectory()
    makeDirectory(directory.path("source"))
    makeDirectory(directory.path("view"))
    let outcome = Shell.run([
      "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", Displayfs.path, "mount", "-o", "export",
      directory.path("source"), directory.path("view"),
    ])
    #expect(outcome.status != 0 && outcome.errorText.contains("export needs root"), "\(outcome.complaint)")
  }

  @Test func export_ofFileSystemWithoutLastingHandles_isRefused() throws {
    let view = try MountedView(build: build)
    let directory = try TemporaryDirectory()
    let outcome = Displayfs.run(["mount", "-o", "export", view.mountPoint, directory.root])
    #expect(outcome.status != 0 && outcome.errorText.contains("cannot be exported"), "\(outcome.complaint)")
  }

  /// Handles of FUSE and of CephFS may look like those of a local file system and mean other files.
  @Test func export_ofServedFileSystem_isRefused() throws {
    #expect(throws: MountedView.MountFailure.self) {
      _ = try MountedView("export") { root in _ = try FaultyFileSystem(at: root) }
    }
  }

  /// XFS gives files on a large disk inode numbers with more than 32 bits.
  @Test(
    .enabled(
      if: Shell.run("command -v mkfs.xfs && grep -qw xfs /proc/filesystems").status == 0
        && Machine.hasLoopDevices,
      "There is no XFS here."))
  func handle_ofLargeInodeNumber_opensFileAfterRestart() throws {
    let view = try MountedView("export") { root in
      let image = root + ".image"
      let made = Shell.run(
        "truncate -s 6T '\(image)' && mkfs.xfs -q '\(image)' && mount -o loop '\(image)' '\(root)'")
      #expect(made.status == 0, "\(made.complaint)")
      // Directories are spread over the allocation groups.
      for number in 0..<20 { try put("file \(number)", at: "\(root)/directory \(number)/file") }
    }
    var handles: [FileHandle] = []
    var largest: ino_t = 0
    for number in 0..<20 {
      let path = "directory \(number)/file"
      handles.append(try FileHandle(path, of: view.mountPoint))
      largest = max(largest, try #require(status(view.at(path))).st_ino)
    }
    #expect(largest >= 1 << 32)
    try remount(view)
    try dropCaches()
    for (number, handle) in handles.enumerated() { #expect(try handle.text == "file \(number)") }
  }
}

extension Trait where Self == ConditionTrait {
  static var exporting: Self {
    .enabled(
      if: Machine.canExport, "Views of the file system here cannot be exported, or caches not be dropped.")
  }
}

extension Machine {
  static let canExport =
    geteuid() == 0 && access("/proc/sys/vm/drop_caches", W_OK) == 0 && (try? MountedView("export")) != nil
}
