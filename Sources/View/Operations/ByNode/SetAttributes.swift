import BackingTree
import Glibc
import SystemPackage

/// The attributes that a client requests to change; nil leaves an attribute unchanged.
package struct AttributeChange: Sendable {
  package enum Time: Sendable {
    case now
    case at(timespec)
  }
  package var mode: mode_t?
  package var user: uid_t?
  package var group: gid_t?
  package var size: Int64?
  package var accessed: Time?
  package var modified: Time?
  package init() {}

  /// Whether it changes nothing. The kernel sends it for chown(2) of neither user nor group, which clears set-ID bits all the same,
  /// and before a write that clears them (`file_remove_privs`).
  var isEmpty: Bool {
    mode == nil && user == nil && group == nil && size == nil && accessed == nil && modified == nil
  }
}

extension View {
  /// Changes a node's attributes.
  ///
  /// - Parameter isInterrupted: as of `open(node:flags:client:isInterrupted:)`.
  package func setAttributes(
    _ id: NodeID, _ change: AttributeChange, open file: OpenFile?, client: Client,
    isInterrupted: () -> Bool = { false }
  ) throws(Errno) {
    try refuseAltering(id)
    let isPackage = nodes.link(of: id)?.nodeKind == .packageFile
    // A package has no content of its own to truncate: it is replaced as a whole, or changed inside its directory.
    if isPackage, change.size != nil { throw .permissionDenied }
    let clearsSetIDBitsAlone = change.isEmpty
    let change = isPackage ? try effectiveChange(of: change, to: id) : change
    // For ftruncate(2) the kernel sends the file handle. Any other change may have come by a name.
    let located = try locate(id, namedBy: file == nil ? client : nil, isDataChanged: change.size != nil)
    let path = "/proc/self/fd/\(located.rawValue)"
    // Use the client's credentials although the kernel has checked permissions: for an open file it checks the attributes that it
    // last received, and the file may have another owner since.
    try changes.own.recording(on: located.rawValue) { () throws(Errno) in
      if clearsSetIDBitsAlone || change.user != nil || change.group != nil {
        do throws(Errno) {
          _ = try client.impersonate { () throws(Errno) in
            try systemCall {
              fchownat(located.rawValue, "", change.user ?? uid_t.max, change.group ?? gid_t.max, 0x1000)
            }
          }
        } catch {
          // Only the owner may clear the bits by itself. A write that another user may make clears them when it comes.
          guard clearsSetIDBitsAlone, error == .notPermitted else { throw error }
        }
      }
      if let mode = change.mode {
        // Search permission follows read permission: without it the package could not be read.
        let isSearched = isPackage || mode & 0o111 == 0 && isPackageDirectory(id)
        let current = try fileStatus(located.rawValue).st_mode
        // A file does not show what its directory inherits, and whether others may remove from it.
        let kept = isPackage ? current & (S_ISGID | S_ISVTX) : 0
        let effective = isSearched ? (mode & ~0o111) | ((mode & 0o444) >> 2) | kept : mode
        let lost = current & 0o7777 ^ effective & 0o7777
        if lost & ~effective & (S_ISUID | S_ISGID) == lost {
          // Only set-ID bits are cleared. Any write to a file clears them, whether or not the writer owns the file: use the
          // daemon's credentials.
          _ = try Client.daemon.impersonate { () throws(Errno) in
            try systemCall { chmod(path, effective & 0o7777) }
          }
        } else {
          _ = try client.impersonateForMode(effective) { () throws(Errno) in
            try systemCall { chmod(path, effective & 0o7777) }
          }
        }
      }
      if let size = change.size {
        // Whether truncation clears set-user-ID bits depends on the credentials of the thread that truncates.
        if let file {
          try client.impersonate { () throws(Errno) in try setSize(file.descriptor.rawValue, size) }
        } else {
          // truncate(2) would block the worker until the holder of a lease gives it up.
          try LeaseBreak.retry(0, isInterrupted) { () throws(Errno) in
            try client.impersonate { () throws(Errno) in
              let opened = try located.opened(O_WRONLY | O_NONBLOCK)
              try setSize(opened.rawValue, size)
            }
          }
        }
      }
      if change.accessed != nil || change.modified != nil {
        let times = [Self.timespec(change.accessed), Self.timespec(change.modified)]
        _ = try client.impersonate { () throws(Errno) in
          try systemCall { utimensat(AT_FDCWD, path, times, 0) }
        }
      }
    }
  }

  /// Whether a node is the directory of a package, reached by its real name.
  ///
  /// A program that copies a package's stream to that name has written a file. It then sets the mode of a file, by the path, and
  /// the path stands for the directory by then (GLib, install(1), Python's shutil).
  private func isPackageDirectory(_ id: NodeID) -> Bool {
    guard !isPlainMirror, options.packages == .file, let link = nodes.link(of: id), link.type == .directory,
      link.name.withPointer({ inspector.mayBePackage($0) }),
      let site = try? site(of: link.parent), !site.role.contains(.insidePackage),
      let parent = try? directory(link.parent)
    else { return false }
    return inspector.isPackage(link.name.name, in: parent.directory, at: site)
  }

  /// The part of a change that differs from what the view shows of a package.
  ///
  /// A program that copies a package gives the copy the mode and time of the original. The view derives both from the package's
  /// parts, and the package stream has already transferred those more exactly.
  private func effectiveChange(of change: AttributeChange, to id: NodeID) throws(Errno) -> AttributeChange {
    guard change.mode != nil || change.modified != nil else { return change }
    var remaining = change
    let shown = try attributes(id)
    if let mode = change.mode, mode & 0o7777 == shown.st_mode & 0o7777 {
      // A directory that may be read but not searched is shown as if it could be searched.
      let directory = try status(of: id, at: nodes.link(of: id)).status
      if directory.st_mode & (mode & 0o444) >> 2 == (mode & 0o444) >> 2 { remaining.mode = nil }
    }
    if case .at(let time) = change.modified, time.isCopy(of: shown.st_mtim) { remaining.modified = nil }
    return remaining
  }

  private static func timespec(_ time: AttributeChange.Time?) -> timespec {
    switch time {
    case nil: Glibc.timespec(tv_sec: 0, tv_nsec: (1 << 30) - 2)  // UTIME_OMIT
    case .now: Glibc.timespec(tv_sec: 0, tv_nsec: (1 << 30) - 1)  // UTIME_NOW
    case .at(let value): value
    }
  }
}

extension timespec {
  /// Whether this time is a copy of `original`: exact to the nanosecond, rounded as a floating-point number (Python), or
  /// truncated to the one or two seconds that an archive or a FAT file system stores.
  func isCopy(of original: timespec) -> Bool {
    let (seconds, overflow) = original.tv_sec.subtractingReportingOverflow(tv_sec)
    guard !overflow, (-1...2).contains(seconds) else { return false }
    let difference = seconds * 1_000_000_000 + original.tv_nsec - tv_nsec
    return abs(difference) < 1000 || tv_nsec == 0 && (0..<2_000_000_000).contains(difference)
  }
}
