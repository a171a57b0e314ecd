/// A pattern that selects entries of a tree, in the syntax of `.gitignore`.
///
/// Without a slash it matches names anywhere: `*.bak`. With a slash it is a path relative to SOURCE: `/Work/*/build`, where `**`
/// matches any number of directories: `Work/**/build`. With a slash at the end it matches only directories.
public struct PathPattern: Sendable, Hashable, CustomStringConvertible {
  private enum Part: Sendable, Hashable {
    case anyDirectories
    case name(Glob)
  }

  private let parts: [Part]
  /// Whether the pattern matches only directories, which includes packages.
  public let directoriesOnly: Bool
  public let description: String

  /// - Throws: the fault of the pattern, as a sentence.
  public init(_ text: String) throws(OptionError) {
    description = text
    // By scalars: a name may begin with a combining mark, which makes another character of itself and the slash.
    var body = Substring(text).unicodeScalars
    directoriesOnly = body.last == "/"
    if directoriesOnly { body.removeLast() }
    let isAnchored = body.contains("/")
    if body.first == "/" { body.removeFirst() }
    var parts: [Part] = isAnchored ? [] : [.anyDirectories]
    for component in Substring(body).parts(at: "/", omittingEmptySubsequences: false) {
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

  /// Whether the pattern matches the directory at `path`, a list of names relative to SOURCE.
  public func matches(_ path: [Name]) -> Bool { Self.matches(parts[...], path[...]) }

  /// The pattern for names in the directory at `path`; nil when no entry of that directory can match.
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
