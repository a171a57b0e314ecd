import BackingTree
import CFuse
import DisplayNames
import Glibc
import PackageStream
import SystemPackage

/// How long the streams of packages are and how they begin, remembered as long as the packages stay as they are.
///
/// Whether a package is still what it was takes a look at each of its parts. For a large one a look is believed for ten
/// times as long as it took, two seconds at most: so no more than a tenth of the time goes into looking, however often
/// programs ask, and a package that can be looked at quickly is looked at every time.
final class PackageSizes: Sendable {
  struct Measure: Sendable {
    /// Bytes.
    var size: Int64
    /// When the newest part was modified.
    var newest: timespec
  }

  /// The first bytes of a stream: what file managers read of every file to tell its kind.
  struct Beginning: Sendable {
    static let length = 4096
    let bytes: [UInt8]
    /// What a client must be allowed to read to be given the bytes.
    let parts: [PackageReader.Part]
    let type: String
    let measure: Measure
    let stamp: PackageStamp
  }

  private struct Remembered {
    let stamp: PackageStamp
    let measure: Measure
    var beginning: Beginning?
    /// What is not looked at.
    let omitted: Set<[UInt8]>
    /// Of the package's directory: one that has been replaced is not believed to be the same.
    let changed: timespec
    var believedUntil: ContinuousClock.Instant
  }

  private static let capacity = 4096
  private static let quickLook: Duration = .milliseconds(20)
  private static let longestBelief: Duration = .seconds(2)
  /// How often a measure was asked for and, as none was remembered that holds, taken.
  let tally = Tally()
  private let remembered = Guarded<[FileIdentity: Remembered]>([:])

  /// The measure of a package that a directory holds. A package that cannot be read whole counts as empty.
  func measure(_ name: UnsafePointer<CChar>, in parent: Directory, type: String) -> Measure {
    guard let package = try? parent.subdirectory(name), let status = try? fileStatus(package.rawValue) else {
      return Measure(size: 0, newest: timespec())
    }
    let directory = Directory(descriptor: package.rawValue)
    tally.countAsked()
    if let known = current(directory, status) { return known.measure }
    tally.countFetched()
    let start = ContinuousClock.now
    let omitted = ContainerData.omitted(from: Name(copying: name))
    guard let layout = try? PackageLayout(of: directory, type: type, omitting: omitted) else {
      return Measure(size: 0, newest: status.st_mtim)
    }
    remember(layout, nil, status, omitting: omitted, since: start)
    return Measure(size: layout.size, newest: layout.newestModification)
  }

  /// The beginning of a package's stream, if it is remembered and still the same.
  func beginning(of package: Directory, _ status: stat, type: String) -> Beginning? {
    guard let beginning = current(package, status)?.beginning, beginning.type == type else { return nil }
    return beginning
  }

  /// Remembers a package that was looked at when it was opened.
  /// - Parameters:
  ///   - start: when the look began.
  ///   - credentials: of the client that opened it. The reader keeps files open: the daemon must not open what the client may not.
  func remember(
    _ reader: PackageReader, _ status: stat, type: String, omitting omitted: Set<[UInt8]>,
    since start: ContinuousClock.Instant, _ credentials: Credentials
  ) {
    let layout = reader.layout
    // What is remembered is shown to every client, and must not depend on the rights of one.
    guard layout.isComplete else { return }
    let read = try? credentials.act { () throws(Errno) in try reader.beginning(Beginning.length) }
    let beginning = read.map {
      Beginning(
        bytes: $0.bytes, parts: $0.parts, type: type,
        measure: Measure(size: layout.size, newest: layout.newestModification), stamp: layout.stamp)
    }
    remember(layout, beginning, status, omitting: omitted, since: start)
  }

  private func current(_ package: Directory, _ status: stat) -> Remembered? {
    let identity = FileIdentity(status)
    guard let known = remembered.withLock({ $0[identity] }), known.changed == status.st_ctim else {
      return nil
    }
    let start = ContinuousClock.now
    if start < known.believedUntil { return known }
    guard known.stamp.isSettled, let stamp = try? PackageStamp(of: package, omitting: known.omitted),
      stamp == known.stamp
    else { return nil }
    let belief = Self.belief(since: start)
    remembered.withLock { remembered in
      if remembered[identity]?.stamp == stamp { remembered[identity]?.believedUntil = belief }
    }
    return known
  }

  private func remember(
    _ layout: PackageLayout, _ beginning: Beginning?, _ status: stat, omitting omitted: Set<[UInt8]>,
    since start: ContinuousClock.Instant
  ) {
    let belief = Self.belief(since: start)
    guard layout.stamp.isSettled || belief > start else { return }
    remembered.withLock { remembered in
      let identity = FileIdentity(status)
      if remembered.count >= Self.capacity { remembered.removeAll() }
      let measure = Measure(size: layout.size, newest: layout.newestModification)
      let kept = remembered[identity].flatMap { $0.stamp == layout.stamp ? $0.beginning : nil }
      remembered[identity] = Remembered(
        stamp: layout.stamp, measure: measure, beginning: beginning ?? kept, omitted: omitted,
        changed: status.st_ctim, believedUntil: belief)
    }
  }

  private static func belief(since start: ContinuousClock.Instant) -> ContinuousClock.Instant {
    let now = ContinuousClock.now
    let cost = now - start
    return cost < quickLook ? start : now + min(cost * 10, longestBelief)
  }
}

extension timespec {
  static func == (left: timespec, right: timespec) -> Bool {
    left.tv_sec == right.tv_sec && left.tv_nsec == right.tv_nsec
  }
}
