/// An option in text form, `name=value`, with its permitted values and the property that it sets.
public struct TextOption<Options>: Sendable {
  public let name: String
  /// The permitted values; empty where they cannot be listed.
  public let values: [String]
  /// Whether the option takes several of its values, separated by colons.
  public let isList: Bool
  /// Sets the option from a value's text. - Throws: the fault of the value, as a sentence.
  public let set: @Sendable (_ options: inout Options, _ value: String) throws(OptionError) -> Void

  public init(
    _ name: String, values: [String] = [], isList: Bool = false,
    set: @escaping @Sendable (inout Options, String) throws(OptionError) -> Void
  ) {
    self.name = name
    self.values = values
    self.isList = isList
    self.set = set
  }

  /// An option with one of several words as its value.
  public static func choice<Value>(
    _ name: String, _ property: WritableKeyPath<Options, Value> & Sendable
  ) -> TextOption where Value: RawRepresentable<String> & CaseIterable & SendableMetatype {
    let values = Value.allCases.map(\.rawValue)
    return TextOption(name, values: values) { (options, value) throws(OptionError) in
      guard let chosen = Value(rawValue: value) else { throw .notAmong(values, name, value) }
      options[keyPath: property] = chosen
    }
  }

  public static func toggle(_ name: String, _ property: WritableKeyPath<Options, Bool> & Sendable)
    -> TextOption
  {
    TextOption(name, values: ["on", "off"]) { (options, value) throws(OptionError) in
      guard value == "on" || value == "off" else { throw .notAmong(["on", "off"], name, value) }
      options[keyPath: property] = value == "on"
    }
  }

  /// - Parameter most: the largest permitted number of seconds, and a description of that limit.
  public static func seconds(
    _ name: String, _ property: WritableKeyPath<Options, UInt64> & Sendable,
    most: (UInt64, is: String) = (.max, "")
  ) -> TextOption {
    TextOption(name) { (options, value) throws(OptionError) in
      guard let seconds = UInt64(value), seconds <= most.0 else {
        let limit = most.0 == .max ? "" : ", of which \(most.is) has \(most.0)"
        throw OptionError("\(name)=\(value): not a number of seconds\(limit)")
      }
      options[keyPath: property] = seconds
    }
  }

  /// The same option for a value that contains these options.
  public func lifted<Whole>(to part: WritableKeyPath<Whole, Options> & Sendable) -> TextOption<Whole> {
    TextOption<Whole>(name, values: values, isList: isList) { [set] (whole, value) throws(OptionError) in
      try set(&whole[keyPath: part], value)
    }
  }
}

extension TextOption {
  /// The completions of what is typed of the option, `name=value` or the beginning of it: each value, or the name where the
  /// values cannot be listed. Of a list, the last value is completed, by one that the list does not contain yet.
  public func completions(of typed: some StringProtocol) -> [String] {
    guard !values.isEmpty else { return ["\(name)="].filter { $0.begins(with: typed) } }
    let start = "\(name)="
    var listed = ""
    if isList, typed.begins(with: start), let colon = typed.unicodeScalars.lastIndex(of: ":") {
      listed = String(String.UnicodeScalarView(typed.unicodeScalars[...colon].dropFirst(start.utf8.count)))
    }
    let chosen = Set(listed.parts(at: ":"))
    return values.filter { !chosen.contains($0) }.map { start + listed + $0 }.filter {
      $0.begins(with: typed)
    }
  }
}

/// An invalid option value. The description says which values are valid.
public struct OptionError: Error, Sendable, Equatable, CustomStringConvertible {
  public let description: String

  public init(_ description: String) { self.description = description }

  static func notAmong(_ allowed: [String], _ name: String, _ value: String) -> OptionError {
    let words = allowed.joined(separator: ", ")
    return OptionError("\(name)=\(value): not a value of this option; use one of: \(words)")
  }
}
