import DisplayNames
import SystemPackage

/// An invocation by mount(8), as its helper: `mount.displayfs SOURCE MOUNTPOINT [-sfnv] [-N namespace] [-t type] [-o options]`.
///
/// The letters have other meanings than those of `displayfs mount`: `-f` is a dry run, `-s` ignores unknown options.
struct HelperInvocation {
  private var positional: [String] = []
  private var lists: [String] = []
  private var isRehearsal = false
  private var isSloppy = false

  /// Whether a program name is one that mount(8) looks for.
  static func isHelperName(_ path: String) -> Bool {
    let name = path.parts(at: "/").last ?? ""
    return name == "mount.displayfs" || name == "mount.fuse.displayfs"
  }

  init(_ arguments: [String]) throws(Failure) {
    var index = 0
    func value(of letter: Unicode.Scalar) throws(Failure) -> String {
      index += 1
      guard index < arguments.count else { throw Failure(.usage, "-\(letter) needs a value") }
      return arguments[index]
    }
    while index < arguments.count {
      let argument = arguments[index]
      if argument.utf8.count > 1, argument.begins(with: "-") {
        for letter in argument.unicodeScalars.dropFirst() {
          switch letter {
          case "f": isRehearsal = true
          case "s": isSloppy = true
          case "n", "v", "w": break
          case "r": lists.append("ro")
          case "o": lists.append(try value(of: letter))
          case "t", "N": _ = try value(of: letter)
          default: throw Failure(.usage, "-\(letter): not an option that mount(8) gives to its helpers")
          }
        }
      } else {
        positional.append(argument)
      }
      index += 1
    }
    guard positional.count == 2, !positional.contains("") else {
      throw Failure(.usage, "usage: mount.displayfs SOURCE MOUNTPOINT [-sfnv] [-o OPTION,...]")
    }
  }

  func run() throws(Failure) {
    let options = try MountOptions.completed(lists, sloppy: isSloppy)
    let mountPoint = FilePath(bytes: Arguments.bytes(positional[1]))
    if options.isRemount {
      if !isRehearsal { try Remount.perform(mountPoint, options) }
      return
    }
    let mounter = try Mounter(
      source: FilePath(bytes: Arguments.bytes(positional[0])), mountPoint: mountPoint, options: options)
    if !isRehearsal { try mounter.mount(foreground: false, debug: false) }
  }
}
