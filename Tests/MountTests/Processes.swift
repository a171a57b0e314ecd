import Glibc

/// The processes that a process has started and not waited for, by whichever of its threads.
func children(of process: pid_t) -> [pid_t] {
  names("/proc/\(process)/task").flatMap { thread in
    (text("/proc/\(process)/task/\(thread)/children") ?? "").split(separator: " ").compactMap { pid_t($0) }
  }
}
