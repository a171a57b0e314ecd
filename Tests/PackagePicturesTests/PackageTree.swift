import BackingTree
import Glibc
import PackageStream
import SystemPackage
import Testing

/// A package in a directory of its own, on a file system that keeps extended attributes.
final class PackageTree {
  let path: String
  private var streams: [CInt] = []

  init(_ files: [(path: String, content: [UInt8])]) throws {
    var template = Array("/var/tmp/displayfs-picture-XXXXXX".utf8CString)
    path = String(cString: try #require(mkdtemp(&template)))
    for file in files {
      let parts = file.path.split(separator: "/").dropLast()
      for count in 0..<parts.count { mkdir("\(path)/\(parts[...count].joined(separator: "/"))", 0o755) }
      let descriptor = Descriptor(adopting: open("\(path)/\(file.path)", O_CREAT | O_WRONLY, 0o644))
      try file.content.withUnsafeBytes { try writeFully(descriptor.rawValue, $0, at: 0) }
    }
  }

  deinit {
    for stream in streams { close(stream) }
    _ = system("rm -rf '\(path)'")
  }

  /// The stream of the package, in a file without a name that is open for reading. In memory where that is there: `Mount/fuzz`
  /// writes a million others into the file.
  func stream() throws -> CInt {
    let directory = Descriptor(adopting: open(path, O_RDONLY | O_DIRECTORY))
    let layout = try PackageLayout(of: Directory(descriptor: directory.rawValue), type: "com.example.package")
    let reader = PackageReader(layout: layout, package: directory)
    var bytes = [UInt8](repeating: 0, count: Int(layout.size))
    try #require(try bytes.withUnsafeMutableBytes { try reader.pread(into: $0, at: 0) } == bytes.count)
    let memory = "/dev/shm"
    let file = open(
      access(memory, W_OK) == 0 ? memory : path, 0o20200000 /* O_TMPFILE */ | O_RDWR, 0o600)
    try #require(file >= 0)
    streams.append(file)
    try bytes.withUnsafeBytes { try writeFully(file, $0, at: 0) }
    return file
  }
}
