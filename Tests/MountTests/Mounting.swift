import Dispatch
import Glibc
import Testing

/// For suites that mount. Without /dev/fuse they are skipped, but where the environment says that mounts must work they run
/// and fail.
struct Mounting: SuiteTrait, TestTrait, TestScoping {
  private static let condition = ConditionTrait.enabled(
    if: access("/dev/fuse", F_OK) == 0 || getenv("CI") != nil || getenv("DISPLAYFS_REQUIRE_FUSE") != nil,
    "There is no /dev/fuse here: nothing can be mounted, and the tests through a mount are skipped.")

  /// More than any test needs, also the campaigns and with a sanitizer.
  private static let minutes = 20

  var isRecursive: Bool { true }

  func prepare(for test: Test) async throws { try await Self.condition.prepare(for: test) }

  /// A client waits for ever when the daemon of a view does not reply, and no signal ends that: a hanging test is ended from
  /// outside.
  func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    let ending = DispatchWorkItem { Self.abortAllViews("\(test.name) has not ended for \(Self.minutes) minutes") }
    DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(Self.minutes * 60), execute: ending)
    defer { ending.cancel() }
    try await function()
  }

  /// Prints where each thread of displayfs waits, and aborts the views of the tests so that their clients get an error.
  private static func abortAllViews(_ reason: String) {
    let report = Shell.run(
      """
      for process in $(pgrep -f displayfs); do
        echo; tr '\\0' ' ' <"/proc/$process/cmdline"; echo
        for thread in "/proc/$process/task/"*; do
          echo "${thread##*/} $(cat "$thread/comm") waits in $(cat "$thread/wchan")"
          sed 's/^/    /' "$thread/stack"
        done
      done
      cut -d' ' -f5 /proc/self/mountinfo | grep -F /displayfs-test- | while read -r path; do
        echo "given up: $path"
        umount -f "$path"
      done
      """)
    let text = Array("displayfs: \(reason)\n\(report.text)\n\(report.errorText)\n".utf8)
    _ = write(STDERR_FILENO, text, text.count)
  }
}

extension Trait where Self == Mounting {
  static var mounting: Self { Self() }
}
