// The standard library normalizes strings for its own comparisons and offers the result only as system
// programming interface. The one use of it is kept in this file.
@_spi(_Unicode) import Swift

extension String {
  /// The string in Unicode normalization form C: `e` + combining acute becomes `é`.
  var normalizedC: String {
    var scalars = String.UnicodeScalarView()
    for scalar in self._nfc { scalars.append(scalar) }
    return String(scalars)
  }
}
