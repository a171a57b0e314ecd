/// A sample with some of its bytes changed, removed or repeated.
///
/// One of 1000 also repeats a piece of itself until it is about as long as parsers take, or a little longer: what takes
/// time or memory out of proportion shows there.
///
/// - Parameter largest: bytes, the most that the parser looks at.
public func damaged(_ sample: [UInt8], largest: Int, _ generator: inout SeededGenerator) -> [UInt8] {
  var bytes = sample
  for _ in 0..<Int.random(in: 1...6, using: &generator) where !bytes.isEmpty {
    let at = Int.random(in: 0..<bytes.count, using: &generator)
    switch Int.random(in: 0..<6, using: &generator) {
    case 0: bytes[at] = UInt8.random(in: 0...255, using: &generator)
    case 1: bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
    case 2: bytes[at] = [0, 1, 0x7F, 0x80, 0xFF].randomElement(using: &generator) ?? 0
    case 3: bytes.removeSubrange(at...)
    case 4: bytes.insert(UInt8.random(in: 0...255, using: &generator), at: at)
    default:
      let piece = bytes[at..<min(bytes.count, at + Int.random(in: 1...16, using: &generator))]
      bytes.insert(contentsOf: Array(piece), at: Int.random(in: 0...bytes.count, using: &generator))
    }
  }
  if Int.random(in: 0..<1000, using: &generator) == 0 { blowUp(&bytes, to: largest, &generator) }
  return bytes
}

private func blowUp(_ bytes: inout [UInt8], to largest: Int, _ generator: inout SeededGenerator) {
  guard !bytes.isEmpty else { return }
  let start = Int.random(in: 0..<bytes.count, using: &generator)
  let end = Int.random(in: start + 1...min(bytes.count, start + 64), using: &generator)
  let (piece, rest) = (Array(bytes[start..<end]), Array(bytes[end...]))
  bytes.removeSubrange(end...)
  let size = largest + Int.random(in: -64...16, using: &generator) - rest.count
  while bytes.count < size { bytes += piece }
  bytes += rest
}
