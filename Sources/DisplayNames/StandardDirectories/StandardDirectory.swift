/// What the standard directories of a Mac and of an iOS application are for, and whether a backup takes them.
/// ("File System Programming Guide", File System Basics, tables 1-1, 1-2 and 1-3; the sentences are our own.)
package enum StandardDirectory {
  /// The purpose of the directory at `path`, names relative to SOURCE, in an English sentence; nil where it is no standard one.
  package static func purpose(ofPath path: [Name], _ options: ViewOptions) -> String? {
    found(path[...], options) { domain, place in purposes[domain]?[place] }
  }

  /// Whether what lies at `path`, names relative to SOURCE, is left out of backups because of its place: iOS backs up neither the
  /// caches nor the temporary files of an application, and Time Machine no caches.
  package static func isLeftOutOfBackups(_ path: [Name], _ options: ViewOptions) -> Bool {
    path.indices.contains { isLeftOutItself(path[...$0], options) }
  }

  /// Whether the last name of `path` leaves it out. For a path of which no directory is left out.
  package static func isLeftOutItself(_ path: ArraySlice<Name>, _ options: ViewOptions) -> Bool {
    found(path, options) { domain, place in leftOut[domain]?.contains(place) ?? false ? true : nil } ?? false
  }

  private enum Domain {
    case volume, home, container
  }

  /// The first result for a domain that the path lies in, from the innermost, and the place in it.
  private static func found<Result>(
    _ path: ArraySlice<Name>, _ options: ViewOptions, _ result: (Domain, String) -> Result?
  ) -> Result? {
    // A path is as deep as a user likes, and each step of it compares a whole path.
    for depth in path.indices.suffix(longestPlace).reversed() {
      let role = options.role(ofPath: Array(path[..<depth]))
      let domains: [(DirectoryRole, Domain)] = [
        (.container, .container), (.home, .home), (.macVolumeRoot, .volume),
      ]
      guard let domain = domains.first(where: { role.contains($0.0) })?.1 else { continue }
      let place = path[depth...].map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: "/")
      if let found = result(domain, place) { return found }
    }
    return nil
  }

  /// The number of names in the longest place below.
  private static let longestPlace =
    (leftOut.values.joined() + purposes.values.flatMap(\.keys))
    .map { $0.utf8.count { $0 == UInt8(ascii: "/") } + 1 }.max() ?? 0

  private static let leftOut: [Domain: Set<String>] = [
    .container: ["Library/Caches", "tmp"], .home: ["Library/Caches", ".Trash"],
    .volume: ["Library/Caches", "System/Library/Caches", "private/tmp", "private/var/tmp", "tmp"],
  ]

  private static let library = [
    "Application Support":
      "It holds what applications create and manage for the user, in a folder for each application.",
    "Caches": "It holds data that applications can make again, and may be emptied at any time.",
    "Frameworks": "It holds frameworks that several applications share.",
    "Preferences": "It holds the settings of applications, which write them with the system's own interface.",
  ]

  private static let purposes: [Domain: [String: String]] = [
    .container: [
      "Documents": "It holds the user's documents, which the user can reach through file sharing.",
      "Documents/Inbox":
        "It holds files that other applications asked this one to open. It may read and delete them, not change them.",
      "Library": "It holds the application's files that are not the user's own documents.",
      "tmp":
        "It holds files that need not outlive the launch of the application, and may be emptied while it does not run.",
    ].merging(library.map { ("Library/\($0.key)", $0.value) }) { first, _ in first },
    .home: [
      "Applications": "It holds applications that only this user can run.",
      "Desktop": "It holds what lies on the user's desktop.",
      "Documents": "It holds the user's documents.",
      "Downloads": "It holds files that were fetched from the internet.",
      "Library":
        "It holds the user's settings and the files that applications manage for the user, and is hidden.",
      "Movies": "It holds the user's films.",
      "Music": "It holds the user's music.",
      "Pictures": "It holds the user's photos and other pictures.",
      "Public": "It holds what the user shares with the other users of this computer.",
      "Public/Drop Box": "It takes files from other users, who cannot see what is in it.",
      "Sites": "It holds the user's web pages.",
    ].merging(library.map { ("Library/\($0.key)", $0.value) }) { first, _ in first },
    .volume: [
      "Applications": "It holds the applications for all users of this computer.",
      "Applications/Utilities": "It holds the applications for the care of this computer.",
      "Library": "It holds files that all users of this computer share and that are no documents.",
      "Network": "It holds the computers of the local network.",
      "System": "It holds the files of the operating system. Only its installer changes them.",
      "Users": "It holds a home directory for each user.",
      "Users/Shared": "It holds files that the users of this computer share.",
      "Volumes": "It holds the mount points of other disks.",
    ].merging(library.map { ("Library/\($0.key)", $0.value) }) { first, _ in first },
  ]
}
