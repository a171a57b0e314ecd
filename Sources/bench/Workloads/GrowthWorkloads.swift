import Glibc

extension Workload {
  /// What operations cost in directories of different sizes that have been listed: nothing may get slower by more than it
  /// does in the backing directory. They run when `--only growth` asks for them, on displayfs alone.
  ///
  /// ext4 looks long for a free inode where many were freed in the last minutes: what creating costs is better seen on a tmpfs.
  static var growth: [Workload] {
    [10_000, 100_000, 1_000_000].flatMap { count -> [Workload] in
      let preparation = Preparation.listing(count)
      @Sendable func path(_ mounted: Mounted, _ name: String) -> String {
        "\(mounted.root)/\(preparation.name)/\(name)"
      }
      // Spread over the whole directory.
      let known = (0..<operations).map { Preparation.name($0 * (count / operations)) }
      let new = (0..<operations).map { "new-\($0).jpg" }
      func growth(
        _ name: String, before: @escaping @Sendable (String) -> Void = { _ in },
        after: @escaping @Sendable (String) -> Void = { _ in },
        _ body: @escaping @Sendable (Mounted) throws -> Void
      ) -> Workload {
        Workload(
          name: "\(prefix): \(name), \(count / 1000) 000 entries", unit: .operations, needs: preparation,
          before: before, after: after
        ) { mounted in
          _ = try Listing.names(path(mounted, "."))
          return try mounted.measure(operations) { try body(mounted) }
        }
      }
      let removeNew: @Sendable (String) -> Void = { source in
        for name in new { unlink("\(source)/\(preparation.name)/\(name)") }
      }
      return [
        Workload(
          name: "\(prefix): first listing, \(count / 1000) 000 entries", unit: .operations, needs: preparation
        ) { mounted in try mounted.measure(count) { _ = try Listing.names(path(mounted, ".")) } },
        growth("look up") { mounted in for name in known { try Files.status(path(mounted, name)) } },
        growth("create", after: removeNew) { mounted in
          for name in new { try Files.create(path(mounted, name), []) }
        },
        growth(
          "unlink",
          before: { source in
            for name in new { try? Files.create("\(source)/\(preparation.name)/\(name)", []) }
          }
        ) { mounted in for name in new { try Files.mustSucceed(unlink(path(mounted, name)), name) } },
        growth(
          "rename",
          after: { source in
            let directory = "\(source)/\(preparation.name)"
            for name in known { rename("\(directory)/renamed-\(name)", "\(directory)/\(name)") }
          }
        ) { mounted in
          for name in known {
            try Files.mustSucceed(rename(path(mounted, name), path(mounted, "renamed-\(name)")), name)
          }
        },
      ]
    }
  }

  private static let prefix = "growth"
  private static let operations = 2000
  var isGrowth: Bool { name.hasPrefix(Self.prefix) }
}
