import CLinux
import Glibc
import SystemPackage

/// The ranges of an open file that hold data, in order. Holes smaller than `smallestHole` bytes count as data.
///
/// A file system without support for holes reports one range, the whole file. (`lseek` with SEEK_DATA and SEEK_HOLE)
///
/// - Parameter size: the end of the last range at most.
public func dataRanges(
  _ descriptor: CInt, size: Int64, smallestHole: Int64
) throws(Errno) -> [Range<Int64>] {
  var ranges: [Range<Int64>] = []
  var position: Int64 = 0
  while position < size {
    let start: Int64
    do {
      start = min(Int64(try systemCall { lseek(descriptor, off_t(position), dfs_SEEK_DATA) }), size)
    } catch {
      if error == .noSuchAddressOrDevice { break }
      throw error
    }
    if start >= size { break }
    let end = min(Int64(try systemCall { lseek(descriptor, off_t(start), dfs_SEEK_HOLE) }), size)
    if end <= start { throw Errno.ioError }
    if let last = ranges.last, start - last.upperBound < smallestHole {
      ranges[ranges.count - 1] = last.lowerBound..<end
    } else {
      ranges.append((start < smallestHole ? 0 : start)..<end)
    }
    position = end
  }
  if let last = ranges.last, size - last.upperBound < smallestHole {
    ranges[ranges.count - 1] = last.lowerBound..<size
  }
  return ranges
}
