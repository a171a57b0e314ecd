import BackingTree
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// Sets a flag of an entry in the store that holds it.
extension FinderMetadata {
  /// The errors of opening a file where there is none: nothing, or something else.
  private static let noFile: [Errno] = [
    .noSuchFileOrDirectory, .notDirectory, .isDirectory, .tooManySymbolicLinkLevels, .noSuchAddressOrDevice,
  ]

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
      do throws(Errno) {
        if try Self.set(flag, to: isOn, store, at: path, in: directory, client) { return }
      } catch { if !Self.noFile.contains(error) { throw error } }
    }
    guard isOn, let attribute = FinderInfo.Store.plain.attribute else { return }
    try attributes.replace(attribute, [], with: FinderInfo.record(setting: flag))
  }

  /// Sets or clears a flag in a file, with the client's rights.
  ///
  /// Reading and writing through one descriptor changes no file that takes the name meanwhile, and writing only the bytes that
  /// differ keeps a concurrent change of the others.
  ///
  /// - Returns: false when the file holds no flags.
  private static func set(
    _ flag: FinderInfo.Flag, to isOn: Bool, _ store: FinderInfo.Store, at path: [UInt8],
    in directory: Directory,
    _ client: Client
  ) throws(Errno) -> Bool {
    let file = try path.withCName { (path) throws(Errno) in
      try client.openRegular(path, in: directory, O_RDWR)
    }
    guard let bytes = file.beginning(limit: largestValue),
      let changed = FinderInfo.setting(flag, to: isOn, store: store, in: bytes)
    else { return false }
    for index in changed.indices where changed[index] != bytes[index] {
      try withUnsafeBytes(of: changed[index]) { (byte) throws(Errno) in
        try writeFully(file.descriptor.rawValue, byte, at: Int64(index))
      }
    }
    return true
  }
}

extension ExtendedAttributes {
  /// Writes a value unless it equals the old one.
  fileprivate borrowing func replace(_ name: String, _ old: [UInt8], with new: [UInt8]) throws(Errno) {
    if new == old { return }
    try new.withUnsafeBytesTyped { (bytes) throws(Errno) in try set(name, bytes, flags: 0) }
  }
}
