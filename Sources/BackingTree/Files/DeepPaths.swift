import CLinux
import Glibc
import SystemPackage

extension Directory {
  /// Opens a path of any length below this directory. No component may be a symlink or `..` out of the directory.
  ///
  /// The kernel accepts 4095 bytes of path per call, so a longer path is opened in several steps. (`openat2`)
  ///
  /// - Parameter path: components separated by single slashes; the directory itself when it is empty.
  public func openDeep(_ path: [UInt8], _ flags: CInt) throws(Errno) -> Descriptor {
    let longest = Int(PATH_MAX) - 1
    var rest = path[...]
    if rest.isEmpty { return try open(".", flags) }
    var base: Descriptor?
    while rest.count > longest {
      guard let slash = rest.indices.prefix(longest).last(where: { rest[$0] == 0x2f }) else {
        throw Errno.fileNameTooLong
      }
      let step = rest[..<slash]
      let from = Directory(descriptor: base.rawValue(or: descriptor))
      let opened = try step.withCName { (name) throws(Errno) in
        try from.openBeneath(name, dfs_O_PATH | dfs_O_DIRECTORY).release()
      }
      base = Descriptor(adopting: opened)
      rest = rest[rest.index(after: slash)...]
    }
    let from = Directory(descriptor: base.rawValue(or: descriptor))
    return Descriptor(
      adopting: try rest.withCName { (name) throws(Errno) in try from.openBeneath(name, flags).release() })
  }

  /// Opens a path of any length below this directory with O_PATH, as a reference to the entry.
  public func locateDeep(_ path: [UInt8]) throws(Errno) -> Descriptor { try openDeep(path, dfs_O_PATH) }

  /// Opens a directory at a path of any length below this one for reading.
  public func openDeepDirectory(_ path: [UInt8]) throws(Errno) -> Descriptor {
    try openDeep(path, O_RDONLY | dfs_O_DIRECTORY)
  }
}

extension Optional where Wrapped == Descriptor {
  fileprivate func rawValue(or other: CInt) -> CInt {
    switch self {
    case .some(let descriptor): descriptor.rawValue
    case .none: other
    }
  }
}
