/// The ratios as an SVG: a group of bars for each workload, a line where the backing directory is.
struct Picture {
  private let results: Results
  private let contestants: [String]
  private let workloads: [Workload]

  init(of comparison: Comparison) {
    results = comparison.results[0]
    contestants = Array(comparison.contestants.dropFirst())
    workloads = comparison.workloads.filter { [results, contestants] workload in
      contestants.contains { results.ratio(workload, $0) != nil }
    }
  }

  private static let colours = ["#0a84ff", "#64b5f6", "#ff9f0a", "#a2845e", "#8e8e93"]
  private static let (left, right, barHeight, top) = (230.0, 60.0, 9.0, 44.0)
  private static let width = 860.0
  /// What is faster is drawn as that fast.
  private static let longest = 1.5

  var svg: String {
    let group = Self.barHeight * Double(contestants.count) + 9
    let height = Self.top + group * Double(workloads.count) + 12
    var parts = [
      """
      <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(decimal(Self.width, 0)) \(decimal(height, 0))" \
      font-family="sans-serif" font-size="11" fill="#666">
      """
    ]
    for (index, contestant) in contestants.enumerated() {
      let x = 20 + Double(index) * 150
      parts.append(rectangle(x, 12, 10, 10, Self.colours[index]))
      parts.append(label(contestant, x + 15, 21))
    }
    for (row, workload) in workloads.enumerated() {
      let y = Self.top + group * Double(row)
      parts.append(label(workload.name, Self.left - 8, y + group / 2, anchor: "end"))
      for (index, contestant) in contestants.enumerated() {
        guard let ratio = results.ratio(workload, contestant) else { continue }
        let length = x(min(ratio, Self.longest)) - Self.left
        let barY = y + Self.barHeight * Double(index)
        parts.append(rectangle(Self.left, barY, max(length, 0.5), Self.barHeight - 1, Self.colours[index]))
        parts.append(label(decimal(ratio, 2), Self.left + length + 4, barY + Self.barHeight - 1, size: 8))
      }
    }
    let one = decimal(x(1), 1)
    parts.append(
      "<path d=\"M\(one) \(decimal(Self.top - 6, 1))V\(decimal(height - 8, 1))\" stroke=\"#888\" stroke-dasharray=\"3 3\"/>"
    )
    parts.append(label("as fast as the backing directory", x(1), Self.top - 10, anchor: "middle"))
    return parts.joined(separator: "\n") + "\n</svg>\n"
  }

  private func x(_ ratio: Double) -> Double {
    Self.left + ratio / Self.longest * (Self.width - Self.left - Self.right)
  }

  private func rectangle(_ x: Double, _ y: Double, _ width: Double, _ height: Double, _ colour: String)
    -> String
  {
    """
    <rect x="\(decimal(x, 1))" y="\(decimal(y, 1))" width="\(decimal(width, 1))" height="\(decimal(height, 1))" \
    fill="\(colour)"/>
    """
  }

  private func label(_ text: String, _ x: Double, _ y: Double, anchor: String = "start", size: Int = 11)
    -> String
  {
    """
    <text x="\(decimal(x, 1))" y="\(decimal(y, 1))" text-anchor="\(anchor)" font-size="\(size)">\(text)</text>
    """
  }
}
