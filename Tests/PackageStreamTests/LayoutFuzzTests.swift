import BackingTree
import Fuzzing
import Glibc
import SystemPackage
import Testing

@testable import PackageStream

/// Packages of random parts have streams that any piece can be read of, also while they change.
@Suite struct LayoutFuzzTests {
  /// `TMPDIR` must keep extended attributes.
  @Test func layouts_ofRandomPackages_areReadInAnyPieces() throws {
    let temporary = try TemporaryTree(in: getenv("TMPDIR").map { String(cString: $0) } ?? "/var/tmp")
    let opened = try temporary.subdirectory("package")
    let package = Directory(descriptor: opened.rawValue)
    let stream = try temporary.directory.open("stream", O_CREAT | O_RDWR, mode: 0o600)
    try fuzz("layouts", rounds: fuzzRounds(500)) { generator in
      let parts = try RandomParts(in: package, &generator)
      let reader = try reader(package)
      let all = try reader.allBytes()
      try demand(
        all.count % 512 == 0 && Int64(all.count) == reader.layout.size, "its size is not its layout's")
      try demand(reader.layout.memberCount == parts.count + 1, "a part is missing")
      // The importer reads the stream. It may refuse only the targets of symlinks.
      try setSize(stream.rawValue, Int64(all.count))
      try all.withUnsafeBytes { try writeFully(stream.rawValue, $0, at: 0) }
      do {
        let found = try PackageImport(checking: stream.rawValue)
        try demand(found.memberCount == parts.count + 1, "the importer finds other members")
      } catch let error as PackageImportError {
        try demand(parts.hasSymlink && error.kind == .refused, "its own stream is refused: \(error)")
      }
      if Bool.random(using: &generator) { try parts.change(&generator) }
      for _ in 0..<4 {
        let start = Int.random(in: 0...all.count, using: &generator)
        let count = Int.random(in: 0...9000, using: &generator)
        do {
          let piece = try reader.bytes(Int64(start)..<Int64(start + count))
          try demand(piece == Array(all[start..<min(start + count, all.count)]), "other bytes at \(start)")
        } catch Errno.ioError where parts.changed {}
      }
      try parts.remove()
      return true
    }
  }
}
