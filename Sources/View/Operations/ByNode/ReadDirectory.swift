import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// A directory that a client has open. It lists the current view entry by entry, so that entries that stay are listed exactly
/// once, whatever changes around them.
public final class OpenDirectory: Sendable {
  public let node: NodeID
  let content: Content
  /// The client that the directory is listed for, if not every client gets the same listing.
  let visitor: Caller?
  /// Whether the listing that the kernel caches is still valid; nil where the kernel must not cache it.
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
  /// The bytes of the name without a terminating NUL, valid during the callback.
  public let name: UnsafeBufferPointer<UInt8>
  /// The same of the real name. Nil where the attributes of the entry are costly to get, and for `.` and `..`.
  let realName: UnsafeRawBufferPointer?
  public let inode: UInt
  /// The type bits of a mode.
  public let type: mode_t
  /// The position of the next entry.
  public let next: Int64
}

extension View {
  public func openDirectory(_ id: NodeID, caller: Caller) throws(Errno) -> OpenDirectory {
    if isPlainMirror {
      let handle = try directory(id)
      // Opened with the daemon's credentials: the kernel has checked that the client may read the directory, and opening `.` as
      // the client would also need search permission.
      let readable = try handle.directory.openForReading()
      DescriptorLimit.given(readable.rawValue)
      return OpenDirectory(node: id, content: .mirror(DirectoryStream(adopting: readable)))
    }
    let view = try directoryView(id)
    // This descriptor stays open as long as the client has the directory open.
    DescriptorLimit.given(view.handle.directory.descriptor)
    try view.lookInside()
    let visitor = try visitor(of: view, caller: caller)
    let keptListingHolds: Bool? = visitor == nil ? try view.beginKeptListing() : nil
    if view.holdsStaging.load(ordering: .relaxed) { finishStaged(besideEntriesOf: view) }
    return OpenDirectory(
      node: id, content: .view(view), visitor: visitor, keptListingHolds: keptListingHolds)
  }

  /// Lists from a position on (0 is the start) until `body` returns false. Ends before the end of the directory only after an
  /// entry. `.` and `..` come first.
  ///
  /// - Parameters:
  ///   - size: roughly the room that `body` has, in bytes.
  public func list(
    _ open: OpenDirectory, from position: Int64, size: Int, _ body: (borrowing ListedEntry) -> Bool
  ) throws(Errno) {
    var position = max(0, position)
    while position < 2 {
      // `..` of the view's root gets the number of the root itself: its parent is not part of the view, and readers skip an entry
      // whose inode number is 0.
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
          // To determine the size of a package takes a walk through it.
          let realName = isFile ? nil : $0
          return body(
            ListedEntry(name: name, realName: realName, inode: inode, type: type, next: Int64(slot) + 3))
        }
      }
      if !goOn { return }
    }
  }
}

/// Attributes in READDIRPLUS replies.
extension View {
  /// The version of the directory for the entries of a READDIRPLUS reply, taken before the entries are looked at. Nil where the
  /// reply carries names alone.
  public func leaseOfEntries(in open: OpenDirectory, from position: Int64, caller: Caller) -> CacheLease? {
    // At later positions the kernel sends READDIRPLUS only if the attributes in earlier replies were of use.
    if position == 0, !lookers.lists(open.node, caller.process) { return nil }
    guard let handle = try? directory(open.node) else { return nil }
    return cached.lease(open.node, handle)
  }

  /// The entry of a listed name for a READDIRPLUS reply, with its nlookup count incremented. Nil where the kernel has to look the
  /// name up.
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
    return try? entry(found, in: open.node, byRealName: byRealName, lease: lease)
  }

  /// Takes back the nlookup counts of entries in a reply that did not reach the kernel.
  public func forget(_ entries: [Entry]) { for entry in entries { forget(entry.id, count: 1) } }
}

extension View {
  /// Makes the changes of a directory durable. (`fsync`)
  public func synchronizeDirectory(_ id: NodeID) throws(Errno) {
    let readable = try directory(id).directory.openForReading()
    try systemCall { fsync(readable.rawValue) }
  }
}
