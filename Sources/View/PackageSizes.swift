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
/// programs ask, and a package that can be looked at quickly is looked at every time. The failure of a walk is
/// believed for as long.
///
/// Of a user's threads that look at the same package one looks, and the others wait for what it finds.
final class PackageSizes: Sendable {
  struct Measure: Sendable {
    /// Bytes.
    var size: Int64
    /// When the newest part was modified.
    var newest: timespec
  }

  /// How much of a stream's layout is remembered, in bytes of the stream: as much as file managers read to find out the kind of
  /// a file.
  private static let beginning = 4096

  private struct Remembered {
    let measure: Measure
    /// The beginning; nil for a package that cannot be walked.
    let layout: PackageLayout?
    /// What is not looked at.
    let omitted: Set<[UInt8]>
    /// Of the package's directory: one that has been replaced is not believed to be the same.
    let changed: timespec
    var believedUntil: ContinuousClock.Instant
  }

  private struct State {
    var remembered: [FileIdentity: Remembered] = [:]
    var looks = OngoingLooks()
  }

  /// A layout of 4 KiB of the stream takes some 4 KiB, and 12 KiB at most, with as many attributes as that can name.
  private static let capacity = 4096
  private static let quickLook: Duration = .milliseconds(20)
  private static let longestBelief: Duration = .seconds(2)
  /// How often a package's size or content was requested, and how often the package was walked for it.
  let tally = Tally()
  private let state = Guarded(State())

  /// The measure of a package that a directory holds. A package that cannot be read whole counts as empty.
  func measure(_ name: UnsafePointer<CChar>, in parent: Directory, type: String) -> Measure {
    guard let package = try? parent.subdirectory(name), let status = try? fileStatus(package.rawValue) else {
      return Measure(size: 0, newest: timespec())
    }
    let directory = Directory(descriptor: package.rawValue)
    tally.countAsked()
    let omitted = ContainerData.omitted(from: Name(copying: name))
    return look(status) {
      if let known = current(directory, status) { return known.measure }
      tally.countFetched()
      let start = ContinuousClock.now
      do throws(Errno) {
        let layout = try PackageLayout(of: directory, type: type, omitting: omitted)
        remember(layout, status, omitting: omitted, since: start)
        return Measure(size: layout.size, newest: layout.newestModification)
      } catch {
        let measure = Measure(size: 0, newest: status.st_mtim)
        // EINTR is the end of the client that the walk was made for, and says nothing of the package.
        if error != .interrupted { remember(measure, nil, status, omitting: omitted, since: start) }
        return measure
      }
    } believed: {
      $0.measure
    }
  }

  /// The layout of the beginning of a package's stream, if it is remembered and the package is still the same. It was made with
  /// other credentials than the client's, as a rule those of the daemon: see `PackageReader.checkReadable`.
  func beginning(of package: Directory, _ status: stat, type: String) -> PackageLayout? {
    tally.countAsked()
    let layout = look(status) {
      current(package, status)?.layout
    } believed: {
      $0.layout
    }
    return layout?.type == type ? layout : nil
  }

  /// Remembers a package that was walked when it was opened.
  /// - Parameter start: when the walk began.
  func remember(
    _ layout: PackageLayout, _ status: stat, omitting omitted: Set<[UInt8]>,
    since start: ContinuousClock.Instant
  ) {
    // What is remembered is shown to every client, and must not depend on the rights of one.
    guard layout.isComplete else { return }
    remember(
      Measure(size: layout.size, newest: layout.newestModification), layout, status, omitting: omitted,
      since: start)
  }

  /// What is believed of a package without a look, or else what `body`, which looks, returns.
  ///
  /// A thread that finds another at it for the same user waits for that and believes what it finds, as if it had come just
  /// after. If there is nothing to believe then (the look was too quick, or its client has been killed) it looks itself, and
  /// waits for nothing any more.
  private func look<Result>(
    _ status: stat, _ body: () -> Result, believed: (Remembered) -> Result
  ) -> Result {
    let identity = FileIdentity(status)
    func known(_ state: borrowing State) -> Remembered? {
      guard let known = state.remembered[identity], known.changed == status.st_ctim,
        ContinuousClock.now < known.believedUntil
      else { return nil }
      return known
    }
    // Another user's look is not waited for: no request of a user waits for another's.
    let key = OngoingLooks.Key(package: identity, user: dfs_request_user())
    let (found, end) = state.withLock { state in
      let found = known(state)
      return (found, found == nil ? state.looks.join(key) : nil)
    }
    if let found { return believed(found) }
    guard let end else {
      defer { state.withLock { $0.looks.finish(key) } }
      return body()
    }
    while !end.wait(milliseconds: 20) {
      // The walk that `body` begins soon ends for the same reason.
      do { try Interruption.check() } catch { break }
    }
    if let found = state.withLock({ known($0) }) { return believed(found) }
    return body()
  }

  /// What is remembered of a package, if a look shows that it is the same.
  private func current(_ package: Directory, _ status: stat) -> Remembered? {
    let identity = FileIdentity(status)
    guard let known = state.withLock({ $0.remembered[identity] }), known.changed == status.st_ctim else {
      return nil
    }
    let start = ContinuousClock.now
    if start < known.believedUntil { return known }
    guard let stamp = known.layout?.stamp, stamp.isSettled,
      let found = try? PackageStamp(of: package, omitting: known.omitted), found == stamp
    else { return nil }
    let belief = Self.belief(since: start)
    state.withLock { state in
      if state.remembered[identity]?.layout?.stamp == stamp {
        state.remembered[identity]?.believedUntil = belief
      }
    }
    return known
  }

  private func remember(
    _ measure: Measure, _ layout: PackageLayout?, _ status: stat, omitting omitted: Set<[UInt8]>,
    since start: ContinuousClock.Instant
  ) {
    let belief = Self.belief(since: start)
    guard layout?.stamp.isSettled == true || belief > start else { return }
    let remembered = Remembered(
      measure: measure, layout: layout?.beginning(Self.beginning), omitted: omitted, changed: status.st_ctim,
      believedUntil: belief)
    state.withLock { state in
      if state.remembered.count >= Self.capacity { state.remembered.removeAll() }
      state.remembered[FileIdentity(status)] = remembered
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
