import Glibc

/// The processes that any thread of a process has started and not waited for.
func children(of process: pid_t) -> [pid_t] {
  names("/proc/\(process)/task").flatMap { thread in
    (text("/proc/\(process)/task/\(thread)/children") ?? "").split(separator: " ").compactMap { pid_t($0) }
  }
}

/// The number of a daemon's threads that have sent a request to another FUSE file system and wait for the reply.
func threadsWaiting(in daemon: pid_t) -> Int {
  let tasks = "/proc/\(daemon)/task"
  return names(tasks).count { (text("\(tasks)/\($0)/wchan") ?? "").contains("request_wait_answer") }
}
