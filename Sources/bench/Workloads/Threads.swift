import Glibc

/// Runs `body` in `count` threads at once, which begin together. - Throws: the first error of one of them.
func inThreads(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Void) throws {
  if count == 1 { return try body(0) }
  let threads = (0..<count).map { index in Thread { try body(index) } }
  let failures = threads.map { $0.failure() }
  if let failure = failures.compactMap(\.self).first { throw failure }
}

/// Runs `body` in a new thread and waits for it. `body` may change the credentials and the processor of that thread.
func onNewThread<T>(_ body: @escaping () throws -> T) throws -> T {
  var result: T?
  if let failure = Thread({ result = try body() }).failure() { throw failure }
  return result!
}

/// A thread that has begun.
private final class Thread: @unchecked Sendable {
  private let body: () throws -> Void
  private var error: (any Error)?
  private var id = pthread_t()

  init(_ body: @escaping () throws -> Void) {
    self.body = body
    pthread_create(
      &id, nil,
      { argument in
        let thread = Unmanaged<Thread>.fromOpaque(argument!).takeUnretainedValue()
        do { try thread.body() } catch { thread.error = error }
        return nil
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  /// Waits for its end. - Returns: the error that it ended with.
  func failure() -> (any Error)? {
    pthread_join(id, nil)
    return withExtendedLifetime(self) { error }
  }
}
