// Decodes JPEG 2000 (ISO/IEC 15444-1), in which icons of 256 and 512 pixels were kept by OS X 10.5 and 10.6. OpenJPEG does it,
// loaded at run time as gdk-pixbuf is, which has no loader of its own for it.
#pragma once
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// An icon has 1024 pixels a side at most. Decoded, a pixel takes 4 bytes for each component, and as much again on the way.
enum { LARGEST_JPEG2000_SIDE = 2048, MOST_COMPONENTS = 4 };

// What is read of OpenJPEG's structures (openjpeg.h of version 2, `opj_image_comp_t`, `opj_image_t`). The library fills
// `opj_dparameters_t` and reads it again, and of that only the size matters: it is less than twice 4096 bytes and 256.
struct opj_component {
  uint32_t dx, dy, width, height, x0, y0, precision, unused, is_signed, resolutions, factor;
  const int32_t *data;
  uint16_t alpha;
};
struct opj_image {
  uint32_t x0, y0, x1, y1, count;
  int color_space;
  struct opj_component *components;
  unsigned char *profile;
  uint32_t profile_length;
};
union opj_parameters {
  long long alignment;
  char bytes[16384];
};
enum { OPJ_CODESTREAM = 0, OPJ_JP2 = 2 };
// Of its color spaces those after sRGB and gray, which have other components than red, green and blue.
enum { OPJ_SYCC = 3 };

static struct {
  void *(*stream_create)(size_t buffer, int is_input);
  void (*set_read)(void *stream, size_t (*)(void *, size_t, void *));
  void (*set_skip)(void *stream, int64_t (*)(int64_t, void *));
  void (*set_seek)(void *stream, int (*)(int64_t, void *));
  void (*set_user_data)(void *stream, void *data, void (*free)(void *));
  void (*set_length)(void *stream, uint64_t length);
  void *(*create)(int format);
  void (*set_defaults)(union opj_parameters *);
  int (*setup)(void *codec, union opj_parameters *);
  int (*read_header)(void *stream, void *codec, struct opj_image **);
  int (*decode)(void *codec, void *stream, struct opj_image *);
  int (*end)(void *codec, void *stream);
} opj;

// Whether the library is there. Without it no JPEG 2000 is decoded, and `displayfs thumbnail` takes another size of the icon.
static bool has_openjpeg;

static void load_openjpeg(void) {
  // With it the library starts threads, which a confined process cannot.
  unsetenv("OPJ_NUM_THREADS");
  void *library = dlopen("libopenjp2.so.7", RTLD_NOW);
  if (!library) return;
#define FIND_OPJ(member, name) ((*(void **)&opj.member = dlsym(library, "opj_" name)) != NULL)
  has_openjpeg = FIND_OPJ(stream_create, "stream_create") && FIND_OPJ(set_read, "stream_set_read_function") &&
                 FIND_OPJ(set_skip, "stream_set_skip_function") && FIND_OPJ(set_seek, "stream_set_seek_function") &&
                 FIND_OPJ(set_user_data, "stream_set_user_data") && FIND_OPJ(set_length, "stream_set_user_data_length") &&
                 FIND_OPJ(create, "create_decompress") && FIND_OPJ(set_defaults, "set_default_decoder_parameters") &&
                 FIND_OPJ(setup, "setup_decoder") && FIND_OPJ(read_header, "read_header") && FIND_OPJ(decode, "decode") &&
                 FIND_OPJ(end, "end_decompress");
}

// Whether these are the first bytes of a JP2 file (signature box), or of a codestream without one (SOC, SIZ).
static bool is_jp2(const unsigned char *bytes) { return memcmp(bytes, "\0\0\0\x0cjP  \r\n\x87\n", 12) == 0; }
static bool is_codestream(const unsigned char *bytes) { return memcmp(bytes, "\xff\x4f\xff\x51", 4) == 0; }

struct source {
  const unsigned char *bytes;
  size_t count, at;
};

static size_t read_source(void *buffer, size_t count, void *data) {
  struct source *source = data;
  size_t rest = source->count - source->at, taken = count < rest ? count : rest;
  if (taken == 0) return (size_t)-1;
  memcpy(buffer, source->bytes + source->at, taken);
  source->at += taken;
  return taken;
}

