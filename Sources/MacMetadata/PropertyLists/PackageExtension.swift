/// An extension that makes a directory a package ("Bundle Programming Guide", About Bundles).
public struct PackageExtension: Hashable, Sendable {
  /// Lower case, without the period.
  public var `extension`: String
  /// The uniform type identifier; nil where a document type claims only the extension.
  public var type: String?

  public init(extension: String, type: String?) {
    self.extension = `extension`
    self.type = type
  }

  /// The package extensions declared by bundles, with one type for each extension, independent of the order of the bundles.
  ///
  /// A type is a package when it conforms to `com.apple.package` or to a member of `packageTypes` (the known types that do),
  /// directly or indirectly, or when a document type declares it. An exported declaration of a type or extension takes precedence
  /// over every imported one.
  public static func declared(by bundles: [BundleInfo], packageTypes: Set<String>) -> Set<PackageExtension> {
    let types = valid(bundles)
    let packages = conforming(
      to: packageTypes.union(["com.apple.package"]).union(bundles.flatMap(\.packageContentTypes)), types)

    var result: [String: String?] = [:]
    for name in bundles.flatMap(\.packageExtensions).compactMap(normalized) {
      result.updateValue(nil, forKey: name)
    }
    for (name, claimants) in claimants(of: types) {
      if let first = claimants.filter(packages.contains).min() { result[name] = first }
    }
    return Set(result.map { PackageExtension(extension: $0.key, type: $0.value) })
  }

  /// The type that bundles declare for each extension, in lower case, whether or not it is a package's.
  public static func identifiers(declaredBy bundles: [BundleInfo]) -> [String: String] {
    claimants(of: valid(bundles)).compactMapValues { $0.min() }
  }

  private static func valid(_ bundles: [BundleInfo]) -> [TypeDeclaration] {
    let all = bundles.flatMap(\.types)
    let exported = Set(all.lazy.filter(\.exported).map(\.identifier))
    return all.filter { $0.exported || !exported.contains($0.identifier) }
  }

  /// The identifiers of the types that claim each extension: of those that their owners declare, where there are any.
  private static func claimants(of types: [TypeDeclaration]) -> [String: [String]] {
    var claims: [String: [TypeDeclaration]] = [:]
    for type in types {
      for name in type.extensions.compactMap(normalized) { claims[name, default: []].append(type) }
    }
    return claims.mapValues { claimants in
      let owners = claimants.filter(\.exported)
      return (owners.isEmpty ? claimants : owners).map(\.identifier)
    }
  }

  /// All types that conform to `roots`, directly or indirectly. Each type is visited once, so cyclic conformance terminates.
  private static func conforming(to roots: Set<String>, _ types: [TypeDeclaration]) -> Set<String> {
    var children: [String: [String]] = [:]
    for type in types {
      for parent in type.conformsTo { children[parent, default: []].append(type.identifier) }
    }
    var found = roots
    var pending = Array(roots)
    while let type = pending.popLast() {
      for child in children[type] ?? [] where found.insert(child).inserted { pending.append(child) }
    }
    return found
  }

  private static func normalized(_ name: String) -> String? {
    let usable = !name.isEmpty && name != "*" && !name.utf8.contains { $0 == 0 || $0 == UInt8(ascii: "/") }
    return usable ? name.lowercased() : nil
  }
}
