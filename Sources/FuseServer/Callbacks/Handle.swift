import BackingTree
import CFuse
import CLinux
import Glibc
import View

/// A file handle of the protocol (`fh`): a retained reference to an object, owned until RELEASE, with the user that opened it.
enum Handle {
  private typealias Pointer = UnsafeMutablePointer<dfs_open>

  /// Returns a handle that retains `object`. The object's class says whether it is a file, a package or a directory.
  ///
  /// - Parameters:
  ///   - descriptors: how many descriptors are counted for the client's user.
  ///   - isForListing: whether they are counted in ``ClientDescriptors/forListing``, the descriptors that are reserved for
  ///   listing.
  static func make(
    _ object: AnyObject, of client: Client, descriptors: Int = 1, isForListing: Bool = false
  ) -> UInt64 {
    // `allocate` would call posix_memalign(3), which takes twice as long.
    let open = malloc(MemoryLayout<dfs_open>.size)!.bindMemory(to: dfs_open.self, capacity: 1)
    open.initialize(
      to: dfs_open(
        object: Unmanaged.passRetained(object).toOpaque(), client_uid: client.user,
        descriptors: UInt16(descriptors), is_for_listing: isForListing))
    return UInt64(UInt(bitPattern: open))
  }

  private static func open(_ info: UnsafeMutablePointer<fuse_file_info>?) -> Pointer? {
    info.flatMap { Pointer(bitPattern: UInt($0.pointee.fh)) }
  }

  /// The object behind a handle if it is of the given class, else nil. The class must have no subclasses: `as?` would first
  /// look up protocol conformances of the object (bridging).
  static func object<Class: AnyObject>(
    _ info: UnsafeMutablePointer<fuse_file_info>?, as class: Class.Type
  ) -> Class? {
    guard let open = open(info) else { return nil }
    let object = Unmanaged<AnyObject>.fromOpaque(open.pointee.object).takeUnretainedValue()
    return type(of: object) == `class` ? unsafeDowncast(object, to: `class`) : nil
  }

  static func file(_ info: UnsafeMutablePointer<fuse_file_info>?) -> OpenFile? {
    object(info, as: OpenFile.self)
  }

  /// What a client locks by a handle; nil where that is a directory.
  static func locked(_ info: UnsafeMutablePointer<fuse_file_info>?) -> FileLocks.Open? {
    guard let info else { return nil }
    let file = file(info)
    guard let node = file?.node ?? object(info, as: OpenPackage.self)?.node else { return nil }
    let passesLocks = file.map { !$0.hasMandatoryLocks } ?? false
    return FileLocks.Open(node: node, handle: info.pointee.fh, file: passesLocks ? file : nil)
  }

  static func release(_ info: UnsafeMutablePointer<fuse_file_info>?) {
    guard let open = open(info) else { return }
    Unmanaged<AnyObject>.fromOpaque(open.pointee.object).release()
    (open.pointee.is_for_listing ? ClientDescriptors.forListing : .opened)
      .release(Int(open.pointee.descriptors), of: open.pointee.client_uid)
    free(open)
  }

  /// Ends an open on RELEASE, or when the reply to the open did not reach the kernel.
  static func close(_ info: UnsafeMutablePointer<fuse_file_info>?, for request: Request) {
    if let locks = request.server.locks, let open = locked(info) { locks.closed(open.handle, of: open.node) }
    var written: NodeID?
    if let file = file(info) {
      request.server.passthrough.closed(file.node, file, for: request)
      request.server.pageCachePolicy.closed(file)
      request.view.close(file)
      if file.mayWrite { written = file.node }
    } else if let replayed = object(info, as: ReplayedOpen.self), replayed.isPassedThrough {
      request.server.passthrough.closed(replayed.node, nil, for: request)
    }
    release(info)
    // The daemon itself must not have the file open for writing any more.
    if let written { request.view.finishImport(written) }
  }
}
