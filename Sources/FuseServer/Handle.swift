import CFuse
import View

/// What the kernel keeps for us as the number of an open file or directory: a reference that is owned until release.
enum Handle {
  /// Files and packages are told apart by the class of what the number refers to.
  static func own(_ object: AnyObject) -> UInt64 {
    UInt64(UInt(bitPattern: Unmanaged.passRetained(object).toOpaque()))
  }

  /// What the number refers to, if that is of a class, which has no subclasses: `as?` would first ask of which protocols the
  /// object is another form.
  static func object<Class: AnyObject>(
    _ info: UnsafeMutablePointer<fuse_file_info>?, as class: Class.Type
  ) -> Class? {
    guard let number = info?.pointee.fh, let pointer = UnsafeRawPointer(bitPattern: UInt(number)) else {
      return nil
    }
    let object = Unmanaged<AnyObject>.fromOpaque(pointer).takeUnretainedValue()
    return type(of: object) == `class` ? unsafeDowncast(object, to: `class`) : nil
  }

  static func file(_ info: UnsafeMutablePointer<fuse_file_info>?) -> OpenFile? {
    object(info, as: OpenFile.self)
  }

  static func disown(_ info: UnsafeMutablePointer<fuse_file_info>?) {
    guard let number = info?.pointee.fh, let pointer = UnsafeRawPointer(bitPattern: UInt(number)) else {
      return
    }
    Unmanaged<AnyObject>.fromOpaque(pointer).release()
  }

  /// The kernel has released what it had open.
  static func close(_ info: UnsafeMutablePointer<fuse_file_info>?, for request: Request) {
    if let file = file(info) {
      request.server.passthrough.closed(file.node, for: request)
      request.view.close(file)
    } else if let replayed = object(info, as: ReplayedOpen.self), replayed.isPassedThrough {
      request.server.passthrough.closed(replayed.node, for: request)
    }
    disown(info)
  }
}
