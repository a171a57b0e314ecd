import BackingTree
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// Reads the tags, comment and origin of one item from the stores in which a volume keeps metadata of Macs, for a client.
///
/// The stores are read in the order of ``FinderInfo/Store``. One that is malformed is ignored, and the next is read. Files are
/// opened with the client's credentials, because the kernel has not checked the client's permissions on them.
struct DesktopAttributeReader {
  let metadata: FinderMetadata
  /// The item's name and directory; nil for SOURCE itself, which only has extended attributes.
  let place: (name: CName, directory: Directory)?
  let sideFiles: FinderMetadata.SideFiles
  let client: Client
  /// The attributes to look for.
  private var wanted: Set<DesktopAttribute>
  /// Empty where a store says that the item has none.
  private var values: [DesktopAttribute: [UInt8]] = [:]
  private var info: FinderInfo?
  private var oldComment: [UInt8]?

  init(
    _ wanted: Set<DesktopAttribute>, metadata: FinderMetadata, place: (name: CName, directory: Directory)?,
    sideFiles: FinderMetadata.SideFiles, client: Client
  ) {
    self.wanted = wanted
    self.metadata = metadata
    self.place = place
    self.sideFiles = sideFiles
    self.client = client
  }

  /// The values of the attributes that the item has in any store. Without metadata this takes no system call but those that
  /// look for the side files.
  ///
  /// - Parameter names: the names of the item's extended attributes.
  consuming func values(
    in attributes: borrowing ExtendedAttributes, named names: [[UInt8]]
  ) -> [DesktopAttribute: [UInt8]] {
    readAttributes(attributes, names)
    if names.contains(where: { $0.elementsEqual(SambaDepot.marker.utf8) }) { readDepot() }
    if let place, !isComplete {
      for path in FinderMetadata.paths(of: place.name.name, sideFiles) {
        readSideFile(path, in: place.directory)
        // Those of netatalk are in a directory of their own.
        if path.contains(UInt8(ascii: "/")) { readNetatalkFiles(of: path, in: place.directory) }
      }
    }
    if isMissing(.comment), let oldComment { values[.comment] = AppleDouble.comment(oldComment) }
    if isMissing(.tags), let label = info?.labelName { values[.tags] = Array(label.utf8) }
    return values.filter { !$0.value.isEmpty }
  }

  private func isMissing(_ attribute: DesktopAttribute) -> Bool {
    wanted.contains(attribute) && values[attribute] == nil
  }

  private var isComplete: Bool { !wanted.contains(where: isMissing) }

  private mutating func add(
    _ attribute: DesktopAttribute, _ list: [UInt8]?, from store: @autoclosure () -> String
  ) {
    guard isMissing(attribute), let list else { return }
    values[attribute] = attribute.value(ofPropertyList: list)
    if values[attribute] == nil, let place { metadata.noteIgnored(store(), of: place.name.name) }
  }

  // MARK: Stores

  private mutating func readAttributes(_ attributes: borrowing ExtendedAttributes, _ names: [[UInt8]]) {
    var found: [(precedence: Int, attribute: DesktopAttribute, name: [UInt8])] = []
    var infoStores: [FinderInfo.Store] = []
    for name in names {
      if let storage = DesktopAttribute.storage(name) {
        found.append((storage.precedence, storage.attribute, name))
      } else if case .finderInfo(let store) = name.withCName(FinderMetadata.store) {
        infoStores.append(store)
      }
    }
    for (_, attribute, name) in found.sorted(by: { $0.precedence < $1.precedence }) where isMissing(attribute)
    {
      let list = name.withCName { attributes.value($0, limit: DesktopAttribute.largestValue) }
      add(attribute, list, from: String(decoding: name, as: UTF8.self))
    }
    guard isMissing(.tags) || isMissing(.comment) else { return }
    for store in FinderInfo.Store.allCases where infoStores.contains(store) {
      guard let bytes = store.attribute.flatMap({ attributes.value($0, limit: FinderMetadata.largestValue) })
      else { continue }
      if info == nil { info = FinderInfo.decode(store: store, bytes: bytes) }
      if store == .netatalk, let comment = AppleDouble(bytes)?.comment { oldComment = Array(bytes[comment]) }
    }
  }

  private mutating func readDepot() {
    guard let root = metadata.root?.directory, let place, !isComplete,
      let status = place.name.withPointer({ try? place.directory.status($0) })
    else { return }
    let streams = FinderMetadata.depotPath(of: status)
    func stream(_ name: String, limit: Int) -> [UInt8]? {
      (streams + Array("/\(name)".utf8)).withCName { path in
        guard root.has(path) else { return nil }
        return (try? client.openRegular(path, in: root, O_RDONLY))?.beginning(limit: limit)
      }
    }
    for attribute in DesktopAttribute.allCases where isMissing(attribute) {
      for name in attribute.macNames where isMissing(attribute) {
        let list = stream(SambaDepot.stream(name), limit: DesktopAttribute.largestValue)
        add(attribute, list, from: "stream \(name)")
      }
    }
    if info == nil, isMissing(.tags),
      let bytes = stream(SambaDepot.finderInfo, limit: FinderMetadata.largestValue)
    {
      info = FinderInfo.decode(store: .sambaDepot, bytes: bytes)
    }
  }

  private mutating func readNetatalkFiles(of path: [UInt8], in directory: Directory) {
    guard !isComplete, NetatalkAttributeFiles.list(of: path).withCName({ directory.has($0) }) else { return }
    for attribute in DesktopAttribute.allCases where isMissing(attribute) {
      let list: [UInt8]? = NetatalkAttributeFiles.file(with: attribute, of: path).withCName { file in
        guard directory.has(file) else { return nil }
        return (try? client.openRegular(file, in: directory, O_RDONLY))?
          .beginning(limit: DesktopAttribute.largestValue)
      }
      add(attribute, list, from: "netatalk's file of an attribute")
    }
  }

  private mutating func readSideFile(_ path: [UInt8], in directory: Directory) {
    guard let file = AppleDoubleFile(path, in: directory, client) else { return }
    for attribute in DesktopAttribute.allCases where isMissing(attribute) {
      let stored = file.header.attributes.first { stored in
        attribute.macNames.contains { stored.name.elementsEqual($0.utf8) }
      }
      guard let range = stored?.range, range.count <= DesktopAttribute.largestValue else { continue }
      add(attribute, try? file.bytes(in: range), from: "AppleDouble file")
    }
    if oldComment == nil, isMissing(.comment), let range = file.header.comment,
      range.count <= FinderMetadata.largestValue
    {
      oldComment = try? file.bytes(in: range)
    }
    if info == nil, isMissing(.tags), let range = file.header.finderInfo {
      info = (try? file.bytes(in: range)).flatMap(FinderInfo.init)
    }
  }
}
