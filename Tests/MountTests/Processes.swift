import Glibc

/// The processes that a process has started and not waited for, by whichever of its threads.
func children(of process: pid_t) -> [pid_t] {
  names("/proc/\(process)/task").flatMap { thread in
    (text("/proc/\(process)/task/\(thread)/children") ?? "").split(separator: " ").compactMap { pid_t($0) }
  }
}

/// How many threads of a daemon have asked another file system of FUSE and wait for its answer.
func threadsWaiting(in daemon: pid_t) -> Int {
  let tasks = "/proc/\(daemon)/task"
  return names(tasks).count { (text("\(tasks)/\($0)/wchan") ?? "").contains("request_wait_answer") }
}
