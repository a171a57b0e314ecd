// The standard library normalizes strings for its own comparisons, but offers the result only as system programming interface
// (SPI). This file is the only user of it.
@_spi(_Unicode) import Swift

extension String {
  /// The string in Unicode normalization form C: `e` + combining acute becomes `é`.
  var normalizedC: String {
    var scalars = String.UnicodeScalarView()
    for scalar in self._nfc { scalars.append(scalar) }
    return String(scalars)
  }
}
