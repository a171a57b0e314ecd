import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// A directory that a client has open. It lists the current view entry by entry, so that entries that stay are listed exactly
/// once, whatever changes around them.
package final class OpenDirectory: Sendable {
  package let node: NodeID
  let content: Content
  /// The client that the directory is listed for, if not every client gets the same listing.
  let restrictedViewer: Client?
  /// Whether the listing that the kernel caches is still valid; nil where the kernel must not cache it.
  package let isCachedListingValid: Bool?
  /// Whether it lists the entries by their real names, hidden ones too: the kernel searches a directory of an exported view for
  /// the name of something that it has opened by a file handle.
  let isForNames: Bool

  enum Content: Sendable {
    case view(DirectoryView)
    /// A mirror lists what the backing directory lists.
    case mirror(DirectoryStream)
  }

  init(
    node: NodeID, content: Content, restrictedViewer: Client? = nil, isCachedListingValid: Bool? = nil,
    isForNames: Bool = false
  ) {
    self.isForNames = isForNames
    self.node = node
    self.content = content
    self.restrictedViewer = restrictedViewer
    self.isCachedListingValid = isCachedListingValid
  }
}

/// One entry of a listing.
package struct ReaddirEntry {
  /// The bytes of the name without a terminating NUL, valid during the callback.
  package let name: UnsafeBufferPointer<UInt8>
  /// The same of the real name. Nil where the attributes of the entry are costly to get, and for `.` and `..`.
  let realName: UnsafeRawBufferPointer?
  package let inode: UInt
  /// The type bits of a mode.
  package let type: mode_t
  /// The position of the next entry.
  package let next: Int64
}

extension View {
  /// - Parameter flags: those of open(2). The kernel's own search for a name has none, not even O_LARGEFILE, which open(2) adds.
  package func openDirectory(_ id: NodeID, flags: CInt = O_DIRECTORY, client: Client) throws(Errno)
    -> OpenDirectory
  {
    if isPlainMirror {
      let handle = try directory(id)
      if source.coherence.mode == .timeout { _ = try handle.directory.latestStatus() }
      // Opened with the daemon's credentials: the kernel has checked that the client may read the directory, and opening `.` as
      // the client would also need search permission.
      let readable = try handle.directory.openForReading()
      DescriptorLimit.noteOpened(readable.rawValue)
      return OpenDirectory(node: id, content: .mirror(DirectoryStream(adopting: readable)))
    }
    let view = try directoryView(id)
    if isExported, flags == 0 { return OpenDirectory(node: id, content: .view(view), isForNames: true) }
    // This descriptor stays open as long as the client has the directory open.
    DescriptorLimit.noteOpened(view.handle.directory.descriptor)
    try view.inspectChangedSubdirectories()
    let restrictedViewer = try restrictedViewer(of: view, client: client)
    let isCachedListingValid: Bool? = restrictedViewer == nil ? try view.beginCachedListing() : nil
    if view.mayHoldStaging.load(ordering: .relaxed) { cleanUpLocalStaging(of: view) }
    return OpenDirectory(
      node: id, content: .view(view), restrictedViewer: restrictedViewer,
      isCachedListingValid: isCachedListingValid)
  }

  /// Lists from a position on (0 is the start) until `body` returns false. Ends before the end of the directory only after an
  /// entry. `.` and `..` come first.
  ///
  /// - Parameters:
  ///   - size: roughly the room that `body` has, in bytes.
  package func list(
    _ open: OpenDirectory, from position: Int64, size: Int, _ body: (borrowing ReaddirEntry) -> Bool
  ) throws(Errno) {
    var position = max(0, position)
    while position < 2 {
      // `..` of the view's root gets the number of the root itself: its parent is not part of the view, and readers skip an
      // entry with the inode number 0.
      let up = position == 0 || open.node == NodeTable.root ? nil : nodes.link(of: open.node)?.parent
      let inode =
        nodes.link(of: up ?? open.node).map { inodeNumber($0.identity, .plain) } ?? UInt(open.node.slot)
      let shouldContinue = (position == 0 ? [0x2e] : [0x2e, 0x2e] as [UInt8]).withUnsafeBufferPointer {
        body(ReaddirEntry(name: $0, realName: nil, inode: inode, type: S_IFDIR, next: position + 1))
      }
      guard shouldContinue else { return }
      position += 1
    }
    switch open.content {
    case .view(let view):
      try view.withCurrent { (projection) throws(Errno) in
        list(
          projection, from: position, of: open, in: view.handle.directory, body)
      }
    case .mirror(let stream): try stream.list(from: position, size: size, body)
    }
  }

