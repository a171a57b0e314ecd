/// An icon in several sizes: an `.icns` file, or a resource of type `icns` ("Icons.h": `IconFamilyResource`).
///
/// After the type `icns` and the length of the whole, each element has a type of four letters, its length with these eight
/// bytes, and its data: a PNG, a JPEG 2000, which was written for 256 and 512 pixels before PNG was, or planes of color that are
/// compressed by run lengths. Elements of 1, 4 and 8 bits for each pixel are left out: icons that have these have one of 24 bits
/// too.
public struct IconFamily: Sendable {
  /// One size of the icon.
  public struct Icon: Hashable, Sendable {
    /// Pixels of the longer side.
    public let side: Int
    let coding: Coding
  }

  enum Coding: Hashable, Sendable {
    /// A picture in a format of its own.
    case file(Range<Int>)
    /// Alpha, red, green and blue.
    case alphaAndColor(Range<Int>)
    /// Red, green and blue; alpha is in another element, a byte for each pixel.
    case color(Range<Int>, mask: Range<Int>?)
  }

  /// What an icon is kept as.
  public enum Picture: Hashable, Sendable {
    /// A PNG or JPEG 2000.
    case encoded([UInt8])
    case bitmap(PixelBitmap)
  }

  /// In ascending order of their sides.
  public let icons: [Icon]
  private let bytes: [UInt8]

  /// The most elements that are looked at. The largest icons have about 20.
  private static let largestCount = 256
  /// Bytes of an element in which its format and its size are. Those of a JPEG 2000 are behind a list of compatible formats.
  private static let headerBytes = 256

  /// Parses an icon; nil when it is none. What follows a malformed element is left out.
  public init?(_ bytes: [UInt8]) {
    guard bytes.count <= ParserLimits.pictureBytes, bytes.hasBytes("icns".utf8, at: 0),
      let length = bytes.bigEndian(UInt32.self, at: 4)
    else { return nil }
    let end = min(bytes.count, Int(length))
    var elements: [(type: String, data: Range<Int>)] = []
    var at = 8
    while elements.count < Self.largestCount, at <= end - 8,
      let length = bytes.bigEndian(UInt32.self, at: at + 4),
      length >= 8, Int(length) <= end - at
    {
      elements.append((String(decoding: bytes[at..<at + 4], as: UTF8.self), at + 8..<at + Int(length)))
      at += Int(length)
    }
    func mask(_ type: String, side: Int) -> Range<Int>? {
      elements.first { $0.type == type && $0.data.count >= side * side }?.data
    }
    self.bytes = bytes
    icons = elements.compactMap { type, data in
      let header = PictureHeader(Array(bytes[data].prefix(Self.headerBytes)))
      if let header, header.format == .png || header.format == .jpeg2000 {
        return Icon(side: header.side, coding: .file(data))
      }
      if bytes[data].starts(with: "ARGB".utf8) {
        return Self.sidesWithAlpha[type].map { Icon(side: $0, coding: .alphaAndColor(data.dropFirst(4))) }
      }
      guard let known = Self.colors[type] else { return nil }
      // Four zero bytes come before the planes of this type.
      let planes = type == "it32" ? data.dropFirst(4) : data
      return Icon(side: known.side, coding: .color(planes, mask: mask(known.mask, side: known.side)))
    }.sorted { $0.side < $1.side }
  }

  /// Types that hold `ARGB` and planes, beside PNG and JPEG 2000.
  private static let sidesWithAlpha = [
    "ic04": 16, "ic05": 32, "icsb": 18, "icsB": 36, "sb24": 24, "SB24": 48,
  ]

  /// Types that hold planes without alpha, and the type of their mask.
  private static let colors: [String: (side: Int, mask: String)] = [
    "is32": (16, "s8mk"), "il32": (32, "l8mk"), "ih32": (48, "h8mk"), "it32": (128, "t8mk"),
    "icp4": (16, "s8mk"),
    "icp5": (32, "l8mk"),
  ]

  /// The picture of one of `icons`; nil when its data ends too early.
  public func picture(of icon: Icon) -> Picture? {
    switch icon.coding {
    case .file(let range): return .encoded(Array(bytes[range]))
    case .alphaAndColor(let range):
      guard let planes = planes(4, in: range, side: icon.side) else { return nil }
      return bitmap(
        icon.side, color: planes.dropFirst(planes.count / 4), alpha: planes.prefix(planes.count / 4))
    case .color(let range, let mask):
      guard let planes = planes(3, in: range, side: icon.side) else { return nil }
      return bitmap(icon.side, color: planes, alpha: mask.map { bytes[$0].prefix(planes.count / 3) })
    }
  }

  /// - Parameter side: from the tables above. That of a picture in a format of its own may be any number.
  private func planes(_ count: Int, in range: Range<Int>, side: Int) -> ArraySlice<UInt8>? {
    RunLengths.expand(bytes[range], count: count * side * side).map { $0[...] }
  }

  /// - Parameters:
  ///   - color: three planes, red, green and blue.
  ///   - alpha: one plane; nil where the icon is opaque.
  private func bitmap(_ side: Int, color: ArraySlice<UInt8>, alpha: ArraySlice<UInt8>?) -> Picture? {
    let count = side * side
    var pixels = [UInt8](repeating: 0xFF, count: 4 * count)
    for index in 0..<count {
      for plane in 0..<3 { pixels[4 * index + plane] = color[color.startIndex + plane * count + index] }
      if let alpha { pixels[4 * index + 3] = alpha[alpha.startIndex + index] }
    }
    return PixelBitmap(width: side, height: side, bytes: pixels).map { .bitmap($0) }
  }
}

/// The compression of planes in an icon: a control byte below 128 is followed by one byte more than it says; any other is
/// followed by one byte that is repeated, 125 times less than it says.
enum RunLengths {
  /// - Returns: exactly `count` bytes; nil when the data gives fewer. What it gives beyond is left out.
  static func expand(_ data: ArraySlice<UInt8>, count: Int) -> [UInt8]? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count)
    var rest = data
    while bytes.count < count, let control = rest.popFirst() {
      let free = count - bytes.count
      if control < 0x80 {
        bytes += rest.prefix(min(Int(control) + 1, free))
        rest = rest.dropFirst(Int(control) + 1)
      } else if let byte = rest.popFirst() {
        bytes += repeatElement(byte, count: min(Int(control) - 125, free))
      }
    }
    return bytes.count == count ? bytes : nil
  }
}
