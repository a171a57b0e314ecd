import CFuse
import View

/// What the kernel keeps for us as the number of an open file or directory: a reference that is owned until release.
enum Handle {
  /// Files and packages are told apart by the class of what the number refers to.
  static func own(_ object: AnyObject) -> UInt64 {
    UInt64(UInt(bitPattern: Unmanaged.passRetained(object).toOpaque()))
  }

  static func object(_ info: UnsafeMutablePointer<fuse_file_info>?) -> AnyObject? {
    guard let number = info?.pointee.fh, let pointer = UnsafeRawPointer(bitPattern: UInt(number)) else {
      return nil
    }
    return Unmanaged<AnyObject>.fromOpaque(pointer).takeUnretainedValue()
  }

  static func file(_ info: UnsafeMutablePointer<fuse_file_info>?) -> OpenFile? { object(info) as? OpenFile }

  static func disown(_ info: UnsafeMutablePointer<fuse_file_info>?) {
    guard let number = info?.pointee.fh, let pointer = UnsafeRawPointer(bitPattern: UInt(number)) else {
      return
    }
    Unmanaged<AnyObject>.fromOpaque(pointer).release()
  }

  /// The kernel has released what it had open.
  static func close(_ info: UnsafeMutablePointer<fuse_file_info>?, for request: Request) {
    switch object(info) {
    case let file as OpenFile:
      request.server.passthrough.closed(file.node, for: request)
      request.view.close(file)
    case let replayed as ReplayedOpen where replayed.isPassedThrough:
      request.server.passthrough.closed(replayed.node, for: request)
    default: break
    }
    disown(info)
  }
}
