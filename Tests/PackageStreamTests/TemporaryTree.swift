import BackingTree
import Glibc
import Testing

@testable import PackageStream

/// A directory of its own for one test, removed with everything in it afterwards.
struct TemporaryTree: ~Copyable {
  let path: String
  let descriptor: Descriptor
  var directory: Directory { Directory(descriptor: descriptor.rawValue) }

  /// - Parameter directory: on a file system that keeps extended attributes, which /tmp may be not.
  init(in directory: String = "/var/tmp") throws {
    var template = Array("\(directory)/displayfs-stream-XXXXXX".utf8CString)
    path = String(cString: try #require(mkdtemp(&template)))
    descriptor = Descriptor(adopting: open(path, O_RDONLY | O_DIRECTORY))
  }

  deinit { _ = shell("chmod -R u+rwx '\(path)' && rm -rf '\(path)'") }

  /// A sub-directory, made where there is none.
  func subdirectory(_ name: String) throws -> Descriptor {
    if !directory.has(name) { try directory.makeDirectory(name, mode: 0o755) }
    return try directory.open(name, O_RDONLY | O_DIRECTORY)
  }
}

/// Runs a shell command and gives its exit status; what it prints goes to the test's output.
func shell(_ command: String) -> CInt {
  let status = system(command)
  return status & 0x7f == 0 ? status >> 8 : -1
}

extension Directory {
  /// Writes a file, given as the bytes of its name.
  func write(_ name: [UInt8], _ content: [UInt8], mode: mode_t = 0o644) throws {
    let raw = try name.withCName { name throws in
      try open(name, O_CREAT | O_TRUNC | O_WRONLY, mode: mode).release()
    }
    let file = Descriptor(adopting: raw)
    try content.withUnsafeBytes { try writeFully(file.rawValue, $0, at: 0) }
  }

  func write(_ name: String, _ content: String) throws { try write(Array(name.utf8), Array(content.utf8)) }

  func setAttribute(_ name: String, _ attribute: String, _ value: [UInt8]) throws {
    try value.withUnsafeBytes { try ExtendedAttributes(of: name, in: self).set(attribute, $0, flags: 0) }
  }
}

/// Everything about one entry that a stream carries.
struct EntryState: Equatable, CustomStringConvertible {
  var mode: UInt32
  var owner: UInt32
  var group: UInt32
  var modified: FileTime
  var size: Int64
  /// A checksum of the content's 4 KiB blocks that are not zero, with their places.
  var content: UInt64 = 0
  var target: [UInt8] = []
  var attributes: [[UInt8]: [UInt8]] = [:]
  /// The first path, by bytes, of the same file.
  var first: [UInt8] = []

