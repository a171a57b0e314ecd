// What displayfs-passthrough and displayfs-picture share of the way in which they confine themselves. Each is compiled alone.
#pragma once
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/resource.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

// The architecture for a filter of system calls. Not defined in builds with a sanitizer, which makes calls of its own: these have
// no filter.
#ifndef SANITIZED
#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "name this architecture for the filter of system calls (linux/audit.h)"
#endif
#endif

// Parts of a filter: a field of `struct seccomp_data`, and a value of it that is allowed.
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
// How every filter begins: the numbers of system calls are those of one architecture.
#define CHECK_ARCHITECTURE                                                                                                         \
  LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static void set_limit(int resource, rlim_t most) { setrlimit(resource, &(struct rlimit){most, most}); }
