import BackingTree
import DisplayNames
import MacMetadata
import SystemPackage

/// What Finder info and DOS attributes say of an entry, from whichever store the volume has.
struct FinderFlags {
  private(set) var isInvisible = false
  private(set) var hasBundle = false
  private(set) var hidesExtension = false
  private(set) var isDOSHidden = false

  init() {}

  init(of name: Name, in directory: Directory) {
    self.init()
    let cName = CName(name)
    let names: [[UInt8]] = cName.withPointer { cName in
      (try? ExtendedAttributes(of: cName, in: directory).names()) ?? []
    }
    var info: FinderInfo?
    if !names.isEmpty {
      for store in FinderInfo.Store.allCases where info == nil {
        guard let attribute = store.attributeName, names.contains(Array(attribute.utf8)) else { continue }
        let value = cName.withPointer {
          ExtendedAttributes(of: $0, in: directory).value(attribute, limit: EntryInspector.tableLimit)
        }
        info = value.flatMap { FinderInfo.decode(store, $0) }
      }
      for attribute in DOSAttributes.attributeNames where names.contains(Array(attribute.utf8)) {
        let value = cName.withPointer { ExtendedAttributes(of: $0, in: directory).value(attribute, limit: 4096) }
        if let value, let attributes = DOSAttributes.parse(attribute: attribute, value) {
          isDOSHidden = attributes.isHidden
          break
        }
      }
    }
    if info == nil, name.bytes.count <= 253, !name.bytes.starts(with: Array("._".utf8)) {
      let companion = CName(Name(Array("._".utf8) + name.bytes))
      let bytes = companion.withPointer { directory.smallFile($0, limit: EntryInspector.tableLimit) }
      info = bytes.flatMap { FinderInfo.decode(.appleDouble, $0) }
    }
    guard let info else { return }
    isInvisible = info.isInvisible
    hasBundle = info.hasBundle
    hidesExtension = info.hidesExtension
  }
}
