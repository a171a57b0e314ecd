import BackingTree
import CLinux
import DisplayNames
import Glibc
import SystemPackage

/// Aliases of the Finder. (`aliases=symlink`)
extension EntryInspector {
  /// Makes an alias a symlink if its target is in the tree. The directories that lead to the target are watched.
  func showAlias(
    _ child: inout Projection.Child, in directory: Directory, at site: Site, _ finder: FinderFlags,
    _ sideFiles: FinderMetadata.SideFiles, sources: inout [[UInt8]]
  ) {
    guard
      let alias = aliases?.find(
        child.realName, in: directory, at: site.path, hasFlag: finder.isAlias, sideFiles: sideFiles)
    else { return }
    sources += alias.directories
    if let path = alias.path, isReachable(path) {
      child.kind = .alias
      child.entryType = FileType.symlink.direntType
    }
  }

  /// The alias that an entry is; nil where aliases are shown as files.
  func alias(_ name: Name, in directory: Directory, at place: [Name]) -> Aliases.Found? {
    guard let aliases else { return nil }
    let sideFiles: FinderMetadata.SideFiles = [.appleDouble, .netatalk]
    let hasFlag = metadata.flags(of: name, in: directory, sideFiles: sideFiles).isAlias
    guard
      let found = aliases.find(name, in: directory, at: place, hasFlag: hasFlag, sideFiles: sideFiles)
    else { return nil }
    let path = found.path.flatMap { isReachable($0) ? $0 : nil }
    return Aliases.Found(target: found.target, path: path, directories: found.directories)
  }

  /// Whether the view leads along a path below SOURCE: past no hidden entry where those are denied, and into no package that has
  /// no other name than that of its file.
  private func isReachable(_ path: [Name]) -> Bool {
    let arePackagesClosed = options.packages == .file && options.extensions == .show
    guard options.hidden == .deny || arePackagesClosed, let root = aliases?.root.directory else {
      return true
    }
    for (depth, name) in path.enumerated() {
      let place = Array(path[..<depth])
      let parent = depth == 0 ? Array(".".utf8) : Array(place.map(\.bytes).joined(separator: [0x2f]))
      let opened = parent.withCName { try? root.openBeneath($0, dfs_O_PATH | dfs_O_DIRECTORY) }
      guard let opened else { return false }
      let directory = Directory(descriptor: opened.rawValue)
      let site = Site(role: options.role(ofPath: place), rules: DirectoryRules(options.rules, in: place))
      if options.hidden == .deny, isHidden(name, in: directory, at: site) { return false }
      if arePackagesClosed, depth < path.count - 1, isPackage(name, in: directory, at: site) { return false }
    }
    return true
  }

  private func isHidden(_ name: Name, in directory: Directory, at site: Site) -> Bool {
    guard let status = CName(name).withPointer({ try? directory.status($0) }) else { return true }
    let kind = Self.kind(of: FileType(mode: status.st_mode))
    let verdict = site.rules.verdict(on: name.bytes.span, isDirectory: kind == .directory)
    if let isHidden = verdict.isHidden { return isHidden.value }
    let finder = metadata.flags(of: name, in: directory, sideFiles: [.appleDouble, .netatalk])
    let facts = hiddenFacts(of: name, facts(of: directory, at: site), finder)
    return hiddenRules.reason(name: name.bytes.span, kind: kind, role: site.role, facts: facts) != nil
  }
}
