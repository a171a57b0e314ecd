/// A queue, from which the first element is removed in constant time.
struct FirstInFirstOut<Element> {
  private var elements: [Element?] = []
  private var head = 0

  var count: Int { elements.count - head }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ element: Element) { elements.append(element) }

  /// The queue must not be empty.
  mutating func removeFirst() -> Element {
    let first = elements[head]!
    elements[head] = nil
    head += 1
    // Half of the room at most stays empty.
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
