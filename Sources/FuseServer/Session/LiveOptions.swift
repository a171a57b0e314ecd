import DisplayNames
import Glibc
import SystemPackage
import View

/// The source of new options for a mounted view.
public struct LiveOptions: Sendable {
  /// The prefix of the extended attribute of the mount's root that sets an option; `name=value` follows it. It is set by
  /// getxattr(2), which also works on a read-only mount and can return an error message.
  public static let attribute = "user.displayfs.set:"
  /// The longest setting, in bytes: the kernel refuses names of attributes of more than 255 bytes. (XATTR_NAME_MAX)
  public static let longestSetting = 255 - attribute.utf8.count

  /// Why new options cannot be used. The description is a sentence.
  public struct Problem: Error, CustomStringConvertible {
    public let description: String
    public init(_ description: String) { self.description = description }
  }

  private let read: @Sendable (_ setting: String?) throws(Problem) -> ViewOptions

  /// - Parameter read: returns the current options. A `setting` (`name=value`) is added to them for good.
  public init(_ read: @escaping @Sendable (_ setting: String?) throws(Problem) -> ViewOptions) {
    self.read = read
  }

  /// The setting in the name of an extended attribute; nil for another attribute.
  static func setting(_ name: UnsafePointer<CChar>) -> String? {
    strncmp(name, attribute, attribute.utf8.count) == 0 ? String(cString: name + attribute.utf8.count) : nil
  }

  /// - Returns: an error message; nil on success.
  func apply(_ setting: String?, to view: View) -> String? {
    do throws(Problem) {
      let options = try read(setting)
      do throws(Errno) { try view.replaceOptions(options) } catch {
        return "a view cannot become a mirror, nor a mirror a view, while it is mounted"
      }
      return nil
    } catch {
      return error.description
    }
  }
}
