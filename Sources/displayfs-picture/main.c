// Decodes a picture for `displayfs thumbnail`: displayfs-picture SIZE. Standard input is a PNG, JPEG, TIFF or JPEG 2000, standard
// output its pixels: width and height, 32 bits each in the machine's byte order, then red, green, blue and alpha of each pixel,
// from the top.
//
// The picture is data of a volume and may be hostile, and decoders have faults. So the decoder runs here, and is confined
// before it sees the picture: a filter of system calls leaves it to read, write, have memory and end, and limits bound its
// memory and time. Nothing but pixels comes back. A decoder that a picture has taken over can draw another picture, and nothing
// else.
//
// gdk-pixbuf decodes, as in the desktops, and OpenJPEG what that cannot. They are loaded at run time, so that displayfs is built
// and installed without them on servers.
#define _GNU_SOURCE
#include "../displayfs-passthrough/confinement.h"
#include "jpeg2000.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <iconv.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LARGEST_SIZE = 1024, LARGEST_INPUT = 16 << 20, SECONDS = 10 };
// Of address space, beyond what the libraries take: the picture, its pixels before scaling, and those after.
enum { MEMORY = 512 << 20 };

// The status with which this program ends. PackagePictures/Decoding/PictureDecoder.swift knows them.
enum { NOT_DECODED = 1, NO_LIBRARY = 2, NOT_CONFINED = 3 };

// What is used of gdk-pixbuf 2 and GObject 2. Their types are opaque here; a gboolean is an int, a gsize a size_t.
static struct {
  void *(*new_with_type)(const char *type, void **error);
  int (*write)(void *loader, const unsigned char *bytes, size_t count, void **error);
  int (*close)(void *loader, void **error);
  void *(*get_pixbuf)(void *loader);
  void (*set_size)(void *loader, int width, int height);
  void *(*apply_embedded_orientation)(void *pixbuf);
  void *(*new_from_data)(const unsigned char *, int colors, int alpha, int bits, int width, int height, int stride, void *, void *);
  void *(*scale_simple)(const void *pixbuf, int width, int height, int interpolation);
  int (*get_width)(const void *pixbuf);
  int (*get_height)(const void *pixbuf);
  int (*get_rowstride)(const void *pixbuf);
  int (*get_n_channels)(const void *pixbuf);
  const unsigned char *(*read_pixels)(const void *pixbuf);
  unsigned long (*signal_connect_data)(void *, const char *signal, void (*)(void), void *data, void *destroy, int flags);
} gdk;

static bool load_library(void) {
  void *pixbuf = dlopen("libgdk_pixbuf-2.0.so.0", RTLD_NOW), *object = dlopen("libgobject-2.0.so.0", RTLD_NOW);
  if (!pixbuf || !object) return false;
#define FIND(library, member, name) ((*(void **)&gdk.member = dlsym(library, name)) != NULL)
  return FIND(pixbuf, new_with_type, "gdk_pixbuf_loader_new_with_type") && FIND(pixbuf, write, "gdk_pixbuf_loader_write") &&
         FIND(pixbuf, close, "gdk_pixbuf_loader_close") && FIND(pixbuf, get_pixbuf, "gdk_pixbuf_loader_get_pixbuf") &&
         FIND(pixbuf, set_size, "gdk_pixbuf_loader_set_size") &&
         FIND(pixbuf, apply_embedded_orientation, "gdk_pixbuf_apply_embedded_orientation") &&
         FIND(pixbuf, new_from_data, "gdk_pixbuf_new_from_data") && FIND(pixbuf, scale_simple, "gdk_pixbuf_scale_simple") &&
         FIND(pixbuf, get_width, "gdk_pixbuf_get_width") && FIND(pixbuf, get_height, "gdk_pixbuf_get_height") &&
         FIND(pixbuf, get_rowstride, "gdk_pixbuf_get_rowstride") && FIND(pixbuf, get_n_channels, "gdk_pixbuf_get_n_channels") &&
         FIND(pixbuf, read_pixels, "gdk_pixbuf_read_pixels") && FIND(object, signal_connect_data, "g_signal_connect_data");
}

// The formats that gdk-pixbuf decodes, in the order of `format_of`, and the one that it does not.
static const char *const formats[] = {"png", "jpeg", "tiff"};
enum { JPEG2000 = 3 };

