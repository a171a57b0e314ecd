import Glibc
import Testing

/// The first two numbers of the kernel's release.
let kernelRelease: [Int] = {
  var system = utsname()
  uname(&system)
  let release = withUnsafeBytes(of: &system.release) { String(decoding: $0, as: UTF8.self) }
  return release.split { !$0.isNumber }.prefix(2).compactMap { Int($0) }
}()

extension Machine {
  /// Whether the kernel looks up the name that a client gave, whatever the dentry is called by then. (Linux 6.14)
  static var looksUpStableNames: Bool { !kernelRelease.lexicographicallyPrecedes([6, 14]) }
}

extension MountedView {
  /// How many requests have come of some kinds; of looking up and of attributes, if none are named.
  ///
  /// - Parameter script: runs in the view; only the requests that come meanwhile count.
  func requestCount(_ operations: String..., during script: String? = nil) throws -> Int {
    let counted = operations.isEmpty ? ["lookup", "getattr", "statx"] : operations
    return try reported("requests", during: script).split(separator: ",").reduce(0) { sum, request in
      let words = request.split(separator: " ")
      return words.last.map { counted.contains(String($0)) } ?? false ? sum + (Int(words[0]) ?? 0) : sum
    }
  }
}
