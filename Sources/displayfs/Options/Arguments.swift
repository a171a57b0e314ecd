import ArgumentParser
import BackingTree
import Glibc
import SystemPackage

/// Converts the arguments of this process, which are bytes, to the text that the argument parser needs, and back. A byte that is
/// not part of valid UTF-8 is mapped to a private-use character, U+10FF80 for 0x80 and so on. Such a character itself is mapped
/// as its four bytes.
enum Arguments {
  /// The arguments after the program's name.
  static var current: [String] {
    (1..<max(1, Int(CommandLine.argc))).compactMap { index in
      CommandLine.unsafeArgv[index].map { text(Array(UnsafeRawBufferPointer(start: $0, count: strlen($0)))) }
    }
  }

  static func text(_ bytes: [UInt8]) -> String {
    var text = ""
    var rest = bytes[...]
    while let byte = rest.first {
      let scalar = (1...4).lazy.compactMap { String(validating: rest.prefix($0), as: UTF8.self) }.first
      if let value = scalar?.unicodeScalars.first, value.value < 0x10FF80 {
        text.unicodeScalars.append(value)
        rest = rest.dropFirst(UTF8.width(value))
      } else {
        text.unicodeScalars.append(Unicode.Scalar(0x10FF00 + UInt32(byte))!)
        rest = rest.dropFirst()
      }
    }
    return text
  }

  static func bytes(_ text: String) -> [UInt8] {
    text.unicodeScalars.flatMap { scalar -> [UInt8] in
      scalar.value < 0x10FF80 ? Array(String(scalar).utf8) : [UInt8(truncatingIfNeeded: scalar.value)]
    }
  }
}

extension FilePath: @retroactive ExpressibleByArgument {
  /// Nil for an empty argument, which names nothing. As a path it would be that of the working directory.
  public init?(argument: String) {
    if argument.isEmpty { return nil }
    self.init(bytes: Arguments.bytes(argument))
  }
}
