import BackingTree
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// The content of an AppleDouble sidecar, as the extended attributes that a Mac has for it (`appledouble=merge`).
extension View {
  /// An attribute of a file that is stored in its sidecar.
  private enum Merged: CaseIterable {
    case finderInfo, resourceFork

    var name: String {
      switch self {
      case .finderInfo: "user.com.apple.FinderInfo"
      case .resourceFork: "user.com.apple.ResourceFork"
      }
    }

    func range(in sidecar: AppleDouble) -> Range<Int>? {
      switch self {
      case .finderInfo: sidecar.finderInfo
      case .resourceFork: sidecar.resourceFork
      }
    }
  }

  /// The value of an attribute that the file itself does not have.
  ///
  /// - Throws: ENODATA when the sidecar does not have it either, E2BIG for a fork larger than an attribute can be.
  func mergedAttribute(
    _ name: UnsafePointer<CChar>, of id: NodeID, _ client: Client
  ) throws(Errno) -> [UInt8] {
    guard let requested = Merged.allCases.first(where: { strcmp(name, $0.name) == 0 }),
      let sidecar = openSidecar(of: id, client), let range = requested.range(in: sidecar.header)
    else { throw Errno(rawValue: ENODATA) }
    guard range.count <= Self.largestAttribute else { throw Errno(rawValue: E2BIG) }
    var value = [UInt8](repeating: 0, count: range.count)
    let count = try value.withUnsafeMutableBytesTyped { (buffer) throws(Errno) in
      try readFully(sidecar.file.descriptor.rawValue, into: buffer, at: Int64(range.lowerBound))
    }
    return Array(value.prefix(count))
  }

  /// The names of the attributes that a file has by its sidecar, except those that it has itself.
  func mergedNames(of id: NodeID, besides own: [[UInt8]], _ client: Client) -> [[UInt8]] {
    guard let sidecar = openSidecar(of: id, client) else { return [] }
    return Merged.allCases.filter { merged in
      guard let range = merged.range(in: sidecar.header), range.count <= Self.largestAttribute else {
        return false
      }
      return !own.contains { $0.elementsEqual(merged.name.utf8) }
    }.map { Array($0.name.utf8) }
  }

  private struct OpenSidecar: ~Copyable {
    let file: RegularFile
    let header: AppleDouble
  }

  /// Opens the sidecar with the client's credentials, because the kernel has not checked the client's permissions on it.
  private func openSidecar(of id: NodeID, _ client: Client) -> OpenSidecar? {
    guard let link = nodes.link(of: id), let sidecar = link.name.name.sidecar,
      let parent = try? directory(link.parent).directory
    else { return nil }
    let opened = try? CName(sidecar).withPointer { (name) throws(Errno) -> RegularFile? in
      // Most files have no sidecar, and then the client's credentials need not be read.
      guard parent.has(name) else { return nil }
      return try client.impersonateWithGroups { () throws(Errno) in try parent.openRegular(name, O_RDONLY) }
    }
    guard let file = opened else { return nil }
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = try? bytes.withUnsafeMutableBytesTyped { (buffer) throws(Errno) in
      try readFully(file.descriptor.rawValue, into: buffer, at: 0)
    }
    guard let header = AppleDouble(Array(bytes.prefix(count ?? 0)), fileSize: Int(file.status.st_size)) else {
      return nil
    }
    return OpenSidecar(file: file, header: header)
  }

  /// XATTR_SIZE_MAX of Linux.
  private static let largestAttribute = 65_536
}
