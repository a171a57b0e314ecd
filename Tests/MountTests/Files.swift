import CLinux
import Glibc
import SystemPackage

/// The error of a system call, nil when it succeeded.
func failure(_ call: () -> CInt) -> Errno? { call() == -1 ? Errno(rawValue: errno) : nil }

/// An open file that closes itself.
final class OpenFile {
  let descriptor: CInt

  init(_ path: String, _ flags: CInt = O_RDONLY, mode: mode_t = 0o644) throws {
    descriptor = open(path, flags | O_CLOEXEC, mode)
    if descriptor < 0 { throw Errno(rawValue: errno) }
  }

  deinit { close(descriptor) }

  @discardableResult
  func write(_ text: String) -> Int {
    Array(text.utf8).withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
  }

  @discardableResult
  func write(_ text: String, at offset: Int) -> Int {
    Array(text.utf8).withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, offset) }
  }

  /// Up to `count` bytes from `offset`, nil on an error.
  func bytes(_ count: Int, at offset: Int) -> [UInt8]? {
    var buffer = [UInt8](repeating: 0, count: count)
    let length = pread(descriptor, &buffer, count, offset)
    return length < 0 ? nil : Array(buffer.prefix(length))
  }

  func text(_ count: Int = 4096, at offset: Int = 0) -> String? {
    bytes(count, at: offset).map { String(decoding: $0, as: UTF8.self) }
  }

  var status: stat {
    var result = stat()
    fstat(descriptor, &result)
    return result
  }
}

/// The whole file, nil when it cannot be read.
func contents(_ path: String) -> [UInt8]? {
  guard let file = try? OpenFile(path) else { return nil }
  var result: [UInt8] = []
  var buffer = [UInt8](repeating: 0, count: 65536)
  while true {
    let count = read(file.descriptor, &buffer, buffer.count)
    if count < 0 { return nil }
    if count == 0 { return result }
    result += buffer.prefix(count)
  }
}

/// The file as text, nil when it cannot be read.
func text(_ path: String) -> String? { contents(path).map { String(decoding: $0, as: UTF8.self) } }

/// Makes or overwrites a file, and the directories above it.
func put(_ content: String, at path: String) throws { try put(Array(content.utf8), at: path) }

func put(_ content: [UInt8], at path: String) throws {
  let file: OpenFile
  do { file = try OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC) } catch Errno.noSuchFileOrDirectory {
    makeDirectory(String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)]))
    file = try OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC)
  }
  var rest = content[...]
  while !rest.isEmpty {
    let count = rest.withUnsafeBytes { write(file.descriptor, $0.baseAddress, $0.count) }
    guard count > 0 else { throw Errno(rawValue: errno) }
    rest = rest.dropFirst(count)
  }
}

/// Makes a directory and those above it.
func makeDirectory(_ path: String) {
  if mkdir(path, 0o755) == 0 || errno != ENOENT { return }
  makeDirectory(String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)]))
  mkdir(path, 0o755)
}

/// The names in a directory but for `.` and `..`, each as often as it is listed; nil when it cannot be read.
func namesAsListed(_ path: String) -> [FileName]? {
  guard let directory = opendir(path) else { return nil }
  defer { closedir(directory) }
  var result: [FileName] = []
  while let entry = readdir(directory) {
    let name = withUnsafePointer(to: &entry.pointee.d_name) {
      $0.withMemoryRebound(to: UInt8.self, capacity: 256) {
        FileName(UnsafeBufferPointer(start: $0, count: strlen($0)))
      }
    }
    if name != "." && name != ".." { result.append(name) }
  }
  return result
}

func names(_ path: String) -> Set<FileName> { Set(namesAsListed(path) ?? []) }

/// The result of lstat(2); nil when it fails.
func status(_ path: String) -> stat? {
  var result = stat()
  return lstat(path, &result) == 0 ? result : nil
}

func isThere(_ path: String) -> Bool { status(path) != nil }

extension stat {
  var isRegular: Bool { st_mode & S_IFMT == S_IFREG }
  var isDirectory: Bool { st_mode & S_IFMT == S_IFDIR }
  var permissions: mode_t { st_mode & 0o7777 }
}

/// An extended attribute, nil when it is not there.
func attributeBytes(_ name: String, of path: String) -> [UInt8]? {
  var buffer = [UInt8](repeating: 0, count: 4096)
  let count = lgetxattr(path, name, &buffer, buffer.count)
  return count < 0 ? nil : Array(buffer.prefix(count))
}

/// An extended attribute as text, nil when it is not there.
func attribute(_ name: String, of path: String) -> String? {
  attributeBytes(name, of: path).map { String(decoding: $0, as: UTF8.self) }
}

/// The names of the extended attributes.
func attributeNames(of path: String) -> Set<String> {
  var buffer = [CChar](repeating: 0, count: 4096)
  let count = llistxattr(path, &buffer, buffer.count)
  return Set(
    buffer.prefix(max(0, count)).split(separator: 0).map {
      String(decoding: $0.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    })
}

func setAttribute(_ name: String, to value: some Collection<UInt8>, of path: String) -> Errno? {
  failure { Array(value).withUnsafeBytes { lsetxattr(path, name, $0.baseAddress, $0.count, 0) } }
}

/// Where the sources are that the tests were built from.
let repository = #filePath.split(separator: "/").dropLast(3).reduce("") { "\($0)/\($1)" }
