import Glibc
import SystemPackage
import Testing

/// The daemon reaches a limit of the system: it reports that, and continues with what it has.
@Suite(.mounting) struct LimitTests {
  /// To how many open files the limit can be raised.
  private static var mostDescriptors: rlim_t {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    return limit.rlim_max
  }

  /// A view with a daemon that was started by a shell with limits, for example of `ulimit`.
  private func view(
    _ limits: String, _ options: String = "language=en", build: (String) throws -> Void = { _ in }
  ) throws -> MountedView {
    let view = try MountedView(options, build: build)
    view.unmount()
    let outcome = Shell.run(
      "\(limits) && exec '\(Displayfs.path)' mount -o '\(options)' '\(view.source)' '\(view.mountPoint)'")
    try #require(outcome.status == 0, "\(outcome.complaint)")
    return view
  }

  @Test(arguments: ["language=en", "profile=none"])
  func nameOperations_whileDescriptorsAreUsedUp_succeed(options: String) throws {
    let view = try view("ulimit -n 256", options) { root in
      try put("x", at: "\(root)/Folder/Sub/notes.txt")
      for number in 0..<40 { try put("\(number)", at: "\(root)/many\(number)/deep/file") }
    }
    var files: [OpenFile] = []
    var refusal: Errno?
    while files.count < 400, refusal == nil {
      do { files.append(try OpenFile(view.at("file\(files.count)"), O_RDWR | O_CREAT)) } catch {
        refusal = error as? Errno
      }
    }
    #expect(refusal == .tooManyOpenFilesInSystem)
    #expect(files.count > 100, "\(files.count)")
    // A file that could not be opened was not created either.
    #expect(!isThere(view.real("file\(files.count)")))
    for number in 0..<40 { #expect(view.listing("many\(number)/deep") == ["file"]) }
    #expect(mkdir(view.at("New"), 0o755) == 0)
    #expect(rename(view.at("Folder/Sub"), view.at("New/Sub")) == 0)
    #expect(unlink(view.at("file0")) == 0)
    #expect(chmod(view.at("New/Sub/notes.txt"), 0o600) == 0)
    #expect(rmdir(view.at("Folder")) == 0)
    for (number, file) in files.enumerated() { #expect(file.write("\(number)", at: 0) > 0) }
    files.removeLast(10)
    #expect(eventually { text(view.at("New/Sub/notes.txt")) == "x" })
    #expect(text(view.real("file1")) == "1")
  }

  /// Threads that open something wait while the kernel enlarges the table of descriptors of their process.
  @Test(.enabled(if: LimitTests.mostDescriptors >= 2048, "Too few descriptors are permitted here."))
  func tableOfDescriptors_withManyFilesOpen_isAsLargeAsAtFirst() throws {
    let view = try view("ulimit -S -n 128")
    let daemon = try #require(view.daemon)
    func tableSize() throws -> Int {
      let line = try #require(
        text("/proc/\(daemon)/status")?.split(separator: "\n").first { $0.hasPrefix("FDSize:") })
      return try #require(line.split(separator: "\t").last.flatMap { Int($0) })
    }
    let atFirst = try tableSize()
    let files = try (0..<300).map { try OpenFile(view.at("file\($0)"), O_RDWR | O_CREAT) }
    #expect(names("/proc/\(daemon)/fd").count > 256)
    #expect(try tableSize() == atFirst)
    withExtendedLifetime(files) {}
  }

  @Test func write_beyondFileSizeLimitOfStarter_doesNotEndDaemon() throws {
    let view = try view("ulimit -S -f 8")
    let content = [UInt8](repeating: 0x41, count: 64 << 10)
    try put(content, at: view.at("large.bin"))
    let isWritten = contents(view.real("large.bin")) == content
    #expect(isWritten)
    for options in ["passthrough=off,language=en", "profile=none"] {
      let hard = try self.view("ulimit -f 8", options)
      let file = try OpenFile(hard.at("large.bin"), O_RDWR | O_CREAT)
      _ = file.write(String(repeating: "A", count: 64 << 10))
      _ = file.write("B", at: 64 << 10)
      #expect(hard.shell("echo still there >notes; cat notes").text == "still there")
    }
  }

  /// As many files as `DISPLAYFS_CACHED_FILES` says, 12 000 if it says nothing, known to the kernel at once.
  @Test(
    .asRoot, .enabled(if: access("/proc/sys/vm/drop_caches", W_OK) == 0, "Caches cannot be dropped here."),
    .enabled(
      if: !Sanitizer.isAnyUsed,
      "A sanitizer's allocator returns next to nothing of freed memory to the system, and AddressSanitizer keeps 256 MB of it."
    )
  )
  func knownFiles_needNoDescriptorsAndReleaseTheirMemory() throws {
    let count = getenv("DISPLAYFS_CACHED_FILES").flatMap { Int(String(cString: $0)) } ?? 12_000
    let view = try view("ulimit -n 1024") { root in
      let stem = String(repeating: "x", count: 180)
      for number in 0..<count {
        let folder = "\(root)/folder\(number / 1000 * 1000)"
        if number % 1000 == 0 { makeDirectory(folder) }
        close(open("\(folder)/document number \(number) \(stem).txt", O_CREAT | O_CLOEXEC, 0o644))
      }
    }
    let daemon = try #require(view.daemon)
    func resident() throws -> Int {
      let lines = (text("/proc/\(daemon)/status") ?? "").split(separator: "\n")
      let line = try #require(lines.first { $0.hasPrefix("VmRSS:") })
      return try #require(Int(line.split(separator: " ").dropLast().last ?? ""))
    }
    func known() throws -> Int { try view.reportedNumber("known files") }
    let atFirst = try resident()
    for number in stride(from: 0, to: count, by: 1000) {
      let folder = view.at("folder\(number)")
      for name in names(folder) { #expect(isThere("\(folder)/\(name)")) }
    }
    #expect(try known() > count)
    let full = try resident()
    #expect(names("/proc/\(daemon)/fd").count < 1024)
    // Kilobytes. A node has 110 bytes and its name, here a long one; the directories used last, a quarter as many as
    // descriptors, are remembered with both names of all they list.
    let listed = min(count, 1024 / 4 * 1000)
    #expect(
      full - atFirst < (count * (110 + 224) + listed * 320) / 1024 + 4000,
      "\(atFirst) KB at first, \(full) KB for \(count) files")
    try put("2\n", at: "/proc/sys/vm/drop_caches")
    try waitUntil { try known() < count / 10 }
    var left = 0
    _ = try eventually(within: .work) {
      left = try resident()
      return left - atFirst < (full - atFirst) / 2
    }
    #expect(left - atFirst < (full - atFirst) / 2, "\(atFirst) KB at first, then \(full), at last \(left)")
    print(
      "\(count) known files: the daemon has \(atFirst) KB at first, \(full) KB with them, \(left) KB after them"
    )
    #expect(view.listing("folder0").count == 1000)
  }

  /// Runs in a user namespace, which has limits of its own, so that other processes are not affected.
  @Test(
    .asRoot, .enabled(if: Shell.run("unshare -Urm true").status == 0, "User namespaces cannot be made here."),
    arguments: ["max_fanotify_groups max_inotify_instances", "max_fanotify_marks max_inotify_watches"])
  func directories_withoutWatches_areShownCorrectly(limits: String) throws {
    let view = try MountedView { root in try put("x", at: "\(root)/d/notes.txt") }
    view.unmount()
    let script = """
      # Before Linux 5.13 ordinary users have no fanotify.
      for limit in \(limits); do test ! -e /proc/sys/user/$limit || echo 0 >/proc/sys/user/$limit || exit 9; done
      '\(Displayfs.path)' mount -o language=en "$SOURCE" "$VIEW" || exit 8
      ls "$VIEW/d"
      for number in 1 2 3 4 5 6 7 8 9 10; do
        echo x >"$SOURCE/d/new$number.pdf"; test "$(echo $(ls "$VIEW/d"))" = "new$number notes" || echo "missing $number"
        mv "$SOURCE/d/new$number.pdf" "$SOURCE/d/old.pdf"; test "$(echo $(ls "$VIEW/d"))" = "notes old" || echo "not moved $number"
        rm "$VIEW/d/old"; test "$(ls "$VIEW/d")" = notes || echo "still there $number"
      done
      '\(Displayfs.path)' unmount "$VIEW"
      """
    let outcome = Shell.run(
      ["unshare", "-Urm", "/bin/sh", "-c", script], with: ["SOURCE": view.source, "VIEW": view.mountPoint])
    #expect(outcome.text == "notes", "\(outcome.complaint)")
    #expect(outcome.status == 0, "\(outcome.complaint)")
  }
}
