import Testing

@testable import BackingTree

@Suite struct MemoryLimitTests {
  private static let files = [
    "/sys/fs/cgroup/memory.max": "max\n", "/sys/fs/cgroup/system.slice/memory.max": "1000\n",
    "/sys/fs/cgroup/system.slice/a.service/memory.max": "max\n",
    "/sys/fs/cgroup/system.slice/a.service/memory.high": "800\n",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "/sys/fs/cgroup/memory/one/memory.limit_in_bytes": "600\n",
  ]

  @Test(arguments: [
    ("0::/system.slice/a.service\n", [800, 1000] as [UInt64]), ("0::/\n", []),
    ("4:memory:/one\n0::/\n", [600, 9_223_372_036_854_771_712]), ("3:cpu:/one\n", []), ("no group\n", []),
    // The group is outside of what this process sees.
    ("0::/../other\n", []),
  ]) func limits_areThoseOfTheGroupAndAllAbove(groups: String, limits: [UInt64]) {
    #expect(MemoryLimit.limits(of: groups) { Self.files[$0] } == limits)
  }

  /// A user may name a group so that a character begins with the sign before the name, or ends with that after it.
  @Test(arguments: [
    "0::/system.slice/a.service/\u{301}\n", "0::/system.slice/a.service/\u{301}/b\u{600}/c\n",
    "3:cpu\u{600}:/\u{301}\n0::/system.slice/a.service\n", "0::/system.slice/a.service\u{600}/x\r\n",
  ]) func limits_whateverTheNamesOfGroups_areThoseOfAllAbove(groups: String) {
    var files = Self.files
    files["/sys/fs/cgroup/system.slice/a.service\u{600}/memory.high"] = "800\n"
    #expect(MemoryLimit.limits(of: groups) { files[$0] } == [800, 1000])
  }

  @Test func current_isSome() {
    #expect(MemoryLimit.current() > 1 << 20)
  }
}
