/// Pixels of eight bits for each of red, green, blue and alpha, row by row from the top.
public struct PixelBitmap: Hashable, Sendable {
  public let width: Int
  public let height: Int
  /// `4 * width * height` bytes. Color is not multiplied by alpha.
  public let bytes: [UInt8]

  /// Nil unless the number of bytes fits the size.
  public init?(width: Int, height: Int, bytes: [UInt8]) {
    let (pixels, overflow) = width.multipliedReportingOverflow(by: height)
    guard width > 0, height > 0, !overflow, bytes.count.isMultiple(of: 4), bytes.count / 4 == pixels else {
      return nil
    }
    self.width = width
    self.height = height
    self.bytes = bytes
  }
}