  private func list(
    _ projection: borrowing Projection, from position: Int64, of open: OpenDirectory, in directory: Directory,
    _ body: (borrowing ReaddirEntry) -> Bool
  ) {
    var slot = Int(position) - 2
    while slot < projection.slotLimit {
      defer { slot += 1 }
      guard let summary = projection.summary(at: slot) else { continue }
      guard !summary.isHidden || open.isForNames && options.hidden != .deny else { continue }
      if let restrictedViewer = open.restrictedViewer,
        !projection.withRealName(at: slot, { CName(bytes: $0) })
          .withPointer({ restrictedViewer.mayOpen($0, in: directory) })
      {
        continue
      }
      // The real name of a package leads to its directory.
      let nodeKind =
        open.isForNames && summary.kind == .package
        ? .plain : summary.kind.nodeKind(packages: options.packages)
      let isFile = nodeKind == .packageFile
      let inode = inodeNumber(FileIdentity(device: source.device, inode: summary.inode), nodeKind)
      let type = isFile ? S_IFREG : FileType(direntType: summary.entryType).modeBits
      let shouldContinue = projection.withDisplayName(at: slot) { displayName in
        projection.withRealName(at: slot) {
          let name = open.isForNames ? $0.bindMemory(to: UInt8.self) : displayName
          // To determine the size of a package takes a walk through it.
          let realName = isFile || open.isForNames ? nil : $0
          return body(
            ReaddirEntry(name: name, realName: realName, inode: inode, type: type, next: Int64(slot) + 3))
        }
      }
      if !shouldContinue { return }
    }
  }
}

/// Attributes in READDIRPLUS replies.
extension View {
  /// The directory and its version for the entries of a READDIRPLUS reply, taken before the entries are looked at. Nil where
  /// the reply carries names alone.
  package func versionOfEntries(in open: OpenDirectory, from position: Int64, client: Client)
    -> (directory: DirectoryHandle, version: DirectoryVersion)?
  {
    // At later positions the kernel sends READDIRPLUS only if the attributes in earlier replies were of use.
    if position == 0, !walks.readdirPlusPolicy.noteListing(open.node, client.thread) { return nil }
    guard let handle = try? directory(open.node) else { return nil }
    return cached.version(open.node, handle).map { (handle, $0) }
  }

  /// The entry of a listed name for a READDIRPLUS reply, with its nlookup count incremented. Nil where the kernel has to look
  /// the name up.
  package func entry(
    of listed: borrowing ReaddirEntry, in open: OpenDirectory,
    _ versioned: (directory: DirectoryHandle, version: DirectoryVersion)
  ) -> Entry? {
    guard let bytes = listed.realName else { return nil }
    let handle = versioned.directory
    let name = CName(bytes: bytes)
    let shown = listed.name
    let byRealName =
      bytes.count == shown.count && memcmp(bytes.baseAddress!, shown.baseAddress!, shown.count) == 0
    guard let status = name.withPointer({ try? handle.status($0) }),
      inodeNumber(FileIdentity(status), .plain) == listed.inode
    else { return nil }
    let isWatched = if case .view(let view) = open.content { view.isWatched } else { true }
    let found = Found(
      directory: handle, realName: name, status: status, nodeKind: .plain, byRealName: byRealName,
      isEntryCacheable: isWatched)
    return try? entry(found, in: open.node, version: versioned.version)
  }

  /// Invalidates what the kernel cached from a READDIRPLUS reply if the directory changed while the reply was on its way.
  ///
  /// - Parameters:
  ///   - version: the version of the directory that all entries were looked up for.
  ///   - name: the bytes of the name that is at that place of the reply.
  package func revalidateAfterReply(
    _ added: [AddedEntry], of directory: NodeID, _ version: DirectoryVersion,
    name: (Range<Int>) -> UnsafeRawBufferPointer
  ) {
    for entry in added {
      if let own = entry.ownVersion { revalidateAfterReply(own, of: entry.node, in: directory) }
    }
    if version.isStale {
      invalidateBeforeNextWalk(
        added.map { StaleName(Name(name($0.name)), in: directory, mayBeDirectory: $0.isDirectory) })
    }
    for entry in added where !entry.isDirectory {
      guard version.isStale(for: entry.node) else { return }
      revalidateAfterReply(version, of: entry.node, in: directory)
    }
  }
}

/// An entry with attributes in a READDIRPLUS reply, as far as it is needed after the reply.
package struct AddedEntry {
  package let node: NodeID
  /// The place of the entry's name in the reply.
  fileprivate let name: Range<Int>
  fileprivate let isDirectory: Bool
  /// The version of the entry itself, if it is a directory.
  fileprivate let ownVersion: DirectoryVersion?

  package init(_ entry: Entry, name start: Int, length: UInt32) {
    node = entry.id
    name = start..<start + Int(length)
    isDirectory = FileType(mode: entry.attributes.st_mode) == .directory
    ownVersion = isDirectory ? entry.attributesVersion : nil
  }
}

extension View {
  /// Makes the changes of a directory durable. (`fsync`)
  package func synchronizeDirectory(_ id: NodeID) throws(Errno) {
    let readable = try directory(id).directory.openForReading()
    try systemCall { fsync(readable.rawValue) }
  }
}
