import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// A directory that a program has open. It lists the view as it is, entry by entry, so that entries that stay are
/// listed exactly once however much changes around them.
public final class OpenDirectory: Sendable {
  public let node: NodeID
  let content: Content
  /// Whom it is listed for, where not everybody gets the same.
  let visitor: Caller?
  /// Whether what the kernel kept of an earlier listing holds; nil where it must not keep any.
  public let keptListingHolds: Bool?

  enum Content: Sendable {
    case view(DirectoryView)
    /// A mirror lists what the backing directory lists.
    case mirror(DirectoryStream)
  }

  init(node: NodeID, content: Content, visitor: Caller? = nil, keptListingHolds: Bool? = nil) {
    self.node = node
    self.content = content
    self.visitor = visitor
    self.keptListingHolds = keptListingHolds
  }
}

/// One entry of a listing.
public struct ListedEntry {
  /// The name's bytes, without a terminating NUL, valid during the callback.
  public let name: UnsafeBufferPointer<UInt8>
  public let inode: UInt
  /// The type bits of a mode.
  public let type: mode_t
  /// Where the entry after this one is found.
  public let next: Int64
}

extension View {
  public func openDirectory(_ id: NodeID, caller: Caller) throws(Errno) -> OpenDirectory {
    if isPlainMirror {
      let handle = try directory(id)
      // As the daemon: the kernel has checked that the caller may read it, and `.` would need permission to search.
      let readable = try handle.directory.openForReading()
      return OpenDirectory(node: id, content: .mirror(DirectoryStream(adopting: readable)))
    }
    let view = try directoryView(id)
    try view.lookInside()
    let visitor = try visitor(of: view, caller: caller)
    return OpenDirectory(
      node: id, content: .view(view), visitor: visitor,
      keptListingHolds: visitor == nil ? try view.beginKeptListing() : nil)
  }

  /// Lists from a position on (0 is the start) until `body` returns false, and ends before the end of the directory only
  /// after an entry. `.` and `..` come first.
  ///
  /// - Parameter size: in bytes, about what `body` has room for.
  public func list(
    _ open: OpenDirectory, from position: Int64, size: Int, _ body: (borrowing ListedEntry) -> Bool
  ) throws(Errno) {
    var position = max(0, position)
    while position < 2 {
      // What lies above the root of the view is not the view's business, and 0 would make readers skip the entry.
      let up = position == 0 || open.node == NodeTable.root ? nil : nodes.location(of: open.node)?.parent
      let inode =
        nodes.location(of: up ?? open.node).map { inodeNumber($0.identity, .plain) } ?? UInt(open.node)
      let goOn = (position == 0 ? [0x2e] : [0x2e, 0x2e] as [UInt8]).withUnsafeBufferPointer {
        body(ListedEntry(name: $0, inode: inode, type: S_IFDIR, next: position + 1))
      }
      guard goOn else { return }
      position += 1
    }
    switch open.content {
    case .view(let view):
      try view.withCurrent { (projection) throws(Errno) in
        list(projection, from: position, visitor: open.visitor, in: view.handle.directory, body)
      }
    case .mirror(let stream): try stream.list(from: position, size: size, body)
    }
  }

  private func list(
    _ projection: borrowing Projection, from position: Int64, visitor: Caller?, in directory: Directory,
    _ body: (borrowing ListedEntry) -> Bool
  ) {
    var slot = Int(position) - 2
    while slot < projection.slotLimit {
      defer { slot += 1 }
      guard let summary = projection.summary(at: slot), !summary.isHidden else { continue }
      if let visitor,
        !CName(projection.realName(at: slot)).withPointer({ visitor.mayOpen($0, in: directory) })
      {
        continue
      }
      let isFile = summary.kind == .package && options.packages == .file
      let facet = isFile ? Facet.packageFile : .plain
      let inode = inodeNumber(FileIdentity(device: rootDevice, inode: summary.inode), facet)
      let type = isFile ? S_IFREG : FileType(direntType: summary.entryType).modeBits
      let goOn = projection.withDisplayName(at: slot) {
        body(ListedEntry(name: $0, inode: inode, type: type, next: Int64(slot) + 3))
      }
      if !goOn { return }
    }
  }
}

extension View {
  /// Makes what was changed in a directory last. (`fsync`)
  public func synchronizeDirectory(_ id: NodeID) throws(Errno) {
    let readable = try directory(id).directory.openForReading()
    try systemCall { fsync(readable.rawValue) }
  }
}
