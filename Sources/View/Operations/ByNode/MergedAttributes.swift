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
    else { throw .noData }
    guard range.count <= DesktopAttribute.largestValue else { throw Errno(rawValue: E2BIG) }
    return try sidecar.bytes(in: range)
  }

  /// The names of the attributes that a file has by its sidecar, except those that it has itself.
  func mergedNames(of id: NodeID, besides own: [[UInt8]], _ client: Client) -> [[UInt8]] {
    guard let sidecar = openSidecar(of: id, client) else { return [] }
    return Merged.allCases.filter { merged in
      guard let range = merged.range(in: sidecar.header), range.count <= DesktopAttribute.largestValue else {
        return false
      }
      return !own.contains { $0.elementsEqual(merged.name.utf8) }
    }.map { Array($0.name.utf8) }
  }

  /// Opens the sidecar with the client's credentials, because the kernel has not checked the client's permissions on it.
  private func openSidecar(of id: NodeID, _ client: Client) -> AppleDoubleFile? {
    guard let link = nodes.link(of: id), let sidecar = link.name.name.sidecar,
      let parent = try? directory(link.parent).directory
    else { return nil }
    return AppleDoubleFile(sidecar.bytes, in: parent, client)
  }
}