// A loader of a format; NULL where gdk-pixbuf has none.
static void *loader_of(int format) { return gdk.new_with_type(formats[format], NULL); }

// Loads all that decoding would open files for: the modules of gdk-pixbuf, and glibc's conversion of the texts in a PNG.
static void load_modules(void) {
  for (int format = 0; format < JPEG2000; format++) {
    void *loader = loader_of(format);
    if (loader) gdk.close(loader, NULL);
  }
  iconv_open("UTF-8", "ISO-8859-1");
}

// Whether a PNG has its last chunk. gdk-pixbuf takes one that is cut off for a picture.
static bool is_whole(const unsigned char *bytes, size_t count) {
  for (size_t at = 8; at + 12 <= count;) {
    if (memcmp(bytes + at + 4, "IEND", 4) == 0) return true;
    at += 12 + ((size_t)bytes[at] << 24 | (size_t)bytes[at + 1] << 16 | (size_t)bytes[at + 2] << 8 | bytes[at + 3]);
  }
  return false;
}

// The format of a picture by its first bytes; -1 for another.
static int format_of(const unsigned char *bytes, size_t count) {
  if (count < 12) return -1;
  if (is_jp2(bytes) || is_codestream(bytes)) return JPEG2000;
  if (memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0) return is_whole(bytes, count) ? 0 : -1;
  if (memcmp(bytes, "\xff\xd8\xff", 3) == 0) return 1;
  return memcmp(bytes, "II*\0", 4) == 0 || memcmp(bytes, "MM\0*", 4) == 0 ? 2 : -1;
}

#ifdef ARCHITECTURE

// The address space that this process has, in bytes.
static rlim_t address_space(void) {
  char text[32] = "";
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
    close(file);
  }
  return strtoul(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE);
}
#endif

