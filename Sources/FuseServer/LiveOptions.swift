import DisplayNames
import Glibc
import SystemPackage
import View

/// Where the options of a live view come from when they are to be others.
public struct LiveOptions: Sendable {
  /// What is asked of the mount's root to set an option: this followed by `name=value`. (`getxattr`, which works on a
  /// mount that is read-only too, and can answer with what is wrong)
  public static let attribute = "user.displayfs.set:"

  /// Why options cannot be had. Its description is a sentence.
  public struct Problem: Error, CustomStringConvertible {
    public let description: String
    public init(_ description: String) { self.description = description }
  }

  private let read: @Sendable (_ setting: String?) throws(Problem) -> ViewOptions

  /// - Parameter read: gives the options as they are to be now, with `setting` (`name=value`) added for good.
  public init(_ read: @escaping @Sendable (_ setting: String?) throws(Problem) -> ViewOptions) {
    self.read = read
  }

  /// The setting that an attribute's name asks for.
  static func setting(_ name: UnsafePointer<CChar>) -> String? {
    strncmp(name, attribute, attribute.utf8.count) == 0 ? String(cString: name + attribute.utf8.count) : nil
  }

  /// - Returns: what is wrong; nil when it is done.
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
