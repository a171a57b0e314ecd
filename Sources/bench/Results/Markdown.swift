enum Markdown {
  /// A table: the first column is aligned to the left, the others to the right.
  static func table(_ head: [String], _ rows: [[String]]) -> String {
    let rule = ["---"] + head.dropFirst().map { _ in "--:" }
    return ([head, rule] + rows).map { "| " + $0.joined(separator: " | ") + " |" }.joined(separator: "\n")
  }
}

/// With a fixed number of digits after the point.
func decimal(_ value: Double, _ digits: Int) -> String {
  var scale = 1.0
  for _ in 0..<digits { scale *= 10 }
  let number = Int((value * scale).rounded())
  guard digits > 0 else { return "\(number)" }
  let fraction = "\(number % Int(scale))"
  return "\(number / Int(scale))." + String(repeating: "0", count: digits - fraction.utf8.count) + fraction
}

/// With three digits or more that say something, but no more than four after the point.
func threeDigits(_ value: Double) -> String {
  switch value {
  case 100...: decimal(value, 0)
  case 10...: decimal(value, 1)
  case 1...: decimal(value, 2)
  case 0.1...: decimal(value, 3)
  default: value < 0.00005 ? "0" : decimal(value, 4)
  }
}

func capitalized(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() }
