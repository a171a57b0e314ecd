import CLinux
import Glibc
import SystemPackage

/// Paths given by the user, before any descriptor is open. Paths are byte strings, like names.
extension FilePath {
  /// The bytes, without a terminating NUL.
  public init(bytes: some Sequence<UInt8>) {
    self = bytes.withCName { FilePath(platformString: $0) }
  }

  public var bytes: [UInt8] {
    withPlatformString { Array(UnsafeRawBufferPointer(start: $0, count: strlen($0))) }
  }

  /// The path of an open file; nil where the kernel does not know one. It may be that of a file that was removed or has moved
  /// meanwhile. (`readlink` of `/proc/self/fd/N`)
  public init?(ofOpenFile descriptor: CInt) {
    let link = Array("/proc/self/fd/\(descriptor)".utf8)
    guard let path = link.withCName({ try? Directory(descriptor: AT_FDCWD).symlinkTarget($0) }) else {
      return nil
    }
    self.init(bytes: path)
  }

  /// The names on the way from a directory to here; nil if this is not below that directory.
  public func names(below top: FilePath) -> [[UInt8]]? {
    guard starts(with: top), self != top else { return nil }
    return components.dropFirst(top.components.count).map(\.bytes)
  }

  /// (`getcwd`)
  public static func workingDirectory() throws(Errno) -> FilePath {
    guard let path = getcwd(nil, 0) else { throw Errno(rawValue: errno) }
    defer { free(path) }
    return FilePath(platformString: path)
  }

  /// The absolute path without symlinks of an existing entry. (`realpath`)
  public func resolvingSymlinks() throws(Errno) -> FilePath {
    guard let path = withPlatformString({ realpath($0, nil) }) else { throw Errno(rawValue: errno) }
    defer { free(path) }
    return FilePath(platformString: path)
  }

  /// Opens a directory to work relative to it. (`open`, O_PATH | O_DIRECTORY | O_CLOEXEC)
  public func openDirectory() throws(Errno) -> Descriptor {
    Descriptor(
      adopting: try systemCall {
        withPlatformString { open($0, dfs_O_PATH | dfs_O_DIRECTORY | O_CLOEXEC) }
      })
  }
}

extension FilePath.Component {
  /// The bytes, without a terminating NUL.
  public var bytes: [UInt8] {
    withPlatformString { Array(UnsafeRawBufferPointer(start: $0, count: strlen($0))) }
  }
}
