import CLinux
import Glibc
import SystemPackage
import Testing

@Suite(.mounting) struct DirectoryTests {
  @Test(arguments: ["", "profile=none"])
  func listing_duringChanges_hasUnchangedEntriesOnce(options: String) throws {
    let count = 100_000
    let view = try MountedView(options) { root in
      for number in 0..<count {
        let file = open("\(root)/stays\(number).txt", O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
        try #require(file >= 0)
        close(file)
      }
      for number in 0..<500 { try put("", at: "\(root)/goes\(number).txt") }
    }
    let suffix = options.isEmpty ? "" : ".txt"
    let directory = try #require(opendir(view.mountPoint))
    defer { closedir(directory) }
    var seen: [FileName: Int] = [:]
    var read = 0
    while let entry = readdir(directory) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: UInt8.self, capacity: 256) {
          FileName(UnsafeBufferPointer(start: $0, count: strlen($0)))
        }
      }
      seen[name, default: 0] += 1
      read += 1
      guard read % 50 == 0 else { continue }
      // Half of the changes through the mount, half beside it.
      let place = read % 100 == 0 ? view.mountPoint : view.source
      unlink("\(place)/goes\(read / 50).txt")
      let made = open("\(place)/comes\(read).txt", O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
      if made >= 0 { close(made) }
      rename("\(place)/comes\(read).txt", "\(place)/came\(read).txt")
    }
    let wrong = (0..<count).filter { seen[FileName("stays\($0)\(suffix)")] != 1 }
    #expect(wrong.isEmpty, "\(wrong.count) of \(count) were not listed exactly once, as \(wrong.prefix(3))")
    #expect(seen.values.allSatisfy { $0 == 1 })
    #expect(view.listing().count == view.realListing().count)
  }

  @Test func seekdir_toEarlierPosition_repeatsEntries() throws {
    let view = try MountedView { root in
      for number in 0..<300 { try put("", at: "\(root)/file\(number).txt") }
    }
    let directory = try #require(opendir(view.mountPoint))
    defer { closedir(directory) }
    func next() -> FileName? {
      guard let entry = readdir(directory) else { return nil }
      return withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: UInt8.self, capacity: 256) {
          FileName(UnsafeBufferPointer(start: $0, count: strlen($0)))
        }
      }
    }
    for _ in 0..<100 { _ = next() }
    let position = telldir(directory)
    let following = (0..<50).map { _ in next() }
    seekdir(directory, position)
    #expect((0..<50).map { _ in next() } == following)
    try put("", at: view.at("new.txt"))
    rewinddir(directory)
    var all: Set<FileName> = []
    while let name = next() { all.insert(name) }
    #expect(all.count == 303)
    #expect(all.contains("new"))
  }

  @Test func listedTypesAndInodeNumbers_areThoseOfEntries() throws {
    let view = try MountedView { root in
      try put("x", at: "\(root)/notes.txt")
      try put("x", at: "\(root)/Letter.rtfd/TXT.rtf")
      makeDirectory("\(root)/Folder")
      symlink("notes.txt", "\(root)/link")
      mkfifo("\(root)/pipe", 0o644)
    }
    let directory = try #require(opendir(view.mountPoint))
    defer { closedir(directory) }
    var types: [String: UInt8] = [:]
    while let entry = readdir(directory) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      guard name != ".." else { continue }
      types[name] = entry.pointee.d_type
      #expect(entry.pointee.d_ino == status(view.at(name))?.st_ino, "\(name)")
    }
    // DT_DIR, DT_REG and DT_LNK. A special file may be listed as DT_UNKNOWN, and programs then stat it.
    let special = types.removeValue(forKey: "pipe")
    #expect(special == 0 || special == 1)
    #expect(types == [".": 4, "notes": 8, "Letter": 8, "Folder": 4, "link": 10])
  }

  @Test func tree_isBuiltCopiedAndRemovedByCommonTools() throws {
    let view = try MountedView()
    let script = """
      mkdir -p a/b/c/d && for i in 1 2 3 4 5; do echo $i >a/b/c/$i.txt; done && cp -a a copy && diff -r a copy
      tar -cf tree.tar a && mkdir out && tar -xf tree.tar -C out && diff -r a out/a && rm -r a copy out tree && ls -A
      """
    let outcome = view.shell(script)
    #expect(outcome.status == 0, "\(outcome.errorText)")
    #expect(outcome.text == "")
    #expect(view.realListing() == [])
  }

  @Test func recreatedDirectory_hasNewContentsOnly() throws {
    let view = try MountedView()
    for round in 0..<10 {
      let folder = view.at(round % 2 == 0 ? "Folder" : "Other")
      #expect(failure { mkdir(folder, 0o755) } == nil)
      try put("\(round)", at: view.at("draft"))
      #expect(failure { rename(view.at("draft"), folder + "/notes") } == nil)
      #expect(text(folder + "/notes") == "\(round)")
      #expect(names(folder) == ["notes"])
      #expect(failure { unlink(folder + "/notes") } == nil)
      #expect(failure { rmdir(folder) } == nil)
    }
  }

  @Test func deepTree_isBuiltAndRemoved() throws {
    let view = try MountedView()
    let path = (0..<100).map { "level\($0)" }.joined(separator: "/")
    #expect(
      view.shell("mkdir -p \(path) && echo deep >\(path)/notes.txt && cat \(path)/notes").text == "deep")
    #expect(view.shell("find . -name notes | wc -l").text == "1")
    #expect(view.shell("rm -r level0 && ls").text == "")
  }

  @Test func workingDirectory_isReachedByEitherName() throws {
    let view = try MountedView("language=de") { root in
      try put("\"Notes\" = \"Notizen\";\n", at: "\(root)/Notes.localized/.localized/de.strings")
      try put("x", at: "\(root)/Notes.localized/a.txt")
    }
    #expect(view.shell("cd Notizen && cat a && cd ../Notes.localized && cat a.txt && ls").text == "xxa")
    #expect(["Notizen", "Notes.localized"].contains(view.shell("cd Notizen && basename \"$(pwd -P)\"").text))
  }
}
