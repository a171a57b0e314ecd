/// Normalization and case folding of names. (Unicode Standard Annex #15; The Unicode Standard, section 3.13)
///
/// A name that is not valid UTF-8 has no such forms: it stays as it is.
enum NormalForm {
  /// The name in normalization form C: `e` + combining acute becomes `é`.
  ///
  /// - Returns: nil if that is the name itself.
  static func composed(_ name: Span<UInt8>) -> [UInt8]? {
    guard let scalars = nonASCIIScalars(of: name) else { return nil }
    let data = UnicodeData.shared
    guard scalars.contains(where: { $0 >= 0x300 && data[$0].mayChangeWhenComposed }) else { return nil }
    return encoded(composed(decomposed(scalars)), unless: name)
  }

  /// The form that all canonical caseless matches of the name share: its full case folding, in normalization form C. No locale
  /// takes part.
  ///
  /// Definition D145 compares NFD(toCasefold(NFD(X))). Two strings have one form D exactly if they have one form C, which most
  /// names are in already.
  ///
  /// - Returns: nil if that is the name itself.
  static func caseless(_ name: Span<UInt8>) -> [UInt8]? {
    guard let scalars = nonASCIIScalars(of: name) else { return asciiLowercased(name) }
    let data = UnicodeData.shared
    var folded: [UInt32] = []
    folded.reserveCapacity(scalars.count + 8)
    for scalar in decomposed(scalars) {
      let folding = data[scalar].folding
      if folding.isEmpty { folded.append(scalar) }
      for index in folding { folded.append(data.pool[Int(index)]) }
    }
    return encoded(composed(decomposed(folded)), unless: name)
  }

  /// The letters of the name without combining marks: `é` becomes `e`. Bytes that are not UTF-8 stay.
  static func withoutMarks(_ name: Span<UInt8>) -> [UInt8] {
    let bytes = name.withUnsafeBytes { Array($0) }
    guard let scalars = nonASCIIScalars(of: name) else { return bytes }
    let data = UnicodeData.shared
    return encoded(decomposed(scalars).filter { data[$0].combiningClass == 0 }, unless: name) ?? bytes
  }

  private static func asciiLowercased(_ name: Span<UInt8>) -> [UInt8]? {
    let uppercase = UInt8(ascii: "A")...UInt8(ascii: "Z")
    var isASCII = true
    var hasUppercase = false
    for index in name.indices {
      if name[index] >= 0x80 { isASCII = false }
      if uppercase.contains(name[index]) { hasUppercase = true }
    }
    guard isASCII, hasUppercase else { return nil }
    return name.withUnsafeBytes { $0.map { uppercase.contains($0) ? $0 | 0x20 : $0 } }
  }

  // MARK: Scalars

  /// In normalization form D.
  private static func decomposed(_ scalars: [UInt32]) -> [UInt32] {
    let data = UnicodeData.shared
    var result: [UInt32] = []
    result.reserveCapacity(scalars.count + 8)
    var mayBeUnordered = false
    for scalar in scalars {
      if scalar < 0xc0 {
        result.append(scalar)
      } else if Hangul.isSyllable(scalar) {
        Hangul.decompose(scalar, into: &result)
      } else {
        let record = data[scalar]
        if record.decomposition.isEmpty { result.append(scalar) }
        for index in record.decomposition { result.append(data.pool[Int(index)]) }
        if record.combiningClass > 0 || !record.decomposition.isEmpty { mayBeUnordered = true }
      }
    }
    if mayBeUnordered { order(&result) }
    return result
  }

  /// Sorts each run of combining marks by class; those of one class stay in order. (Canonical Ordering Algorithm)
  ///
  /// A name has few marks in a row, and at most a few hundred.
  private static func order(_ scalars: inout [UInt32]) {
    let data = UnicodeData.shared
    for index in scalars.indices.dropFirst() {
      let combiningClass = data[scalars[index]].combiningClass
      if combiningClass == 0 { continue }
      var position = index
      while position > 0, data[scalars[position - 1]].combiningClass > combiningClass {
        scalars.swapAt(position - 1, position)
        position -= 1
      }
    }
  }

  /// Composes scalars in form D. (Canonical Composition Algorithm)
  private static func composed(_ scalars: [UInt32]) -> [UInt32] {
    let data = UnicodeData.shared
    var result: [UInt32] = []
    result.reserveCapacity(scalars.count)
    var starter: Int?
    /// The class of the last scalar since the starter that was not composed.
    var last: UInt8?
    for scalar in scalars {
      let combiningClass = scalar < 0x300 ? 0 : data[scalar].combiningClass
      if let starter, last.map({ $0 < combiningClass && $0 > 0 }) ?? true,
        let composition = scalar < 0x300 ? nil : data.composition(result[starter], scalar)
      {
        result[starter] = composition
        continue
      }
      if combiningClass == 0 {
        starter = result.count
        last = nil
      } else {
        last = combiningClass
      }
      result.append(scalar)
    }
    return result
  }

  // MARK: UTF-8

  /// The scalars of a name; nil where it is ASCII alone or not valid UTF-8.
  private static func nonASCIIScalars(of name: Span<UInt8>) -> [UInt32]? {
    if name.isASCII { return nil }
    do throws(UTF8.ValidationError) { _ = try UTF8Span(validating: name) } catch { return nil }
    return [UInt32](unsafeUninitializedCapacity: name.count) { scalars, count in
      var index = 0
      while index < name.count {
        let first = UInt32(name[index])
        let length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4
        var scalar = length == 1 ? first : first & (0x7f >> UInt32(length))
        for offset in 1..<max(length, 1) { scalar = scalar << 6 | UInt32(name[index + offset] & 0x3f) }
        scalars.initializeElement(at: count, to: scalar)
        count += 1
        index += length
      }
    }
  }

  private static func encoded(_ scalars: [UInt32], unless name: Span<UInt8>) -> [UInt8]? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(name.count + 8)
    for scalar in scalars {
      if scalar < 0x80 {
        bytes.append(UInt8(scalar))
      } else {
        let length = scalar < 0x800 ? 2 : scalar < 0x1_0000 ? 3 : 4
        bytes.append(
          UInt8(truncatingIfNeeded: 0xf00 >> UInt32(length)) | UInt8(scalar >> UInt32(6 * (length - 1))))
        for rest in stride(from: length - 2, through: 0, by: -1) {
          bytes.append(0x80 | UInt8(scalar >> UInt32(6 * rest) & 0x3f))
        }
      }
    }
    let isName =
      bytes.count == name.count && bytes.withUnsafeBytes { new in name.withUnsafeBytes(new.elementsEqual) }
    return isName ? nil : bytes
  }
}

extension Span<UInt8> {
  /// Whether all bytes are ASCII. Eight at a time: each name of a directory is looked at.
  package var isASCII: Bool {
    withUnsafeBytes { bytes in
      guard var position = bytes.baseAddress else { return true }
      let end = position + bytes.count
      var all: UInt64 = 0
      while end - position >= 8 {
        all |= position.loadUnaligned(as: UInt64.self)
        position += 8
      }
      if bytes.count >= 8 {
        // Overlaps bytes that were looked at before.
        all |= (end - 8).loadUnaligned(as: UInt64.self)
      } else {
        while position < end {
          all |= UInt64(position.load(as: UInt8.self))
          position += 1
        }
      }
      return all & 0x8080_8080_8080_8080 == 0
    }
  }
}

extension String {
  /// The string in Unicode normalization form C.
  var normalizedC: String {
    NormalForm.composed(Array(utf8).span).map { String(decoding: $0, as: UTF8.self) } ?? self
  }
}
