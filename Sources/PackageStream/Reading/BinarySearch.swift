extension RandomAccessCollection where Index == Int {
  /// The last index whose element fulfils a condition, by binary search: the condition holds for every element before that one.
  /// The first index when it holds for none.
  func lastIndexOfPrefix(where holds: (Element) -> Bool) -> Int {
    var low = startIndex
    var high = endIndex
    while high - low > 1 {
      let middle = (low + high) / 2
      if holds(self[middle]) { low = middle } else { high = middle }
    }
    return low
  }
}
