import Glibc

/// The threads that write one small file after the other, as a program does that extracts an archive or checks out a tree.
///
/// A file that is opened empty may become of any size. For a small one the two messages to ``PassthroughHelper`` cost more than the
/// writes: a checkout by git takes a third longer with them (Linux 6.18, ext4). What the thread wrote before decides.
struct SmallFileWriters {
  /// So many small files in a row make the next one likely to be small.
  static let enough: UInt8 = 8

  /// By the last bits of the thread's number: another thread with the same bits takes the place.
  private var places = [(thread: pid_t, count: UInt8)](repeating: (0, 0), count: 256)

  /// Whether a file that a thread opens empty is likely to stay small.
  func contains(_ thread: pid_t) -> Bool {
    let place = places[Self.index(thread)]
    return place.thread == thread && place.count >= Self.enough
  }

  /// Records that a file which a thread opened empty was small, or was not, when it was closed.
  mutating func noteFile(isSmall: Bool, by thread: pid_t) {
    let index = Self.index(thread)
    let before = places[index].thread == thread ? places[index].count : 0
    places[index] = (thread, isSmall ? min(before + 1, Self.enough) : 0)
  }

  private static func index(_ thread: pid_t) -> Int { Int(thread) & 255 }
}
