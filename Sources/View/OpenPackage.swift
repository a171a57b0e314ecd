import BackingTree
import CFuse
import DisplayNames
import Glibc
import Logging
import PackageStream
import SystemPackage

/// A package that a program has open as a file: its stream, as it was when it was opened.
///
/// Programs that only want to know what kind of file it is read the beginning. Where that is remembered the package is
/// not looked at until more of it is read.
public final class OpenPackage: Sendable {
  /// The package twice, and the files that its reader keeps open.
  public static let mostDescriptors = 2 + PackageReader.keptOpen

  public let node: NodeID
  private let name: Name
  private let logger: Logger
  /// Of the client that opened it, then: as with any descriptor, they decide for as long as it is open.
  private let credentials: Credentials
  private let type: String
  private let package: Descriptor
  private let beginning: PackageSizes.Beginning?
  private let state: Guarded<State>

  private struct State {
    var reader: PackageReader?
    /// Whether a read was answered from the beginning.
    var hasBegun = false
    var hasComplained = false
  }

  init(
    _ package: consuming Descriptor, name: Name, type: String, node: NodeID, credentials: Credentials,
    reader: PackageReader?,
    beginning: PackageSizes.Beginning?, logger: Logger
  ) {
    self.package = package
    self.name = name
    self.logger = logger
    self.type = type
    self.node = node
    self.credentials = credentials
    self.beginning = beginning
    state = Guarded(State(reader: reader))
    DescriptorLimit.given(self.package.rawValue)
  }

  /// The length of the stream in bytes.
  public var size: Int64 { state.withLock { $0.reader?.layout.size } ?? beginning?.measure.size ?? 0 }

  /// - Throws: EIO when the package is no longer what it was when it was opened; EACCES when whoever opened it may not
  ///   read a part.
  public func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(Errno) -> Int {
    if let beginning, offset >= 0,
      offset <= Int64(beginning.bytes.count - min(buffer.count, beginning.bytes.count)),
      buffer.count <= beginning.bytes.count,
      state.withLock({ state in
        state.hasBegun = state.hasBegun || state.reader == nil
        return state.reader == nil
      })
    {
      buffer.copyBytes(from: beginning.bytes[Int(offset)..<(Int(offset) + buffer.count)])
      return buffer.count
    }
    do throws(Errno) {
      let reader = try currentReader()
      // The files are opened as they are come to, by whoever opened the package.
      return try credentials.act { () throws(Errno) in try reader.pread(into: buffer, at: offset) }
    } catch {
      let isFirst = state.withLock { state in
        defer { state.hasComplained = true }
        return !state.hasComplained
      }
      if isFirst, error == .ioError {
        logger.error("\(name) changed, or could not be read, while a program read it")
      }
      throw error
    }
  }

  private func currentReader() throws(Errno) -> PackageReader {
    var failure: Errno?
    let reader = state.withLock { state -> PackageReader? in
      if let reader = state.reader { return reader }
      do throws(Errno) {
        let made = try Self.reader(
          Directory(descriptor: package.rawValue), type: type, credentials,
          omitting: ContainerData.omitted(from: name))
        guard !state.hasBegun || made.layout.stamp == beginning?.stamp else { throw .ioError }
        state.reader = made
        return made
      } catch {
        failure = error
        return nil
      }
    }
    if let reader { return reader }
    throw failure ?? .ioError
  }

  /// Looks at a package with the client's credentials: a package with a directory that the client may not search has no stream.
  static func reader(
    _ package: Directory, type: String, _ credentials: Credentials, omitting omitted: Set<[UInt8]>
  ) throws(Errno) -> PackageReader {
    let layout = try credentials.act { () throws(Errno) in
      try PackageLayout(of: package, type: type, omitting: omitted)
    }
    return PackageReader(layout: layout, package: try package.open(".", dfs_O_PATH | dfs_O_DIRECTORY))
  }
}
