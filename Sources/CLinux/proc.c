#include "proc.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

ssize_t dfs_read_proc(char *text, size_t size, pid_t thread, const char *name) {
  char path[64];
  if (thread) snprintf(path, sizeof path, "/proc/%d/%s", (int)thread, name);
  else snprintf(path, sizeof path, "/proc/%s", name);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  ssize_t count = read(file, text, size - 1);
  int error = errno;
  close(file);
  text[count > 0 ? count : 0] = 0;
  errno = error;
  return count;
}
