import SystemPackage

/// The reason why a file is not imported as a package, as a sentence for the log.
public struct PackageImportError: Error, CustomStringConvertible, Sendable {
  public enum Kind: Sendable, Equatable {
    /// The file does not begin like a package's stream.
    case notAPackage
    /// The stream is truncated, changed or was not written by this program.
    case damaged
    /// The stream is complete, but holds something that is not allowed.
    case refused
    /// A system call failed.
    case failed(Errno)
  }

  public let kind: Kind
  public let description: String

  /// A system call that prepared the unpacking failed.
  public init(failed errno: Errno) { self = .failed(errno, "Making room for the package") }

  init(kind: Kind, description: String) {
    self.kind = kind
    self.description = description
  }

  static let notAPackage = PackageImportError(
    kind: .notAPackage, description: "The file does not begin with the header of a package.")

  static func damaged(_ sentence: String) -> PackageImportError {
    PackageImportError(kind: .damaged, description: sentence)
  }

  static func refused(_ path: [UInt8], _ reason: String) -> PackageImportError {
    PackageImportError(kind: .refused, description: "\(readable(path)) \(reason).")
  }

  static func failed(_ errno: Errno, _ doing: String) -> PackageImportError {
    PackageImportError(kind: .failed(errno), description: "\(doing) failed: \(errno.description).")
  }
}

/// A path for a message: on one line, shortened to 200 bytes, with bytes that are not text as `\xNN`.
func readable(_ path: [UInt8]) -> String {
  if path.isEmpty { return "The package's directory" }
  let shown = path.prefix(200)
  var text = "\""
  if let valid = String(validating: shown, as: UTF8.self),
    !valid.unicodeScalars.contains(where: { $0.value < 0x20 || (0x7f...0x9f).contains($0.value) })
  {
    text += valid
  } else {
    for byte in shown {
      if byte >= 0x20 && byte < 0x7f {
        text.unicodeScalars.append(Unicode.Scalar(byte))
      } else {
        text += "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
      }
    }
  }
  return text + (shown.count < path.count ? "…\"" : "\"")
}

/// Runs system calls; on failure, the error names the operation `what`.
func doing<Value: ~Copyable>(
  _ what: @autoclosure () -> String, _ body: () throws(Errno) -> Value
) throws(PackageImportError) -> Value {
  do { return try body() } catch { throw PackageImportError.failed(error, what()) }
}
