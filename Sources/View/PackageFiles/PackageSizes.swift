import BackingTree
import CLinux
import DisplayNames
import Glibc
import PackageStream
import SystemPackage

/// Caches the size and the beginning of the layout of package streams, for as long as the packages do not change.
///
/// To find out whether a package has changed, each of its parts is checked. For a large package the result of a check is trusted
/// for ten times as long as the check took, at most two seconds. So checks take no more than a tenth of the time, however often
/// programs request the size, and a package that can be checked quickly is checked every time. The failure of a walk is trusted
/// for as long.
///
/// If several threads of one user check the same package, one of them does it, and the others wait for its result.
final class PackageSizes: Sendable {
  struct Measure: Sendable {
    /// In bytes.
    var size: Int64
    /// The modification time of the newest part.
    var newest: timespec
  }

  /// How much of a stream's layout is cached, in bytes of the stream: as much as file managers read to determine the type of a
  /// file.
  private static let beginning = 4096

  private struct CachedSize {
    let measure: Measure
    /// The beginning of the layout; nil for a package that cannot be walked.
    let layout: PackageLayout?
    /// The entries at the top of the package that are not part of it.
    let omitted: Set<[UInt8]>
    /// The change time of the package's directory. If it differs, the package may have been replaced.
    let changed: timespec
    var trustedUntil: ContinuousClock.Instant
  }

  private struct State {
    var cachedSizes: [FileIdentity: CachedSize] = [:]
    var walks = SharedWalks()
  }

  /// In packages. A layout that covers 4 KiB of the stream takes about 4 KiB of memory, and at most 12 KiB if it has as many
  /// attributes as 4 KiB can name.
  private static let capacity = 4096
  private static let quickCheck: Duration = .milliseconds(20)
  private static let longestTrust: Duration = .seconds(2)
  /// How often a package's size or content was requested, and how often the package was walked for it.
  let tally = Tally()
  let openLayouts = OpenLayouts()
  private let state = Guarded(State())

  /// The measure of the package `name` in a directory. A package that cannot be read completely counts as empty.
  ///
  /// - Throws: EINTR when the walk was interrupted, ESTALE when the package has just been moved.
  func measure(
    _ name: UnsafePointer<CChar>, in parent: Directory, type: String
  ) throws(Errno) -> Measure {
    let package: Descriptor
    do throws(Errno) { package = try parent.subdirectory(name) } catch {
      // It has just been moved: no size is right, and the kernel looks the name up again.
      if error == .noSuchFileOrDirectory || error == .notDirectory { throw .staleNFSFileHandle }
      return Measure(size: 0, newest: timespec())
    }
    let status = try fileStatus(package.rawValue)
    let directory = Directory(descriptor: package.rawValue)
    tally.countRequest()
    let omitted = ContainerData.omitted(from: Name(copying: name))
    return try trustedOrChecked(status) { () throws(Errno) in
      if let known = current(directory, status) { return known.measure }
      tally.countFetch()
      let start = ContinuousClock.now
      do throws(Errno) {
        let layout = try ReadingPass.run { () throws(Errno) in
          try PackageLayout(of: directory, type: type, omitting: omitted, mayChange: true)
        }
        let measure = Measure(size: layout.size, newest: layout.newestModification)
        if layout.isConsistent {
          cache(layout, status, omitting: omitted, since: start)
        } else {
          cache(measure, nil, status, omitting: omitted, since: start)
        }
        return measure
      } catch {
        if error == .interrupted { throw error }
        let measure = Measure(size: 0, newest: status.st_mtim)
        cache(measure, nil, status, omitting: omitted, since: start)
        return measure
      }
    } fromCache: {
      $0.measure
    }
  }

  /// The layout of the beginning of a package's stream, if it is cached and the package has not changed. It was made with other
  /// credentials than the client's, usually those of the daemon: see `PackageReader.checkReadable`.
  func beginning(of package: Directory, _ status: stat, type: String) -> PackageLayout? {
    tally.countRequest()
    let layout = trustedOrChecked(status) {
      current(package, status)?.layout
    } fromCache: {
      $0.layout
    }
    return layout?.type == type ? layout : nil
  }

