import DisplayNames
import Testing

@testable import View

private let second: Int64 = 1_000_000_000

@Suite struct TunnelTests {
  private func tunnel(_ mode: TunnelMode = .process, timeout: UInt64 = 15, capacity: Int = 4096) -> Tunnel {
    let tunnel = Tunnel(mode: mode, timeout: timeout, capacity: capacity)
    tunnel.record(
      directory: 1, display: "notes", real: "notes.txt", user: 1000, process: 7, now: 100 * second)
    return tunnel
  }

  @Test func take_returnsNameOnce() {
    let tunnel = tunnel()
    #expect(
      tunnel.peek(directory: 1, display: "notes", process: 7, now: 101 * second)?.realName == "notes.txt")
    #expect(
      tunnel.take(directory: 1, display: "notes", process: 7, now: 101 * second)?.realName == "notes.txt")
    #expect(tunnel.take(directory: 1, display: "notes", process: 7, now: 101 * second) == nil)
  }

  @Test(arguments: [(0, true), (14, true), (15, false), (1000, false)])
  func take_returnsNameUntilTimeout(seconds: Int64, comes: Bool) {
    let found = tunnel().take(directory: 1, display: "notes", process: 7, now: (100 + seconds) * second)
    #expect((found != nil) == comes)
  }

  @Test func take_atEarlierTimeThanRemembered_returnsName() {
    #expect(tunnel().take(directory: 1, display: "notes", process: 7, now: 99 * second) != nil)
  }

  @Test func take_afterPeekOfExpiredName_returnsNil() {
    let tunnel = tunnel()
    #expect(tunnel.peek(directory: 1, display: "notes", process: 7, now: 200 * second) == nil)
    #expect(tunnel.take(directory: 1, display: "notes", process: 7, now: 101 * second) == nil)
  }

  @Test(arguments: [
    (TunnelMode.process, 7, true), (.process, 8, false), (.process, 0, false), (.time, 8, true),
    (.off, 7, false),
  ])
  func tunnelMode_decidesWhichProcessGetsName(mode: TunnelMode, process: Int32, comes: Bool) {
    let found = tunnel(mode).take(directory: 1, display: "notes", process: process, now: 101 * second)
    #expect((found != nil) == comes)
  }

  // Requests from a foreign PID namespace all carry the process id 0: only the time distinguishes their processes.
  @Test func processesWithoutPID_shareName() {
    let tunnel = Tunnel()
    tunnel.record(directory: 1, display: "notes", real: "notes.txt", user: 1000, process: 0, now: 0)
    #expect(tunnel.take(directory: 1, display: "notes", process: 7, now: 1) == nil)
    #expect(tunnel.take(directory: 1, display: "notes", process: 0, now: 1) != nil)
  }

  @Test func take_byAnotherProcess_leavesName() {
    let tunnel = tunnel()
    #expect(tunnel.take(directory: 1, display: "notes", process: 8, now: 101 * second) == nil)
    #expect(tunnel.take(directory: 1, display: "notes", process: 7, now: 101 * second) != nil)
  }

  @Test func peek_ofOtherNameOrDirectory_returnsNil() {
    let tunnel = tunnel()
    #expect(tunnel.peek(directory: 2, display: "notes", process: 7, now: 101 * second) == nil)
    #expect(tunnel.peek(directory: 1, display: "Notes", process: 7, now: 101 * second) == nil)
    #expect(tunnel.peek(directory: 1, display: "notes.txt", process: 7, now: 101 * second) == nil)
  }

  @Test func mayRecall_isTrueForRememberedNameOnly() {
    let tunnel = tunnel()
    #expect(tunnel.mayRecall(directory: 1, display: "notes"))
    #expect(!tunnel.mayRecall(directory: 1, display: "letter"))
    #expect(!tunnel.mayRecall(directory: 2, display: "notes"))
    #expect(tunnel.take(directory: 1, display: "notes", process: 7, now: 101 * second) != nil)
    #expect(!tunnel.mayRecall(directory: 1, display: "notes"))
  }

  @Test func remember_ofSameDisplayName_replacesEarlierOne() {
    let tunnel = tunnel()
    tunnel.record(
      directory: 1, display: "notes", real: "notes.rtf", user: 1000, process: 8, now: 110 * second)
    #expect(tunnel.peek(directory: 1, display: "notes", process: 7, now: 111 * second) == nil)
    #expect(
      tunnel.take(directory: 1, display: "notes", process: 8, now: 120 * second)?.realName == "notes.rtf")
    #expect(tunnel.take(directory: 1, display: "notes", process: 8, now: 120 * second) == nil)
  }

  @Test func take_returnsFinderInfoWithName() {
    let tunnel = Tunnel()
    let info = Tunnel.Attribute(
      name: Array("user.com.apple.FinderInfo".utf8), value: [UInt8](repeating: 1, count: 32))
    let huge = Tunnel.Attribute(
      name: Array("user.huge".utf8), value: [UInt8](repeating: 2, count: Tunnel.attributeLimit))
    tunnel.record(
      directory: 1, display: "a", real: "a.txt", attributes: [huge, info], user: 1000, process: 7, now: 0)
    #expect(tunnel.take(directory: 1, display: "a", process: 7, now: 1)?.attributes == [info])
  }

  @Test func forget_ofDirectory_dropsItsNames() {
    let tunnel = tunnel()
    tunnel.record(directory: 2, display: "notes", real: "notes.md", user: 1000, process: 7, now: 100 * second)
    tunnel.removeAll(in: 1)
    tunnel.removeAll(in: 3)
    #expect(tunnel.peek(directory: 1, display: "notes", process: 7, now: 101 * second) == nil)
    #expect(
      tunnel.peek(directory: 2, display: "notes", process: 7, now: 101 * second)?.realName == "notes.md")
  }

  @Test(arguments: [(UInt64(0), 4096), (15, 0), (15, -1)])
  func tunnel_withZeroTimeoutOrCapacity_isOff(timeout: UInt64, capacity: Int) {
    #expect(
      tunnel(timeout: timeout, capacity: capacity)
        .peek(directory: 1, display: "notes", process: 7, now: 100 * second) == nil)
  }

  @Test func tunnel_withMaximumTimeout_neverExpires() {
    #expect(tunnel(timeout: .max).peek(directory: 1, display: "notes", process: 7, now: .max) != nil)
  }

  @Test func fullTunnel_dropsOldestNames() {
    let tunnel = Tunnel(capacity: 3)
    for index in 0..<7 {
      tunnel.record(
        directory: 1, display: Name("\(index)"), real: Name("\(index).txt"), user: 1000, process: 7, now: 0)
    }
    let left = (0..<7).filter { tunnel.peek(directory: 1, display: Name("\($0)"), process: 7, now: 0) != nil }
    #expect(left == [4, 5, 6])
  }

  @Test func nameRememberedAgain_isNewest() {
    let tunnel = Tunnel(capacity: 2)
    for name: Name in ["a", "a", "b"] {
      tunnel.record(directory: 1, display: name, real: "r", user: 1000, process: 7, now: 0)
    }
    #expect(tunnel.peek(directory: 1, display: "a", process: 7, now: 0) != nil)
  }

  /// Random calls against a dictionary; with room for all of them nothing may be missing, and nothing may come twice.
  @Test func tunnel_matchesSimpleModel() {
    struct Key: Hashable { let directory: UInt64, display: Name }
    var generator = SystemRandomNumberGenerator()
    let tunnel = Tunnel(mode: .process, timeout: 15, capacity: 20_000)
    var model: [Key: (real: Name, process: Int32, since: Int64)] = [:]
    var now: Int64 = 0
    for step in 0..<20_000 {
      now += Int64.random(in: 0...second, using: &generator)
      let key = Key(
        directory: .random(in: 0..<4, using: &generator),
        display: Name("\(Int.random(in: 0..<6, using: &generator))"))
      let process = Int32.random(in: 0..<3, using: &generator)
      switch Int.random(in: 0..<8, using: &generator) {
      case 0..<4:
        let real = Name("real \(step)")
        tunnel.record(
          directory: key.directory, display: key.display, real: real, user: 1000, process: process, now: now)
        model[key] = (real, process, now)
      case 4..<7:
        let taken = tunnel.take(directory: key.directory, display: key.display, process: process, now: now)
        let expected = model[key].flatMap {
          $0.process == process && now - $0.since < 15 * second ? $0.real : nil
        }
        #expect(taken?.realName == expected)
        if expected != nil { model[key] = nil }
      default:
        guard step % 5 == 0 else { continue }
        tunnel.removeAll(in: key.directory)
        model = model.filter { $0.key.directory != key.directory }
      }
    }
  }

  @Test func tunnel_sharedByThreads_staysConsistent() async {
    let tunnel = Tunnel(capacity: 64)
    let taken = await withTaskGroup(of: Int.self) { group in
      for process in 1...4 as ClosedRange<Int32> {
        group.addTask {
          (0..<2_000).count { index in
            let name = Name("\(index % 8)")
            tunnel.record(
              directory: UInt64(process), display: name, real: "r", user: 1000, process: process, now: 0)
            if index % 100 == 0 { tunnel.removeAll(in: UInt64(process)) }
            return tunnel.take(directory: UInt64(process), display: name, process: process, now: 0) != nil
          }
        }
      }
      return await group.reduce(0, +)
    }
    #expect(taken <= 4 * 1_980)
    #expect(taken > 0)
  }
}
