import BackingTree
import CFuse
import DisplayNames
import Glibc
import PackageStream
import SystemPackage

/// A package that a program has open as a file: its stream, as it was when it was opened.
public final class OpenPackage: Sendable {
  let reader: PackageReader
  public let node: NodeID

  init(reader: PackageReader, node: NodeID) {
    self.reader = reader
    self.node = node
  }

  /// The length of the stream in bytes.
  public var size: Int64 { reader.layout.size }

  /// - Throws: EIO when the package is no longer what it was when it was opened.
  public func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(Errno) -> Int {
    try reader.pread(into: buffer, at: offset)
  }
}

/// What opening a node gives.
public enum Opened {
  case file(OpenFile)
  case package(OpenPackage)
}

extension View {
  /// Opens a node that is no directory.
  public func open(node id: NodeID, flags: CInt, caller: Caller) throws(Errno) -> Opened {
    guard let location = nodes.location(of: id), location.facet == .packageFile else {
      return .file(try open(id, flags: flags, caller: caller))
    }
    // Its content is what the directory holds; it is replaced as a whole or changed inside.
    guard flags & O_ACCMODE == O_RDONLY else { throw .permissionDenied }
    let parent = try directory(location.parent).directory
    let package = try location.name.withPointer { (name) throws(Errno) in
      try caller.act { () throws(Errno) in try parent.open(name, O_RDONLY | dfs_O_DIRECTORY) }
    }
    guard FileIdentity(try fileStatus(package.rawValue)) == location.identity else { throw .staleNFSFileHandle }
    let type = inspector.typeIdentifier(of: location.name.name)
    // Walked as the caller: what they may not read is not in a stream of theirs.
    let layout = try caller.actAsMember { () throws(Errno) in
      try PackageLayout(of: Directory(descriptor: package.rawValue), type: type)
    }
    return .package(OpenPackage(reader: PackageReader(layout: layout, package: package), node: id))
  }

  /// Opens a backing file, checked to be the one that the node stands for before anything is done to it.
  func open(_ id: NodeID, flags: CInt, caller: Caller) throws(Errno) -> OpenFile {
    let descriptor = try openChecked(id, flags: flags, caller: caller)
    if flags & O_TRUNC != 0 { try systemCall { ftruncate(descriptor.rawValue, 0) } }
    let file = OpenFile(descriptor: descriptor, node: id, flags: flags)
    openNodes.opened(file)
    return file
  }

  private func openChecked(_ id: NodeID, flags: CInt, caller: Caller) throws(Errno) -> Descriptor {
    // Programs are executed without being read by whoever runs them; the kernel has checked that they may.
    let isExecution = flags & 0x20 /* FMODE_EXEC */ != 0
    let backing = backingFlags(flags) & ~0x20
    if let location = nodes.location(of: id) {
      do throws(Errno) {
        let parent = try directory(location.parent).directory
        let found = try location.name.withPointer { (name) throws(Errno) in
          if isExecution { return try parent.open(name, backing) }
          return try caller.act { () throws(Errno) in try parent.open(name, backing) }
        }
        if FileIdentity(try fileStatus(found.rawValue)) == location.identity { return found }
      } catch {
        if error != .noSuchFileOrDirectory, error != .staleNFSFileHandle, error != .notDirectory { throw error }
      }
    }
    guard let open = openNodes.file(of: id) else { throw .staleNFSFileHandle }
    return Descriptor(
      adopting: try systemCall { Glibc.open("/proc/self/fd/\(open.descriptor.rawValue)", backing | O_CLOEXEC) })
  }

  /// Makes a file without a name. (open with O_TMPFILE)
  public func makeTemporaryFile(
    _ parent: NodeID, mode: mode_t, flags: CInt, caller: Caller
  ) throws(Errno) -> CreatedFile {
    let handle = try directory(parent)
    let descriptor = try caller.actForMode(mode) { () throws(Errno) in
      try handle.directory.open(".", backingFlags(flags) | dfs_O_TMPFILE, mode: mode & 0o7777)
    }
    let status = try fileStatus(descriptor.rawValue)
    let node = nodes.remember(FileIdentity(status), facet: .plain, parent: parent, name: "")
    let file = OpenFile(descriptor: descriptor, node: node.id, flags: flags)
    openNodes.opened(file)
    return CreatedFile(
      entry: Entry(id: node.id, generation: node.generation, attributes: present(status)), file: file)
  }

  /// The kernel has released a file.
  public func close(_ file: OpenFile) { openNodes.closed(file) }
}
