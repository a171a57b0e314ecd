import BackingTree
import SystemPackage

/// The extended attributes that a stream includes.
enum CarriedAttributes {
  private static let user = Array("user.".utf8)
  private static let accessLists = [AccessList.attribute, AccessList.defaultAttribute].map {
    Array($0.utf8)
  }

  static func contains(_ name: [UInt8]) -> Bool { name.starts(with: user) || isAccessList(name) }

  /// Whether the attribute holds an access list or a directory's default list.
  static func isAccessList(_ name: [UInt8]) -> Bool { accessLists.contains(name) }
}

extension ExtendedAttributes {
  /// `names()`; empty where the file system does not support extended attributes.
  func namesIfAny() throws(Errno) -> [[UInt8]] {
    do {
      return try names()
    } catch {
      if error == .notSupported || error == .notPermitted { return [] }
      throw error
    }
  }

  /// The value, of any length; nil when there is no such attribute (any more).
  func wholeValue(_ name: UnsafePointer<CChar>) throws(Errno) -> [UInt8]? {
    while true {
      do {
        let length = try get(name, into: UnsafeMutableRawBufferPointer(start: nil, count: 0))
        if length == 0 { return [] }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 1)
        defer { buffer.deallocate() }
        let count = try get(name, into: buffer)
        return Array(buffer[..<count])
      } catch {
        if error == .noData { return nil }
        if error != .outOfRange { throw error }
      }
    }
  }
}