  var description: String {
    "\(String(mode, radix: 8)) \(owner):\(group) \(modified) \(size) \(content) \(target) \(attributes) \(first)"
  }
}

/// What of an `EntryState` is compared.
enum Fidelity {
  case exact
  /// Python keeps times as floating point, sets none on symlinks and knows no attributes.
  case python
}

/// The state of every entry below a directory, by path.
func states(below directory: Directory, _ fidelity: Fidelity = .exact) throws -> [[UInt8]: EntryState] {
  var found: [[UInt8]: EntryState] = [:]
  var firsts: [FileIdentity: [UInt8]] = [:]
  var identities: [[UInt8]: FileIdentity] = [:]
  var pending: [[UInt8]] = [[]]
  func add(_ path: [UInt8], _ name: UnsafePointer<CChar>, _ parent: Directory) throws {
    let status = try parent.status(name)
    let type = FileType(mode: status.st_mode)
    var state = EntryState(
      mode: status.st_mode, owner: status.st_uid, group: status.st_gid, modified: FileTime(status.st_mtim),
      size: type == .regular ? Int64(status.st_size) : 0)
    if fidelity == .python {
      state.modified = FileTime(seconds: type == .symlink ? 0 : state.modified.seconds, nanoseconds: 0)
    }
    if type == .regular {
      let file = try parent.open(name, O_RDONLY)
      state.content = try contentChecksum(file.rawValue, size: state.size)
      let identity = FileIdentity(status)
      identities[path] = identity
      if let first = firsts[identity], first.lexicographicallyPrecedes(path) {
      } else {
        firsts[identity] = path
      }
    }
    if type == .symlink { state.target = try parent.symlinkTarget(name) }
    if fidelity == .exact && type != .symlink {
      let attributes =
        name.pointee == 0
        ? ExtendedAttributes(of: parent.descriptor) : ExtendedAttributes(of: name, in: parent)
      for attribute in try attributes.names() where CarriedAttributes.contains(attribute) {
        state.attributes[attribute] = attribute.withCName { attributes.value($0, limit: 70_000) }
      }
    }
    found[path] = state
    if type == .directory && !path.isEmpty { pending.append(path) }
  }
  try add([], "", directory)
  while let path = pending.popLast() {
    let opened = try directory.openDeepDirectory(path)
    let parent = Directory(descriptor: opened.rawValue)
    var names: [[UInt8]] = []
    try forEachEntry(of: opened.rawValue) { names.append(Array($0.name)) }
    for name in names {
      try name.withCName { cName throws in try add(path.isEmpty ? name : path + [0x2f] + name, cName, parent)
      }
    }
  }
  for (path, identity) in identities { found[path]?.first = firsts[identity] ?? [] }
  return found
}

private func contentChecksum(_ descriptor: CInt, size: Int64) throws -> UInt64 {
  var sum: UInt64 = 0
  for range in try dataRanges(descriptor, size: size, smallestHole: 4096) {
    var position = range.lowerBound & ~4095
    while position < range.upperBound {
      var block = [UInt8](repeating: 0, count: 4096)
      _ = try block.withUnsafeMutableBytes { try readFully(descriptor, into: $0, at: position) }
      if block.contains(where: { $0 != 0 }) {
        var hash = UInt64(bitPattern: position) | 1 << 63
        for byte in block { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        sum = sum &+ hash
      }
      position += 4096
    }
  }
  return sum
}

/// Expects two trees to be the same and says where they are not.
func expectSame(
  _ left: Directory, _ right: Directory, _ fidelity: Fidelity = .exact,
  sourceLocation: SourceLocation = #_sourceLocation
) throws {
  let left = try states(below: left, fidelity)
  let right = try states(below: right, fidelity)
  for path in Set(left.keys).union(right.keys) where left[path] != right[path] {
    let name = String(decoding: path.prefix(80), as: UTF8.self)
    Issue.record(
      "\(name): \(left[path].map(\.description) ?? "missing") != \(right[path].map(\.description) ?? "missing")",
      sourceLocation: sourceLocation)
  }
}

let bundleType = "com.apple.application-bundle"

/// A reader of the package at `directory`.
func reader(_ directory: Directory) throws -> PackageReader {
  PackageReader(
    layout: try PackageLayout(of: directory, type: bundleType),
    package: try directory.open(".", O_RDONLY | O_DIRECTORY))
}

extension PackageReader {
  /// The bytes of a range of the stream.
  func bytes(_ range: Range<Int64>) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0xee, count: range.count)
    let count = try bytes.withUnsafeMutableBytes { try pread(into: $0, at: range.lowerBound) }
    return Array(bytes[..<count])
  }

  func allBytes() throws -> [UInt8] { try bytes(0..<layout.size) }

  /// Writes the stream to a new file, piece by piece.
  func save(_ name: String, in directory: Directory, piece: Int = 1 << 20) throws {
    let file = try directory.open(name, O_CREAT | O_TRUNC | O_WRONLY, mode: 0o644)
    var position: Int64 = 0
    while position < layout.size {
      let bytes = try bytes(position..<min(position + Int64(piece), layout.size))
      try bytes.withUnsafeBytes { try writeFully(file.rawValue, $0, at: position) }
      position += Int64(bytes.count)
    }
  }
}

