import BackingTree
import Glibc
import SystemPackage

/// Standard output for names, which are bytes.
enum Output {
  /// Writes the bytes and a newline in one call, so that lines of several threads do not mix.
  static func line(_ bytes: [UInt8], to descriptor: CInt = STDOUT_FILENO) {
    Self.bytes(bytes + [0x0a], to: descriptor)
  }

  static func line(_ text: String, to descriptor: CInt = STDOUT_FILENO) {
    Self.text(Array(text.utf8), to: descriptor)
  }

  /// The same for text that may hold names. Other users choose those, and a terminal would obey what is in them.
  static func text(_ bytes: [UInt8], to descriptor: CInt = STDOUT_FILENO) {
    guard isatty(descriptor) == 1 else { return line(bytes, to: descriptor) }
    let lines = bytes.split(separator: 0x0a, omittingEmptySubsequences: false)
    line(
      Array(lines.map { Array(Terminal.printable(Array($0)).utf8) }.joined(separator: [0x0a])), to: descriptor
    )
  }

  /// Where standard output cannot be written, as on a full disk, this ends the process with a message: what is there is not all.
  static func bytes(_ bytes: [UInt8], to descriptor: CInt = STDOUT_FILENO) {
    do throws(Errno) { try writeAll(bytes, to: descriptor) } catch {
      if descriptor == STDOUT_FILENO { end(with: error) }
    }
  }

  /// Ends the process, unless the reader has gone and wants no more.
  static func end(with error: Errno) {
    if error == .brokenPipe { return }
    Main.end(with: Failure(.system, "standard output cannot be written: \(error)"))
  }
}

enum Text {
  /// Decodes bytes as text. Bytes that are not UTF-8 become the replacement character.
  static func lossy(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
