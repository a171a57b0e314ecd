import BackingTree
import DisplayNames
import SystemPackage

extension FilePath {
  /// The path as a word of a shell, in a command that a message proposes: another user may have chosen the path.
  var quoted: String {
    let text = Text.lossy(bytes)
    let isPlain = text.utf8.allSatisfy { byte in
      byte >= 0x80 || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
        || UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte
        || UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte || "/._-+,:@%".utf8.contains(byte)
    }
    return isPlain
      ? text : "'\(text.parts(at: "'", omittingEmptySubsequences: false).joined(separator: #"'\''"#))'"
  }
}
