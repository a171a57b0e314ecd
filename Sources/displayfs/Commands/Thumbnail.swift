import ArgumentParser
import BackingTree
import Glibc
import PackagePictures
import SystemPackage

struct Thumbnail: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Write the icon or preview that a package carries as a PNG.",
    discussion: "File managers run it for the packages of a view.")

  @Option(help: ArgumentHelp("The longer side, at most.", valueName: "pixels"))
  var size = 256

  @Argument(
    help: "A package of a view or of the tree, its stream, or a file or folder with an icon of its own.",
    completion: .file())
  var file: FilePath

  @Argument(help: "The file to write.", completion: .file())
  var output: FilePath

  /// Seconds after which the command ends: a file system that does not respond must not keep a file manager waiting.
  private static let longest: UInt32 = 30

  func validate() throws {
    guard (1...1024).contains(size) else { throw ValidationError("--size is a number from 1 to 1024") }
  }

  func run() throws {
    alarm(Self.longest)
    // The decoder may end before it has read all.
    signal(SIGPIPE, SIG_IGN)
    guard let program = PictureDecoder.program else {
      throw Failure(
        .system, "displayfs-picture, which decodes pictures, is not installed: Mount/install puts it in place"
      )
    }
    let decoder = PictureDecoder(program)
    var png: [UInt8]?
    for picture in try PictureSource.pictures(of: file, size: size) {
      do throws(PictureDecoder.Failure) {
        png = PNG.encoded(try decoder.decode(picture, size: size))
      } catch { if let failure = Self.failure(error) { throw failure } }
      if let png { return try write(png) }
    }
    throw Failure(.usage, "\(file): there is no picture of it that can be decoded")
  }

  /// What ends the command; nil for what another picture may not have.
  private static func failure(_ failure: PictureDecoder.Failure) -> Failure? {
    switch failure {
    case .notDecoded: nil
    case .noLibrary:
      Failure(.system, "gdk-pixbuf, which decodes pictures, is not installed (libgdk-pixbuf-2.0-0)")
    case .notConfined: Failure(.system, "displayfs-picture could not give up its rights, and decodes nothing")
    case .system(let errno): Failure(.system, "displayfs-picture: \(errno)")
    }
  }

  private func write(_ png: [UInt8]) throws(Failure) {
    do throws(Errno) {
      let opened = try systemCall {
        output.withPlatformString { open($0, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600) }
      }
      let descriptor = Descriptor(adopting: opened)
      try png.withUnsafeBytesTyped { (bytes) throws(Errno) in
        try writeFully(descriptor.rawValue, bytes, at: 0)
      }
    } catch { throw Failure(.system, "\(output): \(error)") }
  }
}
