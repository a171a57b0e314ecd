import BackingTree
import CLinux
import DisplayNames
import Glibc
import Logging
import PackageStream
import SystemPackage

/// A package that a client has open as a file: its stream, as of the time of the open.
///
/// Programs that only detect the type of a file read its beginning. Where the layout of the beginning is cached, the
/// package is not walked until more of the stream is read.
package final class OpenPackage: Sendable {
  /// The most descriptors that an open package takes: two for the package, and the files that its reader keeps open.
  package static let maximumDescriptors = 2 + PackageReader.maximumOpenFiles

  package let node: NodeID
  private let name: Name
  private let logger: Logger
  /// The credentials of the client at the time of the open. As with any descriptor, they decide as long as the package is open.
  private let credentials: Credentials
  private let type: String
  private let package: Descriptor
  private let isInPlace: @Sendable () -> Bool
  private let sizes: PackageSizes
  private let state: Guarded<State>

  /// A reader of the whole stream, from a walk with the client's credentials.
  struct Walked {
    let reader: PackageReader
    fileprivate let layout: OpenLayouts.Use
  }

  private struct State {
    var reader: PackageReader
    /// The layout of `reader`; nil while that covers only a beginning.
    var walked: OpenLayouts.Use?
    var isWalked: Bool { walked != nil }
    /// Whether a read was served from the cached beginning.
    var hasServedRead = false
    var hasLoggedError = false
  }

  /// - Parameters:
  ///   - beginning: the reader of a beginning that the client may see; nil with `walked`.
  ///   - isInPlace: whether the name that the package was opened by still leads to it.
  init(
    _ package: consuming Descriptor, name: Name, type: String, node: NodeID, credentials: Credentials,
    beginning: PackageReader?, walked: Walked?, isInPlace: @escaping @Sendable () -> Bool,
    sizes: PackageSizes,
    logger: Logger
  ) {
    self.package = package
    self.isInPlace = isInPlace
    self.name = name
    self.logger = logger
    self.type = type
    self.node = node
    self.credentials = credentials
    self.sizes = sizes
    state = Guarded(State(reader: beginning ?? walked!.reader, walked: walked?.layout), rank: .openFile)
    DescriptorLimit.noteOpened(self.package.rawValue)
  }

  /// The length of the stream in bytes.
  package var size: Int64 { state.withLock { $0.reader.layout.size } }

  /// - Throws: EIO when the package has changed since it was opened; EACCES when the client that opened it may not read a part
  ///   of it.
  package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(Errno) -> Int {
    do throws(Errno) {
      if let count = try readBeginning(into: buffer, at: offset) { return count }
      let reader = try walkedReader()
      // The files are opened when they are reached, with the credentials of the client that opened the package.
      return try credentials.impersonate { () throws(Errno) in try reader.pread(into: buffer, at: offset) }
    } catch {
      let isFirst = state.withLock { state in
        defer { state.hasLoggedError = true }
        return !state.hasLoggedError
      }
      if isFirst, error == .ioError {
        logger.error("\(name) changed, or could not be read, while a program read it")
      }
      throw error
    }
  }

  /// Reads from the cached beginning. - Returns: nil when the package must be walked for the read.
  private func readBeginning(
    into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
  ) throws(Errno) -> Int? {
    let beginning = state.withLock { $0.isWalked ? nil : $0.reader }
    guard let beginning, beginning.layout.covers(buffer.count, at: offset) else { return nil }
    let read: Result<Int, Errno>
    do throws(Errno) {
      read = .success(
        try credentials.impersonate { () throws(Errno) in try beginning.pread(into: buffer, at: offset) })
    } catch { read = .failure(error) }
    return try state.withLock { (state) throws(Errno) -> Int? in
      // Another thread has walked the package meanwhile, and the package may have changed before that.
      if state.isWalked { return nil }
      // The package has changed since it was measured. As long as no read has returned data, this counts as a change before the
      // open.
      if case .failure(.ioError) = read, !state.hasServedRead { return nil }
      let count = try read.get()
      state.hasServedRead = true
      return count
    }
  }

  private func walkedReader() throws(Errno) -> PackageReader {
    var failure: Errno?
    // Released after the lock, because it may have descriptors to close.
    var beginning: PackageReader?
    let reader = state.withLock { state -> PackageReader? in
      if state.isWalked { return state.reader }
      do throws(Errno) {
        let made = try Self.walk(
          Directory(descriptor: package.rawValue), name, type: type, credentials, sizes)
        // Before any data was read a change counts as one before the open, unless the package was moved away since: one that is
        // replaced as a whole may be emptied already.
        guard made.reader.layout.stamp == state.reader.layout.stamp || !state.hasServedRead && isInPlace()
        else {
          throw .ioError
        }
        beginning = state.reader
        state.reader = made.reader
        state.walked = made.layout
        return made.reader
      } catch {
        failure = error
        return nil
      }
    }
    _ = beginning
    if let reader { return reader }
    throw failure ?? .ioError
  }

  /// Walks a package with the client's credentials: a package with a directory that the client may not search has no stream.
  ///
  /// - Throws: ENOMEM when the layouts of the user's open packages take too much memory; the errno of the walk.
  static func walk(
    _ package: Directory, _ name: Name, type: String, _ credentials: Credentials, _ sizes: PackageSizes
  ) throws(Errno) -> Walked {
    let status = try package.status()
    let omitted = ContainerData.omitted(from: name)
    let start = ContinuousClock.now
    sizes.tally.countFetch()
    let layout = try ReadingPass.run { () throws(Errno) in
      try credentials.impersonate { () throws(Errno) in
        try PackageLayout(of: package, type: type, omitting: omitted)
      }
    }
    try DirectoryTree.checkReadable(package, credentials)
    sizes.cache(layout, status, omitting: omitted, since: start)
    let key = OpenLayouts.Key(FileIdentity(status), type: type, omitting: omitted, credentials)
    let shared = try sizes.openLayouts.share(layout, for: key, of: credentials.user)
    let opened = try package.open(".", dfs_O_PATH | dfs_O_DIRECTORY)
    return Walked(reader: PackageReader(layout: shared.layout, package: opened), layout: shared)
  }

  /// A reader of a cached beginning; nil if the client may not see what it shows.
  static func reader(
    _ beginning: PackageLayout, _ package: Directory, _ credentials: Credentials
  ) -> PackageReader? {
    guard let opened = try? package.open(".", dfs_O_PATH | dfs_O_DIRECTORY) else { return nil }
    let reader = PackageReader(layout: beginning, package: opened)
    do throws(Errno) {
      try credentials.impersonate { () throws(Errno) in try reader.checkReadable() }
      try DirectoryTree.checkReadable(package, credentials)
    } catch { return nil }
    return reader
  }
}
