import Glibc
import SystemPackage
import Testing

@testable import BackingTree

/// Records the reported names for two handlers of one directory: one without self events and one with them.
private struct RecordedChanges {
  let watch: ChangeWatch
  let subscription: ChangeWatch.Subscription
  private let subscriptionOfAll: ChangeWatch.Subscription
  private let others = Guarded<[String]>([])
  private let all = Guarded<[String]>([])

  init(_ directory: Directory, _ interface: ChangeWatch.Interface) throws {
    watch = try ChangeWatch(root: directory, [interface])
    func note(in names: Guarded<[String]>) -> @Sendable (ChangeWatch.Change) -> Void {
      { change in if case .entry(let name, _) = change { names.withLock { $0.append(String(cString: name)) } }
      }
    }
    subscription = try watch.watch(directory, receivesSelfEvents: false, note(in: others))
    subscriptionOfAll = try watch.watch(directory, note(in: all))
  }

  /// The names that were reported so far.
  func names() -> (others: [String], all: [String]) {
    watch.drain()
    return (others.withLock { $0 }, all.withLock { $0 })
  }
}

@Suite struct ChangeWatchTests {
  /// Those that this process can use.
  static let interfaces = ChangeWatch.Interface.allCases.filter { interface in
    guard interface != .inotify else { return true }
    guard let temporary = try? TemporaryDirectory(),
      let watch = try? ChangeWatch(root: temporary.directory, [interface])
    else { return false }
    return watch.reportsPID
  }
  static let thoseWithPID = interfaces.filter { $0 != .inotify }

  @Test(.enabled(if: geteuid() == 0)) func root_canUseAllInterfaces() {
    #expect(Self.interfaces == ChangeWatch.Interface.allCases)
  }

  private func run(_ program: String) { #expect(system(program) == 0) }

  /// Each delivery makes new events here, as programs do that are faster than a thread on a busy machine.
  @Test(arguments: interfaces) func drain_whileEventsKeepArriving_ends(interface: ChangeWatch.Interface)
    throws
  {
    let temporary = try TemporaryDirectory()
    let directory = temporary.directory
    let watch = try ChangeWatch(root: directory, [interface])
    let delivered = Guarded(0)
    let most = 20_000
    let subscription = try watch.watch(directory) { _ in
      guard
        delivered.withLock({
          $0 += 1
          return $0 < most
        })
      else { return }
      for number in 0..<2 {
        let name = "\(delivered.withLock { $0 })-\(number)-" + String(repeating: "x", count: 150)
        try? directory.makeDirectory(name, mode: 0o700)
        try? directory.removeDirectory(name)
      }
    }
    // More than one buffer.
    for number in 0..<200 {
      try directory.makeDirectory("\(number)" + String(repeating: "x", count: 150), mode: 0o700)
    }
    watch.drain()
    _ = consume subscription
    #expect((200..<most).contains(delivered.withLock { $0 }))
  }

  @Test(arguments: interfaces) func suppressedSelfChange_reachesSubscribersOfSelfEvents(
    interface: ChangeWatch.Interface
  ) throws {
    let temporary = try TemporaryDirectory()
    let directory = temporary.directory
    let recorded = try RecordedChanges(directory, interface)
    try recorded.watch.suppressingSelfEvents(.init(.made, "own", in: recorded.subscription)) {
      () throws(Errno) in
      try directory.makeDirectory("own", mode: 0o700)
    }
    try directory.makeDirectory("other", mode: 0o700)
    try directory.makeDirectory("third", mode: 0o700)
    let (others, all) = recorded.names()
    #expect(others == ["other", "third"])
    #expect(all.contains("own") && all.contains("other") && all.contains("third"))
  }

  /// Two nodes may refer to one directory, and only the owner of one of the two watches knows of the change.
  @Test(arguments: interfaces) func suppressedSelfChange_reachesOtherWatchesOfTheDirectory(
    interface: ChangeWatch.Interface
  ) throws {
    let temporary = try TemporaryDirectory()
    let directory = temporary.directory
    let watch = try ChangeWatch(root: directory, [interface])
    let names = Guarded<[String]>([])
    func note(_ owner: String) -> @Sendable (ChangeWatch.Change) -> Void {
      { change in
        if case .entry(let name, _) = change {
          names.withLock { $0.append("\(owner): \(String(cString: name))") }
        }
      }
    }
    let first = try watch.watch(directory, receivesSelfEvents: false, note("first"))
    let second = try watch.watch(directory, receivesSelfEvents: false, note("second"))
    try "new".withCString { name in
      try watch.suppressingSelfEvents(.init(.made, name, in: first)) { () throws(Errno) in
        try directory.makeDirectory("new", mode: 0o700)
      }
    }
    watch.drain()
    #expect(names.withLock { $0 } == ["second: new"])
    withExtendedLifetime(second) {}
  }

  @Test(arguments: thoseWithPID)
  func changeByAnotherProcess_ofSuppressedName_isReported(interface: ChangeWatch.Interface) throws {
    let temporary = try TemporaryDirectory()
    let recorded = try RecordedChanges(temporary.directory, interface)
    let selfEvent = ChangeWatch.SelfEvent(.made, "name", in: recorded.subscription)
    try recorded.watch.suppressingSelfEvents(selfEvent) { () throws(Errno) in
      run("mkdir '\(temporary.path)/name'")
    }
    #expect(recorded.names() == (["name"], ["name"]))
    // The result of the change does not matter.
    run("rmdir '\(temporary.path)/name'")
    _ = recorded.names()
    #expect(throws: Errno.fileExists) {
      try recorded.watch.suppressingSelfEvents(selfEvent) { () throws(Errno) in
        run("mkdir '\(temporary.path)/name'")
        try temporary.directory.makeDirectory("name", mode: 0o700)
      }
    }
    #expect(recorded.names().others == ["name", "name", "name"])
  }

