import Glibc

/// System calls that must succeed.
enum Files {
  static func open(_ path: String, _ flags: CInt) throws -> CInt {
    let descriptor = Glibc.open(path, flags | O_CLOEXEC, 0o644)
    if descriptor < 0 { throw Problem.system(path) }
    return descriptor
  }

  static func create(_ path: String, _ content: [UInt8]) throws {
    let descriptor = try open(path, O_WRONLY | O_CREAT | O_EXCL)
    defer { close(descriptor) }
    if !content.isEmpty, Glibc.write(descriptor, content, content.count) != content.count {
      throw Problem.system(path)
    }
  }

  static func fill(_ path: String, megabytes: Int) throws {
    let descriptor = try open(path, O_WRONLY | O_CREAT | O_TRUNC)
    defer { close(descriptor) }
    let block = [UInt8](repeating: 0x5a, count: 1 << 20)
    for _ in 0..<megabytes where Glibc.write(descriptor, block, block.count) != block.count {
      throw Problem.system(path)
    }
  }

  static func status(_ path: String) throws {
    var status = stat()
    if lstat(path, &status) != 0 { throw Problem.system(path) }
  }

  static func mustSucceed(_ result: CInt, _ path: String) throws {
    if result != 0 { throw Problem.system(path) }
  }
}

enum Listing {
  /// How many entries a directory lists.
  static func names(_ path: String) throws -> Int {
    guard let directory = opendir(path) else { throw Problem.system(path) }
    defer { closedir(directory) }
    var count = 0
    while readdir(directory) != nil { count += 1 }
    return count
  }
}