static int seek_source(int64_t position, void *data) {
  struct source *source = data;
  if (position < 0 || (uint64_t)position > source->count) return 0;
  source->at = (size_t)position;
  return 1;
}

static int64_t skip_source(int64_t count, void *data) {
  struct source *source = data;
  int64_t rest = (int64_t)(source->count - source->at);
  if (count > rest) count = rest;
  return seek_source((int64_t)source->at + count, data) ? count : -1;
}

// The components that are colors, one or three, and the one that is alpha, or -1. Without a channel definition, as in a
// codestream alone, the last of two or four is alpha. Returns the number of colors; 0 where there are others.
static int channels(const struct opj_image *image, int colors[MOST_COMPONENTS], int *alpha) {
  int count = 0;
  *alpha = -1;
  if (image->count > MOST_COMPONENTS) return 0;
  for (int index = 0; index < (int)image->count; index++) {
    if (image->components[index].alpha) *alpha = index;
    else colors[count++] = index;
  }
  if (*alpha < 0 && (count == 2 || count == 4)) *alpha = colors[--count];
  return count == 1 || count == 3 ? count : 0;
}

// Whether every component has a sample for each pixel.
static bool is_complete(const struct opj_image *image) {
  const struct opj_component *first = image->components;
  for (uint32_t index = 0; index < image->count; index++) {
    const struct opj_component *one = image->components + index;
    if (!one->data || one->width != first->width || one->height != first->height) return false;
    if (one->precision < 1 || one->precision > 31) return false;
  }
  return first->width >= 1 && first->width <= LARGEST_JPEG2000_SIDE && first->height >= 1 &&
         first->height <= LARGEST_JPEG2000_SIDE;
}

// A sample in eight bits.
static unsigned char sample(const struct opj_component *component, size_t index) {
  int64_t largest = ((int64_t)1 << component->precision) - 1, value = component->data[index];
  if (component->is_signed) value += (int64_t)1 << (component->precision - 1);
  if (value < 0) value = 0;
  if (value > largest) value = largest;
  return (unsigned char)((value * 255 + largest / 2) / largest);
}

// The pixels of a picture as red, green, blue and alpha, in memory that is the caller's, and its size; NULL where it is
// damaged or larger than an icon can be. What the library takes is left to the end of the process.
static unsigned char *decode_jpeg2000(const unsigned char *bytes, size_t count, int *width, int *height) {
  if (!has_openjpeg) return NULL;
  struct source source = {bytes, count, 0};
  void *stream = opj.stream_create(64 << 10, 1), *codec = opj.create(is_jp2(bytes) ? OPJ_JP2 : OPJ_CODESTREAM);
  static union opj_parameters parameters;
  struct opj_image *image = NULL;
  if (!stream || !codec) return NULL;
  opj.set_read(stream, read_source);
  opj.set_skip(stream, skip_source);
  opj.set_seek(stream, seek_source);
  opj.set_user_data(stream, &source, NULL);
  opj.set_length(stream, count);
  opj.set_defaults(&parameters);
  if (!opj.setup(codec, &parameters) || !opj.read_header(stream, codec, &image) || !image) return NULL;
  // The memory for the samples is taken after this.
  if (image->x1 - image->x0 > LARGEST_JPEG2000_SIDE || image->y1 - image->y0 > LARGEST_JPEG2000_SIDE ||
      image->count > MOST_COMPONENTS)
    return NULL;
  if (!opj.decode(codec, stream, image) || !opj.end(codec, stream)) return NULL;
  int colors[MOST_COMPONENTS], alpha, color_count = channels(image, colors, &alpha);
  if (color_count == 0 || image->color_space >= OPJ_SYCC || !is_complete(image)) return NULL;
  const struct opj_component *components = image->components;
  *width = (int)components->width;
  *height = (int)components->height;
  size_t pixels = (size_t)*width * (size_t)*height;
  unsigned char *out = malloc(4 * pixels);
  for (size_t index = 0; out && index < pixels; index++) {
    for (int plane = 0; plane < 3; plane++)
      out[4 * index + (size_t)plane] = sample(components + colors[color_count == 1 ? 0 : plane], index);
    out[4 * index + 3] = alpha < 0 ? 255 : sample(components + alpha, index);
  }
  return out;
}