// Leaves this process nothing but its standard input and output, memory, and the end. Returns whether it is so.
static bool confine(void) {
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, STDERR_FILENO) < 0 || syscall(SYS_close_range, 3u, ~0u, 0u)) return false;
  set_limit(RLIMIT_CORE, 0);
  // Of files: pipes have no size.
  set_limit(RLIMIT_FSIZE, 0);
  set_limit(RLIMIT_NOFILE, 0);
  set_limit(RLIMIT_CPU, SECONDS);
  if (geteuid() == 0) {
    gid_t nobody = 65534;
    if (setgroups(0, NULL) || setresgid(nobody, nobody, nobody) || setresuid(nobody, nobody, nobody)) return false;
  }
  if (prctl(PR_SET_DUMPABLE, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return false;
#ifdef ARCHITECTURE
  set_limit(RLIMIT_AS, address_space() + MEMORY);
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
  // No descriptor can be made, so read and write reach the two pipes alone. No other call takes a name or another process.
  struct sock_filter filter[] = {
      CHECK_ARCHITECTURE,
      LOAD(nr),
      ALLOW(SYS_read),
      ALLOW(SYS_write),
      ALLOW(SYS_brk),
      ALLOW(SYS_munmap),
      ALLOW(SYS_mremap),
      ALLOW(SYS_madvise),
      ALLOW(SYS_futex),
      ALLOW(SYS_clock_gettime),
      ALLOW(SYS_getrandom),
      ALLOW(SYS_exit),
      ALLOW(SYS_exit_group),
      // Memory, but no new code in it.
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 1, 0),
      REFUSE,
      LOAD(args[2]),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
      REFUSE,
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
#else
  return true;
#endif
}

// Reads all of standard input into memory of `capacity` bytes. Returns the number of bytes; 0 on an error, or where there are
// more.
static size_t read_all(unsigned char *bytes, size_t capacity) {
  size_t count = 0;
  while (count < capacity) {
    ssize_t read_now = read(STDIN_FILENO, bytes + count, capacity - count);
    if (read_now < 0 && errno == EINTR) continue;
    if (read_now <= 0) return read_now < 0 ? 0 : count;
    count += (size_t)read_now;
  }
  return 0;
}

static void write_all(const void *bytes, size_t count) {
  for (const char *at = bytes; count > 0;) {
    ssize_t written = write(STDOUT_FILENO, at, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) _exit(NOT_DECODED);
    at += written;
    count -= (size_t)written;
  }
}

// Makes a size smaller until no side is longer than `most`. Returns whether it was.
static bool fit(int *width, int *height, int most) {
  int side = *width > *height ? *width : *height;
  if (side <= most || *width < 1 || *height < 1) return false;
  int64_t fitted_width = (int64_t)*width * most / side, fitted_height = (int64_t)*height * most / side;
  *width = fitted_width > 0 ? (int)fitted_width : 1;
  *height = fitted_height > 0 ? (int)fitted_height : 1;
  return true;
}

// Handler of `size-prepared`: scales while decoding, which for a large JPEG takes a fraction of the memory.
static void set_fitted_size(void *loader, int width, int height, void *size) {
  if (fit(&width, &height, *(int *)size)) gdk.set_size(loader, width, height);
}

// The picture as gdk-pixbuf decodes it, of `size` pixels a side at most; NULL where it cannot.
static void *load(int format, const unsigned char *bytes, size_t count, int *size) {
  void *loader = loader_of(format);
  if (!loader) return NULL;
  gdk.signal_connect_data(loader, "size-prepared", (void (*)(void))set_fitted_size, size, NULL, 0);
  if (!gdk.write(loader, bytes, count, NULL) || !gdk.close(loader, NULL)) return NULL;
  void *pixbuf = gdk.get_pixbuf(loader);
  return pixbuf ? gdk.apply_embedded_orientation(pixbuf) : NULL;
}

// The same of a JPEG 2000.
static void *load_jpeg2000(const unsigned char *bytes, size_t count, int size) {
  int width = 0, height = 0;
  unsigned char *pixels = decode_jpeg2000(bytes, count, &width, &height);
  // GDK_COLORSPACE_RGB, with alpha.
  void *pixbuf = pixels ? gdk.new_from_data(pixels, 0, 1, 8, width, height, 4 * width, NULL, NULL) : NULL;
  // GDK_INTERP_BILINEAR, which is the mean of what a pixel covers where the picture becomes smaller.
  return pixbuf && fit(&width, &height, size) ? gdk.scale_simple(pixbuf, width, height, 2) : pixbuf;
}

static void write_pixels(const void *pixbuf) {
  int width = gdk.get_width(pixbuf), height = gdk.get_height(pixbuf), channels = gdk.get_n_channels(pixbuf);
  int stride = gdk.get_rowstride(pixbuf);
  const unsigned char *pixels = gdk.read_pixels(pixbuf);
  static unsigned char row[4 * LARGEST_SIZE];
  if (!pixels || width < 1 || height < 1 || width > LARGEST_SIZE || height > LARGEST_SIZE || channels < 3 || channels > 4)
    _exit(NOT_DECODED);
  write_all((uint32_t[]){(uint32_t)width, (uint32_t)height}, 8);
  for (int y = 0; y < height; y++) {
    const unsigned char *from = pixels + (size_t)y * (size_t)stride;
    for (int x = 0; x < width; x++, from += channels) {
      memcpy(row + 4 * x, from, 3);
      row[4 * x + 3] = channels == 4 ? from[3] : 255;
    }
    write_all(row, 4 * (size_t)width);
  }
}

int main(int argc, char **argv) {
  // Nothing below can undo it once the process is confined.
  alarm(SECONDS);
  int size = argc == 2 ? atoi(argv[1]) : 0;
  if (size < 1 || size > LARGEST_SIZE) _exit(NOT_DECODED);
  unsigned char *bytes = malloc(LARGEST_INPUT + 1);
  // gdk-pixbuf leaves what is missing of a damaged picture as malloc(3) returned it: let that be zeros.
  mallopt(M_PERTURB, 0xff);
  if (!bytes || !load_library()) _exit(NO_LIBRARY);
  load_modules();
  load_openjpeg();
  if (!confine()) _exit(NOT_CONFINED);
  size_t count = read_all(bytes, LARGEST_INPUT + 1);
  int format = format_of(bytes, count);
  if (format < 0) _exit(NOT_DECODED);
  void *pixbuf = format == JPEG2000 ? load_jpeg2000(bytes, count, size) : load(format, bytes, count, &size);
  if (!pixbuf) _exit(NOT_DECODED);
  write_pixels(pixbuf);
  _exit(0);
}
