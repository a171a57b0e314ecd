import BackingTree
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// Sets a flag of an entry in the store that holds it.
extension FinderMetadata {
  /// Sets or clears a flag in the store that the entry has, or else in the plain one; the other bytes stay as they are.
  ///
  /// - Throws: EACCES when the client may not write the entry, and the errors of its store.
  func set(
    _ flag: FinderInfo.Flag, to isOn: Bool, of name: Name, in directory: Directory, client: Client
  ) throws(Errno) {
    // Setting attributes requires write permission on the file, which opening it with the client's credentials checks.
    let file = try CName(name).withPointer { (name) throws(Errno) in
      try client.openRegular(name, in: directory, O_WRONLY)
    }
    let attributes = ExtendedAttributes(of: file.descriptor.rawValue)
    for store in FinderInfo.Store.allCases {
      guard let attribute = store.attribute,
        let value = attributes.value(attribute, limit: Self.largestValue),
        let changed = FinderInfo.setting(flag, to: isOn, store: store, in: value)
      else { continue }
      return try attributes.replace(attribute, value, with: changed)
    }
    var files: [(store: FinderInfo.Store, path: [UInt8], from: Directory)] = []
    if attributes.value(SambaDepot.marker, limit: 8) != nil, let root,
      let streams = depotPath(of: name, in: directory)
    {
      files.append((.sambaDepot, Self.depotFile(in: streams), root.directory))
    }
    files += Self.paths(of: name, [.appleDouble, .netatalk]).map { (.appleDouble, $0, directory) }
    for (store, path, directory) in files {
      guard let bytes = path.withCName({ directory.beginning(of: $0, limit: Self.largestValue) }),
        let changed = FinderInfo.setting(flag, to: isOn, store: store, in: bytes)
      else { continue }
      if changed == bytes { return }
      let sideFile = try path.withCName { (path) throws(Errno) in
        try client.openRegular(path, in: directory, O_WRONLY)
      }
      return try changed.withUnsafeBytesTyped { (bytes) throws(Errno) in
        try writeFully(sideFile.descriptor.rawValue, bytes, at: 0)
      }
    }
    guard isOn, let attribute = FinderInfo.Store.plain.attribute else { return }
    try attributes.replace(attribute, [], with: FinderInfo.record(setting: flag))
  }
}

extension ExtendedAttributes {
  /// Writes a value unless it equals the old one.
  fileprivate borrowing func replace(_ name: String, _ old: [UInt8], with new: [UInt8]) throws(Errno) {
    if new == old { return }
    try new.withUnsafeBytesTyped { (bytes) throws(Errno) in try set(name, bytes, flags: 0) }
  }
}