  @Test(arguments: thoseWithPID)
  func suppression_whenNothingChanged_hidesNoLaterChange(interface: ChangeWatch.Interface) throws {
    let temporary = try TemporaryDirectory()
    let directory = temporary.directory
    let recorded = try RecordedChanges(directory, interface)
    let selfEvent = ChangeWatch.SelfEvent(.made, "name", in: recorded.subscription)
    #expect(throws: Errno.ioError) {
      try recorded.watch.suppressingSelfEvents(selfEvent) { () throws(Errno) in throw .ioError }
    }
    try recorded.watch.suppressingSelfEvents(selfEvent) { () throws(Errno) in }
    _ = recorded.names()
    try directory.makeDirectory("name", mode: 0o700)
    #expect(recorded.names().others == ["name"])
  }

  /// A change of the same name by another process, which has made the call fail, was taken for the call's own or comes later.
  @Test func failedSelfChange_whenEventsCarryNoPID_isReported() throws {
    let temporary = try TemporaryDirectory()
    let recorded = try RecordedChanges(temporary.directory, .inotify)
    let selfEvent = ChangeWatch.SelfEvent(.made, "name", in: recorded.subscription)
    for isDelivered in [false, true] {
      #expect(throws: Errno.fileExists) {
        try recorded.watch.suppressingSelfEvents(selfEvent) { () throws(Errno) in
          run("mkdir '\(temporary.path)/name'")
          if isDelivered { recorded.watch.drain() }
          try temporary.directory.makeDirectory("name", mode: 0o700)
        }
      }
      #expect(recorded.names().others.contains("name"))
      run("rmdir '\(temporary.path)/name'")
      let before = recorded.names().others.count
      run("mkdir '\(temporary.path)/name' && rmdir '\(temporary.path)/name'")
      #expect(recorded.names().others.count == before + 2)
    }
  }

  @Test func changeByAnotherProcess_besideSelfChange_whenEventsCarryNoPID_isReported() throws {
    let temporary = try TemporaryDirectory()
    let recorded = try RecordedChanges(temporary.directory, .inotify)
    try recorded.watch.suppressingSelfEvents(.init(.removed, "name", in: recorded.subscription)) {
      () throws(Errno) in
      run(
        "mkdir '\(temporary.path)/name' && rmdir '\(temporary.path)/name' && mkdir '\(temporary.path)/name'")
      try temporary.directory.removeDirectory("name")
    }
    #expect(recorded.names().others == ["name", "name", "name"])
  }

  /// Changes of an entry, of the directory itself and of its attributes.
  @Test(arguments: interfaces) func everyKindOfChange_isReported(interface: ChangeWatch.Interface) throws {
    let temporary = try TemporaryDirectory()
    let root = temporary.directory
    try root.makeDirectory("watched", mode: 0o700)
    let opened = try root.open("watched", O_RDONLY | O_DIRECTORY)
    let directory = Directory(descriptor: opened.rawValue)
    let watch = try ChangeWatch(root: root, [interface])
    #expect(watch.reportsPID == (interface != .inotify))
    let reported = Guarded<[String]>([])
    let subscription = try watch.watch(directory) { change in
      let word =
        switch change {
        case .entry(let name, let wasMoved): "\(wasMoved ? "moved" : "entry") \(String(cString: name))"
        case .content(let name, _): "content \(String(cString: name))"
        case .modification(let name, _): "modification \(String(cString: name))"
        case .attributes(let name): "attributes \(String(cString: name))"
        case .directoryAttributes: "itself"
        case .everything: "everything"
        }
      reported.withLock { $0.append(word) }
    }
    func reportedChanges(of change: String) -> [String] {
      run("cd '\(temporary.path)'; \(change)")
      watch.drain()
      return reported.withLock { reported in
        defer { reported = [] }
        return reported
      }
    }
    #expect(reportedChanges(of: "mkdir watched/d; : >other") == ["entry d"])
    let made = reportedChanges(of: "echo x >watched/f")
    #expect(made.first == "entry f" && made.last == "content f")
    #expect(reportedChanges(of: "mv watched/f watched/g") == ["moved f", "moved g"])
    #expect(reportedChanges(of: "chmod 600 watched/g") == ["attributes g"])
    #expect(reportedChanges(of: "chmod 700 watched") == ["itself"])
    #expect(reportedChanges(of: "rm watched/g; rmdir watched/d") == ["entry g", "entry d"])
    // Releasing the subscription ends the watch, although `opened` still keeps the directory.
    _ = consume subscription
    #expect(reportedChanges(of: ": >watched/unheard; rm watched/unheard") == [])
    let second = try watch.watch(directory) { change in
      if case .everything = change { reported.withLock { $0.append("gone") } }
    }
    _ = consume opened
    // A descriptor that the watch keeps delays the event until the watch ends.
    #expect(reportedChanges(of: "rmdir watched") == (interface == .fanotify ? [] : ["gone"]))
    withExtendedLifetime(second) {}
  }

  @Test(arguments: interfaces)
  func writes_whileModificationsAreIgnored_areNotReported(interface: ChangeWatch.Interface) throws {
    let temporary = try TemporaryDirectory()
    let watch = try ChangeWatch(root: temporary.directory, [interface])
    let reported = Guarded((writing: 0, closing: 0))
    let subscription = try watch.watch(temporary.directory) { change in
      switch change {
      case .modification: reported.withLock { $0.writing += 1 }
      case .content: reported.withLock { $0.closing += 1 }
      default: break
      }
    }
    func isReported(_ change: () throws -> Void) throws -> (writing: Bool, closing: Bool) {
      try change()
      watch.drain()
      return reported.withLock { reported in
        defer { reported = (0, 0) }
        return (reported.writing > 0, reported.closing > 0)
      }
    }
    let file = try temporary.directory.open("f", O_WRONLY | O_CREAT, mode: 0o600)
    func append() throws { try systemCall { write(file.rawValue, "x", 1) } }
    #expect(try isReported(append) == (true, false))
    #expect(watch.suppressModifications(of: file) == watch.reportsPID)
    #expect(try isReported(append) == (!watch.reportsPID, false))
    // The kernel keeps the ignore mark after an event that it suppresses.
    #expect(try isReported(append) == (!watch.reportsPID, false))
    #expect(try isReported { run("echo x >>'\(temporary.path)/f'") }.closing)
    #expect(watch.restoreModifications(of: file) == watch.reportsPID)
    #expect(try isReported(append) == (true, false))
    withExtendedLifetime(subscription) {}
  }

  /// A watch that keeps a descriptor of its directory gives it back.
  @Test(arguments: interfaces) func endedWatch_keepsNoDescriptor(interface: ChangeWatch.Interface) throws {
    let temporary = try TemporaryDirectory()
    let watch = try ChangeWatch(root: temporary.directory, [interface])
    try temporary.directory.makeDirectory("watched", mode: 0o700)
    let path = "\(temporary.path)/watched"
    func kept() -> Int {
      openDescriptors().count { $0 == path || $0 == "\(path) (deleted)" }
    }
    for isRemoved in [false, true] {
      let subscriptions = try {
        let opened = try temporary.directory.open("watched", O_RDONLY | O_DIRECTORY)
        return try (0..<2).map { _ in try watch.watch(Directory(descriptor: opened.rawValue)) { _ in } }
      }()
      #expect(kept() == (interface == .fanotify ? 1 : 0))
      if isRemoved { run("rmdir '\(path)'") }
      watch.drain()
      withExtendedLifetime(subscriptions) {}
      _ = consume subscriptions
      #expect(kept() == 0)
    }
  }

  /// Another mount of the file system could not be unmounted while a descriptor of it is kept.
  @Test(.enabled(if: geteuid() == 0)) func watchOnAnotherMount_keepsNoDescriptor() throws {
    let temporary = try TemporaryDirectory()
    try temporary.directory.makeDirectory("mount", mode: 0o700)
    let watch = try ChangeWatch(root: temporary.directory, [.fanotify])
    #expect(watch.reportsPID)
    run("mount --bind '\(temporary.path)' '\(temporary.path)/mount'")
    let names = Guarded<[String]>([])
    let subscription = try {
      let opened = try Descriptor(
        adopting: systemCall { open("\(temporary.path)/mount", O_RDONLY | O_DIRECTORY) })
      return try watch.watch(Directory(descriptor: opened.rawValue)) { change in
        if case .entry(let name, _) = change { names.withLock { $0.append(String(cString: name)) } }
      }
    }()
    run("mkdir '\(temporary.path)/new'")
    watch.drain()
    #expect(names.withLock { $0 } == ["new"])
    run("umount '\(temporary.path)/mount'")
    withExtendedLifetime(subscription) {}
  }

  /// The paths of this process's open files.
  private func openDescriptors() -> [String] {
    (0..<1024).compactMap { number in
      var path = [UInt8](repeating: 0, count: 4096)
      let length = path.withUnsafeMutableBytes { room in
        readlink("/proc/self/fd/\(number)", room.assumingMemoryBound(to: CChar.self).baseAddress!, room.count)
      }
      return length > 0 ? String(decoding: path.prefix(length), as: UTF8.self) : nil
    }
  }
}
