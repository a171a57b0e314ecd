import CLinux
import Glibc
import SystemPackage

/// The entries of a directory without `.` and `..`, read ahead by a separate thread: reading takes most of the time of listing a
/// large directory, and the consumer works meanwhile.
public final class DirectoryReadAhead: Sendable {
  /// The records of one `getdents64` call. The consumer that takes the block frees it.
  private struct Block: @unchecked Sendable {
    let records: UnsafeRawBufferPointer
  }

  private struct State {
    var blocks: [Block] = []
    var taken = 0
    /// The error that ended the reading early.
    var error: Errno?
  }

  private let state = Guarded(State())
  /// Posted once for each block and once for the end.
  private let ready = Semaphore()

  /// Starts reading. Nil when the system has no thread left.
  ///
  /// - Parameter directory: open for reading, at its start.
  public init?(of directory: consuming Descriptor) {
    let descriptor = directory.release()
    let reading = Thread { [self] in
      read(Descriptor(adopting: descriptor))
    }
    guard let reading else {
      close(descriptor)
      return nil
    }
    reading.detach()
  }

  deinit {
    state.withLock { state in
      for block in state.blocks[state.taken...] { block.records.deallocate() }
    }
  }

  private func read(_ directory: consuming Descriptor) {
    while true {
      let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 8)
      do throws(Errno) {
        let length = try systemCall { dfs_getdents(directory.rawValue, buffer.baseAddress!, buffer.count) }
        if length > 0 {
          let block = Block(records: UnsafeRawBufferPointer(rebasing: buffer[..<length]))
          state.withLock { $0.blocks.append(block) }
          ready.post()
          continue
        }
      } catch { state.withLock { $0.error = error } }
      buffer.deallocate()
      return ready.post()
    }
  }

  /// Calls `body` with each entry, waiting for entries not read yet. To be called once. (`getdents64`)
  public func forEach(_ body: (borrowing RawDirectoryEntry) throws(Errno) -> Void) throws(Errno) {
    while let block = try next() {
      defer { block.records.deallocate() }
      _ = try forEachEntry(in: block.records) { (entry, _) throws(Errno) in
        try body(entry)
        return true
      }
    }
  }

  private func next() throws(Errno) -> Block? {
    ready.wait()
    return try state.withLock { (state) throws(Errno) in
      if state.taken < state.blocks.count {
        state.taken += 1
        return state.blocks[state.taken - 1]
      }
      if let error = state.error { throw error }
      return nil
    }
  }
}
