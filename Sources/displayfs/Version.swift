import CFuse

enum Version {
  static let number = "0.1.0"

  static var text: String {
    """
    displayfs \(number)
    libfuse \(String(cString: fuse_pkgversion())), built against \(FUSE_MAJOR_VERSION).\(FUSE_MINOR_VERSION)
    """
  }
}
