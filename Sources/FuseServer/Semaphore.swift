import Glibc

/// What a thread waits for until another has work for it. (`sem_t`)
final class Semaphore: @unchecked Sendable {
  private let raw = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

  init() { sem_init(raw, 0, 0) }

  deinit {
    sem_destroy(raw)
    raw.deallocate()
  }

  func post() { sem_post(raw) }
  func wait() { while sem_wait(raw) != 0 {} }
}
