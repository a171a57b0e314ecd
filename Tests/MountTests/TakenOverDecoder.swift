/// A decoder that a picture has taken over: a library that has libpng's function do what an attacker would, and print what came
/// of it.
enum TakenOverDecoder {
  /// In C. Built with `-DCONTROL` it is a program that does the same without being confined.
  static let source = """
    #define _GNU_SOURCE
    #include <errno.h>
    #include <fcntl.h>
    #include <linux/openat2.h>
    #include <signal.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/resource.h>
    #include <sys/socket.h>
    #include <sys/stat.h>
    #include <sys/syscall.h>
    #include <sys/uio.h>
    #include <unistd.h>

    static void report(const char *what, long result) {
      char line[128];
      int error = errno;
      const char *outcome = result >= 0 ? "done" : error == EPERM ? "refused" : strerror(error);
      int count = snprintf(line, sizeof line, "%s %s\\n", what, outcome);
      syscall(SYS_write, 1, line, count);
    }

    static void attack(void) {
      struct open_how how = {.flags = O_RDONLY};
      struct rlimit limit = {64, 64};
      struct stat status;
      int ends[2];
      char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      struct iovec target = {&status, 16};
      report("open", syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY));
      report("open2", syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", &how, sizeof how));
      report("create", syscall(SYS_openat, AT_FDCWD, "/tmp", O_TMPFILE | O_RDWR, 0600));
      report("stat", syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", &status, 0));
      report("access", syscall(SYS_faccessat, AT_FDCWD, "/etc/passwd", R_OK));
      report("socket", syscall(SYS_socket, AF_INET, SOCK_STREAM, 0));
      report("unix", syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
      report("pipe", syscall(SYS_pipe2, ends, 0));
      report("dup", syscall(SYS_dup, 0));
      report("memfd", syscall(SYS_memfd_create, "x", 0));
      report("code", (long)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == -1 ? -1 : 0);
      report("protect", mprotect(memory, 4096, PROT_READ | PROT_EXEC));
      report("limit", syscall(SYS_prlimit64, 0, RLIMIT_NPROC, &limit, NULL));
      report("time", syscall(SYS_setitimer, 0, (long[4]){0}, NULL));
      report("handler", syscall(SYS_rt_sigprocmask, SIG_BLOCK, &(long){0}, NULL, 8));
      report("signal", syscall(SYS_kill, getppid(), 0));
      report("memory", syscall(SYS_process_vm_readv, getpid(), &target, 1, &target, 1, 0));
      report("process", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0 ? (_exit(0), 0) : errno ? -1 : 0);
      report("program", syscall(SYS_execve, "/bin/true", (char *[]){"true", NULL}, (char *[]){NULL}));
      _exit(0);
    }

    #ifdef CONTROL
    int main(void) { attack(); }
    #else
    void png_process_data(void *png, void *info, unsigned char *bytes, size_t count) { attack(); }
    #endif
    """

  /// What it tries, in order.
  static let attempts = [
    "open", "open2", "create", "stat", "access", "socket", "unix", "pipe", "dup", "memfd", "code", "protect",
    "limit", "time",
    "handler", "signal", "memory", "process", "program",
  ]
}