/// Makes a package with one of everything that a stream carries.
func makeOddPackage(in directory: Directory, exotic: Bool = true) throws {
  func long(_ letter: Character, _ count: Int) -> String { String(repeating: letter, count: count) }
  try directory.makeDirectory("Contents", mode: 0o755)
  let opened = try directory.open("Contents", O_RDONLY | O_DIRECTORY)
  let contents = Directory(descriptor: opened.rawValue)
  try contents.write("Info.plist", "<plist/>")
  try contents.write("empty", "")
  try contents.write("block", long("b", 512))
  try contents.write("original", "shared")
  try contents.link("original", to: directory, "Later name")
  try contents.link("original", to: directory, "Another name")
  try contents.write(long("n", 255), "long")
  try contents.link(long("n", 255), to: contents, long("o", 250))
  try contents.write("exactly-" + long("e", 100 - 11 - 8), "fits")
  try contents.write("grüße-日本.txt", "text")
  try contents.write([0xff, 0xfe, 0x20, 0x0a, 0x61], [1, 2, 3])
  try [UInt8]([0xff, 0x6c]).withCName { name throws in try contents.makeSymlink(name, to: "Info.plist") }
  try contents.makeSymlink("short", to: "Info.plist")
  try contents.makeSymlink("far", to: "../Contents/" + long("n", 255))
  try [0x2e, 0x2f, 0xfd].withCName { target throws in try contents.makeSymlink("bytes", to: target) }
  try contents.makeDirectory("empty directory", mode: 0o700)
  try directory.write("Contents-", "sorts between Contents and its children by plain bytes")
  try contents.makeNode("pipe", mode: S_IFIFO | 0o640, device: 0)
  let sparse = try contents.open("sparse", O_CREAT | O_WRONLY, mode: 0o644)
  try setSize(sparse.rawValue, 3 << 20)
  let data = [UInt8](repeating: 7, count: 5000)
  try data.withUnsafeBytes { try writeFully(sparse.rawValue, $0, at: 1 << 20) }
  try data.withUnsafeBytes { try writeFully(sparse.rawValue, $0, at: (2 << 20) + 700) }
  let hole = try contents.open("only a hole", O_CREAT | O_WRONLY, mode: 0o644)
  try setSize(hole.rawValue, 1 << 20)
  let tail = try contents.open("trous-" + long("é", 60), O_CREAT | O_WRONLY, mode: 0o644)
  try setSize(tail.rawValue, 1 << 20)
  try data.withUnsafeBytes { try writeFully(tail.rawValue, $0, at: (1 << 20) - 2500) }
  let dense = [UInt8]((0..<100_001).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) })
  try contents.write(Array("dense".utf8), dense, mode: 0o755)
  try contents.setAttribute("Info.plist", "user.binary", [0, 10, 61, 255, 0])
  try contents.setAttribute("Info.plist", "user.a", [])
  try contents.setAttribute("empty directory", "user.on.directory", Array("x".utf8))
  try contents.setAttribute("sparse", "user.sparse", Array("y".utf8))
  try directory.setAttribute("Contents", "user.long", [UInt8](repeating: 0x41, count: 3000))
  if exotic {
    try contents.setAttribute("Info.plist", "user.odd=name%", Array("equals".utf8))
    let path = "/proc/self/fd/\(contents.descriptor)/block"
    try #require(shell("setfacl -m u:1234:r '\(path.replacingSelf())'") == 0)
    try #require(shell("setfacl -d -m u:1234:rwx '\(path.replacingSelf().dropLast(5))empty directory'") == 0)
  }
  try contents.setPermissions("empty", 0o400)
  try contents.setPermissions("original", 0o751)
  try contents.setModified("Info.plist", timespec(tv_sec: 1_234_567_890, tv_nsec: 123_456_789))
  try contents.setModified("block", timespec(tv_sec: 1_234_567_890, tv_nsec: 0))
  try contents.setModified("original", timespec(tv_sec: 0o777_7777_7777 + 5, tv_nsec: 7_000))
  try contents.setModified("short", timespec(tv_sec: 1_000_000_000, tv_nsec: 5_000))
  try contents.setModified("sparse", timespec(tv_sec: -86_400, tv_nsec: 0))
  try contents.setModified("empty directory", timespec(tv_sec: 1_100_000_000, tv_nsec: 1_000))
  try directory.setModified("Contents", timespec(tv_sec: 1_200_000_000, tv_nsec: 999_999_000))
  if geteuid() == 0 { try contents.setOwner("dense", 3_000_000, 77) }
  try setPermissions(directory.descriptor, 0o750)
  try setModified(directory.descriptor, timespec(tv_sec: 1_300_000_000, tv_nsec: 1_000_000))
}

extension String {
  /// The path with `/proc/self` as this process's, for a command that another process runs.
  fileprivate func replacingSelf() -> String {
    let prefix = "/proc/self/"
    return hasPrefix(prefix) ? "/proc/\(getpid())/" + dropFirst(prefix.count) : self
  }
}
