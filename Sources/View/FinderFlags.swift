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
      func value(_ attribute: String) -> [UInt8]? {
        guard names.contains(Array(attribute.utf8)) else { return nil }
        return cName.withPointer {
          ExtendedAttributes(of: $0, in: directory).value(attribute, limit: ParserLimits.inputBytes)
        }
      }
      for store in FinderInfo.Store.allCases where info == nil {
        info = store.attribute.flatMap(value).flatMap { FinderInfo.decode(store: store, bytes: $0) }
      }
      let attributes =
        value(DOSAttributes.sambaAttribute).flatMap(DOSAttributes.init(samba:))
        ?? value(DOSAttributes.ntfsBigEndianAttribute).flatMap(DOSAttributes.init(ntfsBigEndian:))
      isDOSHidden = attributes?.contains(.hidden) ?? false
    }
    if info == nil, name.bytes.count <= 253, !name.bytes.starts(with: Array("._".utf8)) {
      let companion = CName(Name(Array("._".utf8) + name.bytes))
      let bytes = companion.withPointer { directory.smallFile($0, limit: ParserLimits.inputBytes) }
      info = bytes.flatMap { FinderInfo.decode(store: .appleDouble, bytes: $0) }
    }
    guard let info else { return }
    isInvisible = info.isInvisible
    hasBundle = info.hasBundle
    hidesExtension = info.hidesExtension
  }
}
