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
  /// The same of the real name; nil where it takes long to tell what it stands for, and for `.` and `..`.
  let realName: UnsafeRawBufferPointer?
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
      DescriptorLimit.given(readable.rawValue)
      return OpenDirectory(node: id, content: .mirror(DirectoryStream(adopting: readable)))
    }
    let view = try directoryView(id)
    // It stays open as long as the client has the directory open.
    DescriptorLimit.given(view.handle.directory.descriptor)
    try view.lookInside()
    let visitor = try visitor(of: view, caller: caller)
    let keptListingHolds: Bool? = visitor == nil ? try view.beginKeptListing() : nil
    if view.holdsStaging.load(ordering: .relaxed) { finishStaged(besideEntriesOf: view) }
    return OpenDirectory(
      node: id, content: .view(view), visitor: visitor, keptListingHolds: keptListingHolds)
  }

  /// Lists from a position on (0 is the start) until `body` returns false, and ends before the end of the directory only
  /// after an entry. `.` and `..` come first.
  ///
  /// - Parameters:
  ///   - size: in bytes, about what `body` has room for.
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
        body(ListedEntry(name: $0, realName: nil, inode: inode, type: S_IFDIR, next: position + 1))
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
        !projection.withRealName(at: slot, { CName(bytes: $0) })
          .withPointer({ visitor.mayOpen($0, in: directory) })
      {
        continue
      }
      let isFile = summary.kind == .package && options.packages == .file
      let facet = isFile ? Facet.packageFile : .plain
      let inode = inodeNumber(FileIdentity(device: rootDevice, inode: summary.inode), facet)
      let type = isFile ? S_IFREG : FileType(direntType: summary.entryType).modeBits
      let goOn = projection.withDisplayName(at: slot) { name in
        projection.withRealName(at: slot) {
          // To know what a package measures takes a walk through it.
          let realName = isFile ? nil : $0
          return body(
            ListedEntry(name: name, realName: realName, inode: inode, type: type, next: Int64(slot) + 3))
        }
      }
      if !goOn { return }
    }
  }
}

/// What is told with a listing.
extension View {
  /// What may be said of the entries of a directory, taken before they are looked at; nil where names alone will do.
  public func leaseOfEntries(in open: OpenDirectory, from position: Int64, caller: Caller) -> CacheLease? {
    // Later the kernel asks for more than names only if what it was told before was of use.
    if position == 0, !lookers.lists(open.node, caller.process) { return nil }
    guard let handle = try? directory(open.node) else { return nil }
    return cached.lease(open.node, handle)
  }

  /// What an entry that is being listed stands for, one more time known to the kernel; nil where it is to ask for that.
  public func entry(
    of listed: borrowing ListedEntry, in open: OpenDirectory, _ lease: CacheLease
  ) -> Entry? {
    guard let bytes = listed.realName, let handle = try? directory(open.node) else { return nil }
    let name = CName(bytes: bytes)
    let byRealName = bytes.elementsEqual(listed.name)
    guard let status = name.withPointer({ try? handle.status($0) }),
      inodeNumber(FileIdentity(status), .plain) == listed.inode
    else { return nil }
    let isWatched = if case .view(let view) = open.content { view.isWatched } else { true }
    let found = Found(
      directory: handle, realName: name, status: status, facet: .plain, isNameKept: isWatched)
    return entry(found, in: open.node, byRealName: byRealName, lease: lease)
  }

  /// The kernel has not heard of what it was to be told of.
  public func forget(_ entries: [Entry]) { for entry in entries { forget(entry.id, count: 1) } }
}

extension View {
  /// Makes what was changed in a directory last. (`fsync`)
  public func synchronizeDirectory(_ id: NodeID) throws(Errno) {
    let readable = try directory(id).directory.openForReading()
    try systemCall { fsync(readable.rawValue) }
  }
}
