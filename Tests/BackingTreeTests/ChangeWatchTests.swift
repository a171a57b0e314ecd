import Glibc
import SystemPackage
import Testing

@testable import BackingTree

/// The names that those are told of who hear no echoes, and those who hear all.
private struct Heard {
  let watch: ChangeWatch
  let key: ChangeWatch.Key
  private let others = Guarded<[String]>([])
  private let all = Guarded<[String]>([])

  init(_ directory: Directory) throws {
    watch = try ChangeWatch()
    func note(in names: Guarded<[String]>) -> @Sendable (ChangeWatch.Change) -> Void {
      { change in if case .entry(let name, _) = change { names.withLock { $0.append(String(cString: name)) } } }
    }
    key = try watch.watch(directory, hearsEchoes: false, note(in: others))
    _ = try watch.watch(directory, note(in: all))
  }

  /// What they have been told until now.
  func names() -> (others: [String], all: [String]) {
    watch.drain()
    return (others.withLock { $0 }, all.withLock { $0 })
  }
}

@Suite struct ChangeWatchTests {
  @Test func ofAnUnheardChangeOnlyThoseHearWhoWantTo() throws {
    let temporary = try TemporaryDirectory()
    let directory = temporary.directory
    let heard = try Heard(directory)
    try heard.watch.unheard([.init(.made, "own", in: heard.key)]) { () throws(Errno) in
      try directory.makeDirectory("own", mode: 0o700)
    }
    try directory.makeDirectory("other", mode: 0o700)
    try directory.removeDirectory("own")
    #expect(heard.names() == (["other", "own"], ["own", "other", "own"]))
  }

  @Test func aChangeThatDidNotHappenHidesNoLaterOne() throws {
    let temporary = try TemporaryDirectory()
    let directory = temporary.directory
    let heard = try Heard(directory)
    let echo = ChangeWatch.Echo(.made, "name", in: heard.key)
    #expect(throws: Errno.ioError) {
      try heard.watch.unheard([echo]) { () throws(Errno) in throw .ioError }
    }
    try heard.watch.unheard([echo]) { () throws(Errno) in }
    _ = heard.names()
    try directory.makeDirectory("name", mode: 0o700)
    #expect(heard.names().others == ["name"])
  }

  @Test func whatSomebodyElseDidFirstIsToldWhenTheChangeFails() throws {
    let temporary = try TemporaryDirectory()
    let directory = temporary.directory
    let heard = try Heard(directory)
    #expect(throws: Errno.fileExists) {
      try heard.watch.unheard([.init(.made, "name", in: heard.key)]) { () throws(Errno) in
        // Somebody else, as far as the watch can tell.
        try directory.makeDirectory("name", mode: 0o700)
        heard.watch.drain()
        try directory.makeDirectory("name", mode: 0o700)
      }
    }
    #expect(heard.names() == (["name"], ["name"]))
  }
}
