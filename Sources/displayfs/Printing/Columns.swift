import Glibc

/// Names side by side on a terminal, as ls(1) prints them: down the columns first.
enum Columns {
  static let gap = 2

  /// The lines of as many columns as fit.
  ///
  /// - Parameters:
  ///   - items: what to print, and how many columns of the terminal each takes.
  ///   - width: the columns of the terminal.
  static func lines(_ items: [(text: [UInt8], width: Int)], width: Int) -> [[UInt8]] {
    guard !items.isEmpty else { return [] }
    let all = items.map(\.width)
    func fits(_ rows: Int) -> Bool {
      let widths = columnWidths(all, rows: rows)
      return widths.reduce(0, +) + gap * (widths.count - 1) <= width
    }
    // By the number of columns, of which a terminal holds few: to try each number of rows takes the square of the names.
    let most = max(1, min(items.count, (width + gap) / (1 + gap)))
    let rows =
      (1...most).reversed().lazy.map { (items.count + $0 - 1) / $0 }.first(where: fits) ?? items.count
    let widths = columnWidths(all, rows: rows)
    return (0..<rows).map { row in
      var line: [UInt8] = []
      for (column, index) in stride(from: row, to: items.count, by: rows).enumerated() {
        line += items[index].text
        if index + rows < items.count {
          line += Array(repeating: 0x20, count: widths[column] - items[index].width + gap)
        }
      }
      return line
    }
  }

  private static func columnWidths(_ widths: [Int], rows: Int) -> [Int] {
    stride(from: 0, to: widths.count, by: rows).map { widths[$0..<min($0 + rows, widths.count)].max()! }
  }
}
