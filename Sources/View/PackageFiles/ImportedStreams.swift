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
  private let streams = Guarded<[NodeID: ImportedStream]>([:])
  /// Streams that are kept although no client has them open in the view.
  private let kept = Guarded<[ImportedStream]>([])
  /// Between two looks at the kept streams, in microseconds.
  static let pause: useconds_t = 250_000

  /// The files of which the log says why they do not become packages.
  private let refused = Guarded<Set<NodeID>>([])

  /// - Returns: whether the file was not refused before.
  func noteRefused(_ node: NodeID) -> Bool { refused.withLock { $0.insert(node).inserted } }

  /// Called when the kernel has forgotten a node: its number may belong to another file from now on.
  func remove(_ node: NodeID) { refused.withLock { _ = $0.remove(node) } }

  func add(_ stream: ImportedStream, for node: NodeID) { streams.withLock { $0[node] = stream } }

  func contains(_ node: NodeID) -> Bool { streams.withLock { $0[node] != nil } }

  func take(_ node: NodeID, where condition: (ImportedStream) -> Bool = { _ in true }) -> ImportedStream? {
    streams.withLock { streams in
      guard let found = streams[node], condition(found) else { return nil }
      streams[node] = nil
      return found
    }
  }

  /// The kept ones, too.
  func takeAll() -> [ImportedStream] {
    let open = streams.withLock { streams in
      defer { streams = [:] }
      return Array(streams.values)
    }
    return open + takeKept { _ in true }
  }

  /// - Returns: whether it is the only kept stream.
  func keep(_ stream: ImportedStream) -> Bool {
    kept.withLock { kept in
      kept.append(stream)
      return kept.count == 1
    }
  }

  var keepsAny: Bool { kept.withLock { !$0.isEmpty } }

  func takeKept(_ condition: (ImportedStream) -> Bool) -> [ImportedStream] {
    let ready = keptStreams.filter(condition)
    return kept.withLock { kept in
      let places = Set(ready.map(\.place.name))
      defer { kept.removeAll { places.contains($0.place.name) } }
      return kept.filter { places.contains($0.place.name) }
    }
  }

  private var keptStreams: [ImportedStream] { kept.withLock { $0 } }
}

/// A stream that became a package.
struct ImportedStream: Sendable {
  /// The directory that held the stream and now holds the package.
  let parent: NodeID
  /// The real names of the stream and of the package.
  let file: CName
  let package: CName
  /// The current place of the stream.
  let place: Staging.Place
  let written: StreamState
  let packageIdentity: FileIdentity
  let stamp: PackageStamp?

  var isAsImported: Bool {
    let now = CName(place.name).withPointer { try? place.directory.status($0) }
    return now.map(StreamState.init) == written
  }

  /// Whether a process may write to the stream, be it through a mapping. False where the file system does not show that.
  var mayBeWrittenUnseen: Bool {
    let stream = CName(place.name).withPointer { try? place.directory.directory.openRegular($0, O_RDONLY) }
    guard let stream else { return false }
    return dfs_may_be_open_for_writing(stream.descriptor.rawValue) && errno == EAGAIN
  }
}

/// The state of a stream: a change of it shows that the stream was written to.
struct StreamState: Equatable, Sendable {
  let identity: FileIdentity
  private let size: Int64
  private let modified: [Int]

  init(_ status: stat) {
    identity = FileIdentity(status)
    size = Int64(status.st_size)
    modified = [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
  }
}
