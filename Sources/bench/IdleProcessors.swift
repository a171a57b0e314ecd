/// What processors do when they are idle.
///
/// A request wakes the server and its reply the client, often on another processor. Small operations take most of their time for
/// that wakeup if the processor has been halted by then. With the cpuidle governor haltpoll a virtual machine polls before it
/// halts, for up to `guest_halt_poll_ns`; where that is 0, it halts at once and the host has to start the processor again.
enum IdleProcessors: String {
  /// They are left as they are.
  case unchanged
  case halt
  /// For as long as the kernel has it by default.
  case poll

  private static let parameter = "/sys/module/haltpoll/parameters/guest_halt_poll_ns"
  private static let governor = "/sys/devices/system/cpu/cpuidle/current_governor"

  /// Both where the user may set the parameter and it is in force.
  static var available: [IdleProcessors] { found != nil && Account.isRoot ? [.halt, .poll] : [.unchanged] }

  /// The value of the parameter in nanoseconds; nil where it is not in force.
  private static var found: Int? {
    guard text(governor) == "haltpoll\n", let value = text(parameter) else { return nil }
    return Int(value.dropLast())
  }

  /// A shell script that sets the parameter to what it is now.
  static var restoration: String {
    guard Account.isRoot, let found else { return "" }
    return "echo \(found) >\(parameter)"
  }

  /// - Throws: when the kernel does not take it.
  func set() throws {
    switch self {
    case .unchanged: break
    case .halt: try write("0\n", to: Self.parameter)
    case .poll: try write("200000\n", to: Self.parameter)
    }
  }

  var description: String {
    switch self {
    case .unchanged: "processors as they are" + (Self.found.map { " (guest_halt_poll_ns=\($0))" } ?? "")
    case .halt: "processors that halt at once"
    case .poll: "processors that poll before they halt (guest_halt_poll_ns=200000)"
    }
  }
}
