/// The order in which pictures of one thing in several sizes are tried.
enum PictureChoice {
  /// The smallest that need not be made larger, then larger ones, then what is too small, the largest first. Of equal pictures the
  /// earlier comes first.
  ///
  /// - Parameters:
  ///   - sides: pixels of the longer side of each picture.
  ///   - size: the same of the picture that is wanted.
  /// - Returns: indices of `sides`.
  static func order(_ sides: [Int], for size: Int) -> [Int] {
    let large = sides.indices.filter { sides[$0] >= size }.sorted { (sides[$0], $0) < (sides[$1], $1) }
    let small = sides.indices.filter { sides[$0] < size }.sorted { (-sides[$0], $0) < (-sides[$1], $1) }
    return large + small
  }
}
