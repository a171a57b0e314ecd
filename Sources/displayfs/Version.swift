import CFuse

enum Version {
  static let number = "0.1.0"

  static var text: String {
    """
    displayfs \(number)
    libfuse \(String(cString: fuse_pkgversion())), kernel interface \(FUSE_KERNEL_VERSION).\(FUSE_KERNEL_MINOR_VERSION)
    """
  }
}
