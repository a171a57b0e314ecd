import BackingTree
import CLinux
import Glibc
import PackageStream
import SystemPackage

/// The streams that became packages while a program had them open for writing.
///
/// A program may close a duplicate of its descriptor when the stream happens to be complete, and write on through another. So
/// the stream is kept in staging until its last close: if it has been written to by then, it comes back.
final class ImportedStreams: Sendable {
  private struct Kept {
    var streams: [ImportedStream] = []
    /// Whether a thread looks at them.
    var areWatched = false
  }

  private let streams = Guarded<[NodeID: ImportedStream]>([:])
  /// Streams that are kept although no client has them open in the view.
  private let kept = Guarded(Kept())
  /// Between two looks at the kept streams, in microseconds.
  static let pause: useconds_t = 250_000

  /// The files of which the log says why they do not become packages, with the state in which the stream was checked and refused;
  /// nil if the check did not come to an end, or the stream may have been written since.
  private let refused = Guarded<[NodeID: StreamState?]>([:])

  /// - Parameter checked: the state in which the stream was checked and refused; nil if it was refused for another reason.
  /// - Returns: whether the file was not refused before.
  func noteRefused(_ node: NodeID, checked: StreamState?) -> Bool {
    refused.withLock { $0.updateValue(checked.flatMap { $0.isRecent ? nil : $0 }, forKey: node) == nil }
  }

  /// Whether a stream was checked in this state, and refused.
  func wasRefused(_ node: NodeID, _ state: StreamState) -> Bool {
    guard let known = refused.withLock({ $0[node] }), let known else { return false }
    return known == state && known.times == state.times
  }

  /// Called when the kernel has forgotten a node: its number may belong to another file from now on.
  func remove(_ node: NodeID) { refused.withLock { _ = $0.removeValue(forKey: node) } }

  func add(_ stream: ImportedStream, for node: NodeID) { streams.withLock { $0[node] = stream } }

  func contains(_ node: NodeID) -> Bool { streams.withLock { $0[node] != nil } }

  /// - Parameter condition: may wait for a file system that does not reply. No other client waits for it.
  func take(_ node: NodeID, where condition: (ImportedStream) -> Bool = { _ in true }) -> ImportedStream? {
    // Each close of a written file passes here, and a stream is a large value.
    guard let found = streams.withLock({ $0.isEmpty ? nil : $0[node] }), condition(found) else { return nil }
    return streams.withLock { streams in
      guard streams[node]?.place.name == found.place.name else { return nil }
      streams[node] = nil
      return found
    }
  }

  func takeAll() -> [ImportedStream] {
    streams.withLock { streams in
      defer { streams = [:] }
      return Array(streams.values)
    }
  }

  // MARK: Kept streams

  /// - Returns: whether a thread is needed to look at the kept streams.
  func keep(_ stream: ImportedStream) -> Bool {
    kept.withLock { kept in
      kept.streams.append(stream)
      defer { kept.areWatched = true }
      return !kept.areWatched
    }
  }

  /// Called when no thread could be started.
  func noteUnwatched() { kept.withLock { $0.areWatched = false } }

  /// - Returns: false when no stream is kept any more: the thread ends.
  func continuesWatching() -> Bool {
    kept.withLock { kept in
      kept.areWatched = !kept.streams.isEmpty
      return kept.areWatched
    }
  }

  /// Removes and returns the kept streams that fulfil a condition.
  func takeKept(where condition: (ImportedStream) -> Bool = { _ in true }) -> [ImportedStream] {
    let places = Set(kept.withLock { $0.streams }.filter(condition).map(\.place.name))
    return kept.withLock { kept in
      defer { kept.streams.removeAll { places.contains($0.place.name) } }
      return kept.streams.filter { places.contains($0.place.name) }
    }
  }
}

/// A stream that became a package.
struct ImportedStream: Sendable {
  /// The directory that held the stream and now holds the package, and its node at the time of the import. The kernel may have
  /// forgotten the node since, and the number may belong to another.
  let directory: DirectoryHandle
  let parent: NodeID
  /// The real names of the stream and of the package.
  let file: CName
  let package: CName
  /// The current place of the stream.
  let place: Staging.Place
  let written: StreamState
  /// Its times once it was in staging. A program can set the modification time that a write has changed, but not the change time.
  let stagedTimes: FileTimes
  let packageIdentity: FileIdentity
  /// The package as it was unpacked, before any client saw it; nil if it could not be read.
  let stamp: PackageStamp?
  /// The times of the package's own directory, once it was in place.
  let times: FileTimes?

  var isAsImported: Bool {
    let now = CName(place.name).withPointer { try? place.directory.status($0) }
    return now.map { StreamState($0) == written && FileTimes($0) == stagedTimes } ?? false
  }

  /// Whether a process has the stream open for writing, or mapped so.
  var hasWriter: Bool {
    let stream = CName(place.name).withPointer { try? place.directory.directory.openRegular($0, O_RDONLY) }
    guard let stream else { return false }
    return stream.descriptor.hasWriter()
  }

  /// Whether `isAsImported` shows what is written through a mapping.
  var showsMappedWrites: Bool {
    FileSystemKind(of: place.directory.directory.descriptor).updatesTimesOfMappedWrites
  }
}

/// The state of a stream: a change of it shows that the stream was written to.
struct StreamState: Equatable, Sendable, CustomStringConvertible {
  let identity: FileIdentity
  private let size: Int64
  private let modified: [Int]
  /// Also changed where something sets the modification time.
  let times: FileTimes
  /// Whether a write may follow that leaves the same times.
  let isRecent: Bool

  init(_ status: stat) {
    identity = FileIdentity(status)
    size = Int64(status.st_size)
    modified = [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
    times = FileTimes(status)
    isRecent = FileTimes.isRecent(status.st_ctim)
  }

  /// A state of a stream that each later change of the stream alters; nil while a program goes on writing to the stream.
  ///
  /// A store through a mapping sets the modification time only where it makes a clean page dirty (`page_mkwrite`), so all pages
  /// are written back first. Before Linux 6.13 two changes in one tick of the clock get the same time.
  init?(settled stream: borrowing Descriptor) throws(Errno) {
    for _ in 0..<10 {
      self.init(try fileStatus(stream.rawValue))
      // A tick takes 10 ms at most. A server's clock may be ahead.
      for _ in 0..<10 where !isOfEarlierTick { usleep(1000) }
      try systemCall { dfs_write_back(stream.rawValue) }
      // No page has become dirty since that tick.
      if StreamState(try fileStatus(stream.rawValue)) == self { return }
    }
    return nil
  }

  private var isOfEarlierTick: Bool {
    let now = FileTimes.now
    return (modified[0], modified[1]) < (now.tv_sec, now.tv_nsec)
  }

  static func == (a: Self, b: Self) -> Bool {
    a.identity == b.identity && a.size == b.size && a.modified == b.modified
  }

  /// For the name of a staged stream, by which a later mount sees whether the stream was written to.
  var description: String {
    ([UInt64(identity.inode), UInt64(size)].map(String.init) + modified.map(String.init)).joined(
      separator: "-")
  }
}
