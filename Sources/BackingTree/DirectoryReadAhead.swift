import CFuse
import Glibc
import SystemPackage

/// The entries of a directory, without `.` and `..`, read by a thread of its own: of a large one that takes most of the time,
/// and whoever wants them has other things to do.
public final class DirectoryReadAhead: Sendable {
  /// What one call gave. Whoever has taken it frees it.
  private struct Block: @unchecked Sendable {
    let records: UnsafeRawBufferPointer
  }

  private struct State {
    var blocks: [Block] = []
    var taken = 0
    /// Why there are no more; zero at the end.
    var end: Errno?
  }

  private let state = Guarded(State())
  /// Once for each block, and for the end.
  private let ready = Semaphore()

  /// Nil when the system has no thread left.
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
    var end: Errno?
    while end == nil {
      let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 8)
      do throws(Errno) {
        let length = try systemCall { dfs_getdents(directory.rawValue, buffer.baseAddress!, buffer.count) }
        if length > 0 {
          let block = Block(records: UnsafeRawBufferPointer(rebasing: buffer[..<length]))
          state.withLock { $0.blocks.append(block) }
          ready.post()
          continue
        }
        end = Errno(rawValue: 0)
      } catch { end = error }
      buffer.deallocate()
    }
    state.withLock { $0.end = end }
    ready.post()
  }

  /// Waits for each entry that has not been read yet. To be called once. (`getdents64`)
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
      if let error = state.end, error.rawValue != 0 { throw error }
      return nil
    }
  }
}
