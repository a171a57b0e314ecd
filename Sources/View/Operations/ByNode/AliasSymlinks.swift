import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// Aliases of the Finder that are shown as symlinks. (`aliases=symlink`)
extension View {
  /// The text of the symlink that an alias is shown as: the path to its target by display names, relative to its directory.
  ///
  /// It is made anew for each request, because a change of other entries may give the target another display name.
  ///
  /// - Parameter parent: the directory of the alias.
  /// - Throws: ESTALE where the target is not in the tree any more, or may not be reached: the kernel looks the alias up again.
  func aliasText(of name: Name, in parent: NodeID, _ handle: DirectoryHandle) throws(Errno) -> [UInt8] {
    let chain = try links(to: parent)
    let place = chain.map(\.name.name)
    guard let path = inspector.alias(name, in: handle.directory, at: place)?.path else {
      throw .staleNFSFileHandle
    }
    let shared = zip(place, path.dropLast()).prefix { $0 == $1 }.count
    var text = Array(repeating: Array("..".utf8), count: place.count - shared)
    var directory = shared < chain.count ? chain[shared].parent : parent
    var found: [NodeID] = []
    defer { for node in found.reversed() { forget(node, count: 1) } }
    for (index, real) in path.enumerated().dropFirst(shared) {
      let isLast = index == path.count - 1
      text.append(try shownName(of: real, in: directory, isLast: isLast).bytes)
      if isLast { break }
      directory = try CName(real).withPointer { (name) throws(Errno) in try lookup(directory, name).id }
      found.append(directory)
    }
    return Array(text.joined(separator: [0x2f]))
  }

  /// The name by which a path leads through an entry: its display name, but the real name of a package that the path enters.
  private func shownName(of real: Name, in directory: NodeID, isLast: Bool) throws(Errno) -> Name {
    let view = try directoryView(directory)
    return try view.withCurrent { (projection) throws(Errno) in
      guard let slot = projection.slot(realName: real.bytes.span), let summary = projection.summary(at: slot),
        !summary.isHidden || options.hidden != .deny
      else { throw .staleNFSFileHandle }
      return summary.kind == .package && !isLast ? real : projection.displayName(at: slot)
    }
  }

  /// What to add to the explanation of a file: where it leads if it is an alias.
  func aliasExplanation(of name: Name, in parent: NodeID, _ handle: DirectoryHandle) -> String? {
    guard let place = try? links(to: parent).map(\.name.name),
      let alias = inspector.alias(name, in: handle.directory, at: place)
    else { return nil }
    let target = (alias.target.volume + alias.target.path).map { "/\(Name($0))" }.joined()
    guard let text = try? aliasText(of: name, in: parent, handle) else {
      return "It is an alias of \(target), which is not in the tree, so it is shown as the file that it is."
    }
    return "It is an alias of \(target), shown as a symbolic link to \(Name(text))."
  }
}