  /// Caches the layout of a package that was walked when it was opened.
  /// - Parameter start: when the walk began.
  func cache(
    _ layout: PackageLayout, _ status: stat, omitting omitted: Set<[UInt8]>,
    since start: ContinuousClock.Instant
  ) {
    // A cached layout is shown to every client, so it must not depend on the rights of one client.
    guard layout.isComplete else { return }
    cache(
      Measure(size: layout.size, newest: layout.newestModification), layout, status, omitting: omitted,
      since: start)
  }

  /// Returns the cached result if it can be trusted without a check. Otherwise returns the result of `body`, which checks the
  /// package.
  ///
  /// If another thread is already checking the package for the same user, this thread waits, and uses that result as if it had
  /// come just after. If there is no result to trust then (the check was too quick, or its client was killed), this thread runs
  /// `body` itself and waits for no other thread.
  private func trustedOrChecked<Result, Failure: Error>(
    _ status: stat, _ body: () throws(Failure) -> Result, fromCache: (CachedSize) -> Result
  ) throws(Failure) -> Result {
    let identity = FileIdentity(status)
    func known(_ state: borrowing State) -> CachedSize? {
      guard let known = state.cachedSizes[identity], known.changed == status.st_ctim,
        ContinuousClock.now < known.trustedUntil
      else { return nil }
      return known
    }
    // No request of one user waits for a request of another user, so a check for another user is not waited for.
    let key = SharedWalks.Key(package: identity, user: dfs_request_user())
    let (found, end) = state.withLock { state in
      let found = known(state)
      return (found, found == nil ? state.walks.join(key) : nil)
    }
    if let found { return fromCache(found) }
    guard let end else {
      defer { state.withLock { $0.walks.finish(key) } }
      return try body()
    }
    while !end.wait(milliseconds: 20) {
      // The walk that `body` begins soon ends for the same reason.
      do { try Interruption.check() } catch { break }
    }
    if let found = state.withLock({ known($0) }) { return fromCache(found) }
    return try body()
  }

  /// The cached entry of a package, if a check shows that the package has not changed.
  private func current(_ package: Directory, _ status: stat) -> CachedSize? {
    let identity = FileIdentity(status)
    guard let known = state.withLock({ $0.cachedSizes[identity] }), known.changed == status.st_ctim else {
      return nil
    }
    let start = ContinuousClock.now
    if start < known.trustedUntil { return known }
    guard let stamp = known.layout?.stamp, stamp.isSettled,
      let found = try? ReadingPass.run({ () throws(Errno) in
        try PackageStamp(of: package, omitting: known.omitted)
      }), found == stamp
    else { return nil }
    let trustedUntil = Self.trustedUntil(since: start)
    state.withLock { state in
      if state.cachedSizes[identity]?.layout?.stamp == stamp {
        state.cachedSizes[identity]?.trustedUntil = trustedUntil
      }
    }
    return known
  }

  private func cache(
    _ measure: Measure, _ layout: PackageLayout?, _ status: stat, omitting omitted: Set<[UInt8]>,
    since start: ContinuousClock.Instant
  ) {
    let trustedUntil = Self.trustedUntil(since: start)
    guard layout?.stamp.isSettled == true || trustedUntil > start else { return }
    let size = CachedSize(
      measure: measure, layout: layout?.beginning(Self.beginning), omitted: omitted, changed: status.st_ctim,
      trustedUntil: trustedUntil)
    state.withLock { state in
      if state.cachedSizes.count >= Self.capacity { state.cachedSizes.removeAll() }
      state.cachedSizes[FileIdentity(status)] = size
    }
  }

  private static func trustedUntil(since start: ContinuousClock.Instant) -> ContinuousClock.Instant {
    let now = ContinuousClock.now
    let cost = now - start
    return cost < quickCheck ? start : now + min(cost * 10, longestTrust)
  }
}

extension timespec {
  static func == (left: timespec, right: timespec) -> Bool {
    left.tv_sec == right.tv_sec && left.tv_nsec == right.tv_nsec
  }
}
