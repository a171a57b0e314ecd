import Glibc

/// How many inputs a test tries: what `DISPLAYFS_FUZZ_ROUNDS` says, as `Mount/fuzz` does, or else a few thousand.
public func fuzzRounds(_ usual: Int = 3000) -> Int {
  getenv("DISPLAYFS_FUZZ_ROUNDS").flatMap { Int(String(cString: $0)) } ?? usual
}

/// What an input did that it must not do.
public struct FuzzFailure: Error, CustomStringConvertible {
  public let description: String
}

/// Throws when `condition` does not hold, which the sentence says.
public func demand(_ condition: Bool, _ otherwise: @autoclosure () -> String) throws(FuzzFailure) {
  if !condition { throw FuzzFailure(description: otherwise()) }
}

/// Tries `rounds` inputs, seeds 0, 1, 2 and so on, and says how long they took.
///
/// Each may take a second of the thread's time, ten where the code is not optimized, and all together may make the
/// process larger by 512 MiB, where nothing else runs in it.
///
/// - Parameters:
///   - name: of the parser, for messages.
///   - attempt: makes one input of the generator and tries it. It says whether there was anything to be had from the
///     input, and throws where the outcome is wrong.
/// - Throws: `FuzzFailure`, which names the seed; also when no input at all was understood, as nothing was tried then.
public func fuzz(
  _ name: String, rounds: Int = fuzzRounds(), _ attempt: (inout SeededGenerator) throws -> Bool
) throws {
  let before = peakMemory(fresh: true)
  let began = threadTime()
  var last = began
  var understood = 0
  var slowest = (seed: 0, seconds: 0.0)
  for seed in 0..<rounds {
    if seed > 0, seed % 100_000 == 0 { print("\(name): \(seed) inputs") }
    var generator = SeededGenerator(seed: UInt64(seed))
    do {
      if try attempt(&generator) { understood += 1 }
    } catch {
      throw FuzzFailure(description: "\(name), seed \(seed): \(error)")
    }
    let now = threadTime()
    if now - last > slowest.seconds { slowest = (seed, now - last) }
    last = now
  }
  let memory = (peakMemory() - before) >> 10
  print(
    "\(name): \(rounds) inputs, \(understood) understood; "
      + "\(thousandths(last - began)) s, the slowest \(thousandths(slowest.seconds)) s (seed \(slowest.seed)); \(memory) MiB more memory"
  )
  guard understood > 0 else { throw FuzzFailure(description: "\(name): no input was understood") }
  guard slowest.seconds < longest else {
    throw FuzzFailure(description: "\(name), seed \(slowest.seed): took \(thousandths(slowest.seconds)) s")
  }
  // Other tests of the same process count, unless this one is alone.
  guard getenv("DISPLAYFS_FUZZ_ROUNDS") == nil || memory < 512 else {
    throw FuzzFailure(description: "\(name): took \(memory) MiB of memory")
  }
}

#if DEBUG
  private let longest = 10.0
#else
  private let longest = 1.0
#endif

/// Seconds that this thread has run: others that want the processor make no difference.
private func threadTime() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

private func thousandths(_ seconds: Double) -> Double { (seconds * 1000).rounded() / 1000 }

/// The most memory that the process has had, in KiB; with `fresh` from now on (proc_pid_clear_refs(5)).
public func peakMemory(fresh: Bool = false) -> Int {
  if fresh, let file = fopen("/proc/self/clear_refs", "w") {
    fputs("5", file)
    fclose(file)
  }
  guard let file = fopen("/proc/self/status", "r") else { return 0 }
  defer { fclose(file) }
  var bytes = [UInt8](repeating: 0, count: 4096)
  let count = fread(&bytes, 1, bytes.count, file)
  let words = String(decoding: bytes[..<count], as: UTF8.self).split(whereSeparator: \.isWhitespace)
  guard let label = words.firstIndex(of: "VmHWM:"), label + 1 < words.count else { return 0 }
  return Int(words[label + 1]) ?? 0
}
