/// Which entries of a tree a rule is about, written as in a `.gitignore`.
///
/// Without a slash it is a pattern for names anywhere: `*.bak`. With one it is a path from SOURCE on: `/Work/*/build`,
/// where `**` is any number of directories: `Work/**/build`. A slash at the end leaves everything but directories out.
public struct PathPattern: Sendable, Hashable, CustomStringConvertible {
  private enum Part: Sendable, Hashable {
    case anyDirectories
    case name(Glob)
  }

  private let parts: [Part]
  /// Whether it is about directories only, packages included.
  public let directoriesOnly: Bool
  public let description: String

  /// - Throws: what is wrong with the pattern, as a sentence.
  public init(_ text: String) throws(OptionError) {
    description = text
    var body = text[...]
    directoriesOnly = body.hasSuffix("/")
    if directoriesOnly { body = body.dropLast() }
    let isAnchored = body.contains("/")
    if body.hasPrefix("/") { body = body.dropFirst() }
    var parts: [Part] = isAnchored ? [] : [.anyDirectories]
    for component in body.split(separator: "/", omittingEmptySubsequences: false) {
      if component.isEmpty || component == "." || component == ".." {
        throw OptionError(
          "the pattern \"\(text)\" names no entry: \"\(component)\" is not a name; paths begin at SOURCE")
      }
      if component == "**" {
        if parts.last != .anyDirectories { parts.append(.anyDirectories) }
      } else {
        do throws(OptionError) { parts.append(.name(try Glob(component))) } catch {
          throw OptionError("the pattern \"\(text)\" cannot be used: \(error)")
        }
      }
    }
    self.parts = parts
  }

  /// Whether the pattern is about the directory at `path`, names from SOURCE on.
  public func matches(_ path: [Name]) -> Bool { Self.matches(parts[...], path[...]) }

  /// What the names in the directory at `path` must match; nil when nothing in it is meant.
  func names(in path: [Name]) -> Glob? {
    switch parts.last {
    case .name(let glob): Self.matches(parts.dropLast(), path[...]) ? glob : nil
    case .anyDirectories: Self.matches(parts[...], path[...]) ? .any : nil
    case nil: nil
    }
  }

  private static func matches(_ parts: ArraySlice<Part>, _ path: ArraySlice<Name>) -> Bool {
    var parts = parts
    var path = path
    var retry: (parts: ArraySlice<Part>, path: ArraySlice<Name>)?
    while !parts.isEmpty || !path.isEmpty {
      switch parts.first {
      case .anyDirectories:
        parts = parts.dropFirst()
        retry = (parts, path)
        continue
      case .name(let glob):
        if let name = path.first, glob.matches(name.bytes.span) {
          parts = parts.dropFirst()
          path = path.dropFirst()
          continue
        }
      case nil: break
      }
      guard let again = retry, !again.path.isEmpty else { return false }
      retry = (again.parts, again.path.dropFirst())
      parts = again.parts
      path = again.path.dropFirst()
    }
    return true
  }
}
