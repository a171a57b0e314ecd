import BackingTree
import CLinux
import Glibc
import MacMetadata
import SystemPackage

/// Decodes pictures by `displayfs-picture`, a process that can do nothing else. It gets an encoded picture, and returns pixels.
public struct PictureDecoder: Sendable {
  public enum Failure: Error, Sendable {
    /// The picture is damaged, of another format, or takes too much memory or time.
    case notDecoded
    /// gdk-pixbuf is not installed.
    case noLibrary
    /// The kernel refuses to confine the process.
    case notConfined
    /// The program could not be started.
    case system(Errno)
  }

  /// The installed program; nil where there is none.
  public static var program: FilePath? { HelperProgram.path("displayfs-picture") }

  private let program: FilePath

  public init(_ program: FilePath) { self.program = program }

  /// - Parameters:
  ///   - picture: a PNG, JPEG, TIFF or JPEG 2000; the last is not decoded where OpenJPEG is not installed.
  ///   - size: pixels, at most 1024. A picture with a longer side than that is made smaller.
  public func decode(_ picture: [UInt8], size: Int) throws(Failure) -> PixelBitmap {
    let (output, status): ([UInt8], CInt)
    do throws(Errno) { (output, status) = try run(picture, size) } catch { throw .system(error) }
    switch status {
    case 0: break
    case 2: throw .noLibrary
    case 3: throw .notConfined
    default: throw .notDecoded
    }
    // The process may be in the hands of the picture: nothing but pixels of this size is accepted.
    func number(_ offset: Int) -> Int {
      output.withUnsafeBytes { Int($0.loadUnaligned(fromByteOffset: offset, as: UInt32.self)) }
    }
    guard output.count > 8, (1...size).contains(number(0)), (1...size).contains(number(4)),
      let bitmap = PixelBitmap(width: number(0), height: number(4), bytes: Array(output[8...]))
    else { throw .notDecoded }
    return bitmap
  }

  /// Runs the program to its end, which it comes to by itself (`alarm`).
  ///
  /// - Returns: what it wrote, and its exit status; that of a program that a signal ended is -1.
  private func run(_ picture: [UInt8], _ size: Int) throws(Errno) -> ([UInt8], CInt) {
    let input = try Pipe()
    let output = try Pipe()
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, input.reading.rawValue, STDIN_FILENO)
    posix_spawn_file_actions_adddup2(&actions, output.writing.rawValue, STDOUT_FILENO)
    var child: pid_t = 0
    var words: [UnsafeMutablePointer<CChar>?] = [strdup("displayfs-picture"), strdup("\(size)"), nil]
    defer { for word in words { free(word) } }
    let error = program.withPlatformString { posix_spawn(&child, $0, &actions, nil, &words, environ) }
    guard error == 0 else { throw Errno(rawValue: error) }
    Self.close(input.reading)
    Self.close(output.writing)
    // The decoder reads all before it writes, so the two never wait for each other. If it has ended, writing fails.
    try? writeAll(picture, to: input.writing.rawValue)
    Self.close(input.writing)
    let pixels = Self.read(from: output.reading.rawValue, limit: 8 + 4 * size * size)
    Self.close(output.reading)
    var status: CInt = 0
    try systemCall { waitpid(child, &status, 0) }
    return (pixels, status & 0x7f == 0 ? (status >> 8) & 0xff : -1)
  }

  private struct Pipe: ~Copyable {
    let reading: Descriptor
    let writing: Descriptor

    /// (`pipe`, FD_CLOEXEC)
    init() throws(Errno) {
      var ends: [CInt] = [-1, -1]
      try systemCall { pipe(&ends) }
      for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
      reading = Descriptor(adopting: ends[0])
      writing = Descriptor(adopting: ends[1])
    }
  }

  private static func close(_ descriptor: consuming Descriptor) {}

  /// All that comes; empty where there is more than `limit` bytes of it.
  private static func read(from descriptor: CInt, limit: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    while bytes.count <= limit {
      let count = (try? systemCall { Glibc.read(descriptor, &buffer, buffer.count) }) ?? 0
      if count == 0 { return bytes }
      bytes += buffer[..<count]
    }
    return []
  }
}
