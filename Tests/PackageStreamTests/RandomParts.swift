import BackingTree
import Fuzzing
import Glibc
import SystemPackage

/// A few entries of random names, kinds, sizes, holes, times and attributes, in a package and a directory inside it.
final class RandomParts {
  private let package: Directory
  private let inside: Descriptor
  private var made: [(name: [UInt8], isInside: Bool)] = []
  private var files: [(name: [UInt8], isInside: Bool)] = []
  private(set) var hasSymlink = false
  /// Whether something was done to them after they were made.
  private(set) var changed = false

  /// How many there are, the directory included.
  var count: Int { made.count + 1 }

  init(in package: Directory, _ generator: inout SeededGenerator) throws {
    self.package = package
    try package.makeDirectory("inside", mode: 0o755)
    inside = try package.open("inside", O_RDONLY | O_DIRECTORY)
    for _ in 0..<Int.random(in: 0...5, using: &generator) { try add(&generator) }
  }

  private func parent(_ isInside: Bool) -> Directory {
    isInside ? Directory(descriptor: inside.rawValue) : package
  }

  private func add(_ generator: inout SeededGenerator) throws {
    let name = Self.name(&generator)
    let isInside = Bool.random(using: &generator)
    let parent = parent(isInside)
    try name.withCName { cName throws in
      guard !parent.has(cName) else { return }
      switch Int.random(in: 0..<8, using: &generator) {
      case 0:
        try Self.target(&generator).withCName { target throws in try parent.makeSymlink(cName, to: target) }
        hasSymlink = true
      case 1: try parent.makeNode(cName, mode: S_IFIFO | 0o640, device: 0)
      case 2:
        // Later names of the same file.
        guard let first = files.randomElement(using: &generator) else { return }
        try first.name.withCName { original throws in
          try self.parent(first.isInside).link(original, to: parent, cName)
        }
      default:
        let file = try parent.open(cName, O_CREAT | O_WRONLY | O_EXCL, mode: 0o644)
        try Self.fill(file.rawValue, &generator)
        if Int.random(in: 0..<4, using: &generator) == 0 {
          let value = Self.bytes(Int.random(in: 0...700, using: &generator), &generator)
          try value.withUnsafeBytes {
            try ExtendedAttributes(of: file.rawValue).set("user.\(value.count)", $0, flags: 0)
          }
        }
        files.append((name, isInside))
      }
      try parent.setModified(cName, Self.time(&generator))
      made.append((name, isInside))
    }
  }

  /// Changes a file's size, or puts another in its place.
  func change(_ generator: inout SeededGenerator) throws {
    guard let file = files.randomElement(using: &generator) else { return }
    changed = true
    try file.name.withCName { name throws in
      let parent = parent(file.isInside)
      if Bool.random(using: &generator) {
        let opened = try parent.open(name, O_RDWR)
        try setSize(opened.rawValue, Int64(try fileStatus(opened.rawValue).st_size) + 1)
      } else {
        try parent.write(Array("another".utf8), [])
        try parent.rename("another", to: parent, name)
      }
    }
  }

  func remove() throws {
    for (name, isInside) in made {
      try name.withCName { name throws in try parent(isInside).unlink(name) }
    }
    try package.removeDirectory("inside")
  }

  // MARK: - Random values

  /// Without periods, so that it is neither `.` nor `..`.
  private static func name(_ generator: inout SeededGenerator) -> [UInt8] {
    let lengths = [1, 5, 30, 99, 100, 101, 155, 255]
    let bytes = bytes(lengths.randomElement(using: &generator) ?? 1, &generator)
    return bytes.map { $0 == 0 || $0 == 0x2f || $0 == 0x2e ? 0x5f : $0 }
  }

  private static func target(_ generator: inout SeededGenerator) -> [UInt8] {
    if Bool.random(using: &generator) { return Array("inside".utf8) }
    let count = Int.random(in: 1...300, using: &generator)
    return bytes(count, &generator).map { $0 == 0 ? 0x2e : $0 }
  }

  private static func bytes(_ count: Int, _ generator: inout SeededGenerator) -> [UInt8] {
    (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
  }

  /// Some data, dense or between holes.
  private static func fill(_ file: CInt, _ generator: inout SeededGenerator) throws {
    var end: Int64 = 0
    for _ in 0..<Int.random(in: 0...3, using: &generator) {
      let data = bytes([1, 511, 512, 513, 3000].randomElement(using: &generator) ?? 1, &generator)
      if Int.random(in: 0..<4, using: &generator) == 0 {
        end += Int64.random(in: 0...300_000, using: &generator)
      }
      try data.withUnsafeBytes { try writeFully(file, $0, at: end) }
      end += Int64(data.count)
    }
    if Int.random(in: 0..<8, using: &generator) == 0 { try setSize(file, end + 100_000) }
  }

  private static func time(_ generator: inout SeededGenerator) -> timespec {
    let seconds = [-86_400, 0, 1_234_567_890, 0o777_7777_7777, 0o1_0000_0000_0000]
    let nanoseconds = [0, 1000, 999_999_999]
    return timespec(
      tv_sec: seconds.randomElement(using: &generator) ?? 0,
      tv_nsec: nanoseconds.randomElement(using: &generator) ?? 0)
  }
}
