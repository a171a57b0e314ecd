/// A queue that removes its first element in amortized constant time.
struct FirstInFirstOut<Element> {
  private var elements: [Element?] = []
  private var head = 0

  var count: Int { elements.count - head }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ element: Element) { elements.append(element) }

  /// Precondition: the queue is not empty.
  mutating func removeFirst() -> Element {
    let first = elements[head]!
    elements[head] = nil
    head += 1
    // At most half of the array is unused.
    if head * 2 >= elements.count {
      elements.removeFirst(head)
      head = 0
    }
    return first
  }

  mutating func removeAll() -> [Element] {
    defer { self = FirstInFirstOut() }
    return elements.dropFirst(head).map { $0! }
  }
}
