/* Arbitrary bytes as images: decoded or refused, never a crash, a hang or much memory, and the decoder stays usable.
 *
 * The first byte selects how the rest is used: as a JPEG or PNG (with the magic number prepended or as is), as the image
 * of a valid TFRecord, as the message of a record, or as a CIFAR-10 file; or, because no fuzzer guesses a Huffman
 * table, as damage to an image that is generated here. The second byte selects size, fit and channels.
 */
#include "input.h"

#include "base/crc.h"
#include "format/image.h"
#include <string.h>

#include <jpeglib.h>
#include <png.h>

enum { SIDE = 24, MAX_PIXELS = 1 << 20 }; /* larger images can be decoded, but slow down fuzzing */

static void decode(const uint8_t *p, size_t n, uint8_t how)
{
    static yk_image_decoder *d;
    yk_image_form own, form = {SIDE, 1 + how % SIDE, how & 64 ? 1 : 3, (yk_fit)(how >> 4 & 3)};
    uint8_t *copy = malloc(n ? n : 1), *planes = malloc(form.height * form.width * form.channels);
    if (!planes || !copy || (!d && yk_image_decoder_create(&d)))
        goto done;
    memcpy(copy, p, n); /* allocated exactly, to detect reads beyond it */
    if (yk_image_measure(d, copy, n, &own))
        goto done;
    if (own.fit != YK_FIT_EXACT || !own.height || !own.width || (own.channels != 1 && own.channels != 3))
        abort();
    if (own.height * own.width > MAX_PIXELS)
        goto done;
    yk_status st = yk_image_decode(d, copy, n, &form, planes);
    if (st != YK_OK && st != YK_EDATA && (st != YK_EUSAGE || form.fit != YK_FIT_EXACT))
        abort();
    if (yk_image_offset(d) > n)
        abort();
done:
    free(planes);
    free(copy);
}

/* ---- images to be damaged: 1 to 64 pixels per side, gray or color, one scan or several */

__attribute__((noinline)) static size_t make_jpeg(size_t w, size_t h, uint8_t how, uint8_t **out)
{
    struct jpeg_compress_struct z;
    struct jpeg_error_mgr errors;
    unsigned long n = 0;
    uint8_t row[4 * 64];
    z.err = jpeg_std_error(&errors);
    jpeg_create_compress(&z);
    jpeg_mem_dest(&z, out, &n);
    z.image_width = (JDIMENSION)w;
    z.image_height = (JDIMENSION)h;
    z.input_components = how & 3 ? (how & 3) == 1 ? 1 : 3 : 4;
    z.in_color_space = how & 3 ? (how & 3) == 1 ? JCS_GRAYSCALE : JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&z);
    jpeg_set_quality(&z, 10 + how / 4, TRUE);
    z.restart_interval = how & 8 ? 1 : 0;
    z.arith_code = how & 64 ? TRUE : FALSE;
    if (how & 4)
        jpeg_simple_progression(&z);
    jpeg_start_compress(&z, TRUE);
    for (size_t y = 0; y < h; y++) {
        for (size_t i = 0; i < 4 * w; i++)
            row[i] = (uint8_t)(i * 5 + y * i);
        jpeg_write_scanlines(&z, (JSAMPROW[]){row}, 1);
    }
    jpeg_finish_compress(&z);
    jpeg_destroy_compress(&z);
    return n;
}

__attribute__((noinline)) static size_t make_png(size_t w, size_t h, uint8_t how, uint8_t **out)
{
    static const png_uint_32 formats[] = {PNG_FORMAT_GRAY,           PNG_FORMAT_RGB,
                                          PNG_FORMAT_RGBA,           PNG_FORMAT_LINEAR_RGB,
                                          PNG_FORMAT_LINEAR_Y_ALPHA, PNG_FORMAT_GA};
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)w,
                       .height = (png_uint_32)h,
                       .format = formats[how % 6]};
    uint8_t pixels[64 * 64 * 8];
    for (size_t i = 0; i < w * h * 8; i++)
        pixels[i] = (uint8_t)(i * 7 + i / 50);
    png_alloc_size_t n = 1 << 17;
    *out = malloc(n);
    return *out && png_image_write_to_memory(&image, *out, &n, 0, pixels, 0, NULL) ? n : 0;
}

/* Three bytes of `data` change one byte of the image; a fourth may truncate it. */
static void decode_damaged(bool png, const uint8_t *data, size_t size, uint8_t how)
{
    if (size < 4)
        return;
    uint8_t *picture = NULL;
    size_t w = 1 + data[0] % 64, h = 1 + data[1] % 64;
    size_t n = png ? make_png(w, h, data[2], &picture) : make_jpeg(w, h, data[2], &picture);
    bool cut = data[3] & 1;
    for (data += 4, size -= 4; n && size >= 3; data += 3, size -= 3)
        picture[(data[0] | (size_t)data[1] << 8) % n] ^= data[2];
    if (n && cut)
        n -= n * data[-1] / 256;
    if (n)
        decode(picture, n, how);
    free(picture);
}

/* ---- sources */

static void read_source(const char *spec, uint64_t skip_bad)
{
    yk_source *s = open_source(spec, skip_bad, NULL);
    yk_rows rows;
    if (!s)
        return;
    read_all(s, 3, &rows);
    for (size_t i = 0; i < rows.n; i++)
        if (rows.label[i] < 0 || (s->classes && (uint32_t)rows.label[i] >= s->classes))
            abort();
    yk_rows_fini(&rows);
    yk_source_free(s);
}

static uint8_t *put_field(uint8_t *p, unsigned field, const void *data, size_t n)
{
    *p++ = (uint8_t)(field << 3 | 2);
    size_t v = n;
    for (; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    memmove(p, data, n);
    return p + n;
}

/* Builds a map entry from the inside out; each message is moved when the enclosing one is built. */
static uint8_t *put_feature(uint8_t *to, const char *key, unsigned kind, const uint8_t *data, size_t n,
                            uint8_t *spare)
{
    size_t m = (size_t)(put_field(spare, 1, data, n) - spare);
    uint8_t *second = spare + m;
    n = (size_t)(put_field(second, kind, spare, m) - second);
    uint8_t *third = second + n, *end = put_field(third, 1, key, strlen(key));
    end = put_field(end, 2, second, n);
    return put_field(to, 1, third, (size_t)(end - third));
}

/* As the message of a record, or as the image in one. */
static size_t make_record(bool message, const uint8_t *data, size_t n, uint8_t *out, uint8_t *spare)
{
    uint8_t *body = out + 12;
    uint64_t length = n;
    if (message) {
        memcpy(body, data, n);
    } else {
        uint8_t *features = spare,
                *p = put_feature(features, "image/encoded", 1, data, n, spare + 2 * n + 200);
        p = put_feature(p, "image/class/label", 3, (const uint8_t *)"\001", 1, spare + 2 * n + 200);
        length = (uint64_t)(put_field(body, 1, features, (size_t)(p - features)) - body);
    }
    memcpy(out, &length, 8);
    uint32_t crc = yk_crc32c_masked(out, 8);
    memcpy(out + 8, &crc, 4);
    crc = yk_crc32c_masked(body, length);
    memcpy(body + length, &crc, 4);
    return length + 16;
}

/* Whether decoding the image would take long. */
static bool slow(const uint8_t *p, size_t n)
{
    yk_image_decoder *d;
    yk_image_form own;
    if (yk_image_decoder_create(&d))
        return true;
    bool large = !yk_image_measure(d, p, n, &own) && own.height * own.width > MAX_PIXELS;
    yk_image_decoder_free(d);
    return large;
}

static void read_as_file(unsigned kind, const uint8_t *p, size_t n, uint8_t how)
{
    char spec[120];
    uint8_t *file = malloc(2 * n + 500), *spare = malloc(8 * n + 2000);
    if (!file || !spare || (kind == 0 && slow(p, n)))
        goto done;
    if (kind < 2)
        n = make_record(kind == 1, p, n, file, spare);
    else
        memcpy(file, p, n);
    const char *path = put_input(file, n);
    if (kind < 2)
        snprintf(spec, sizeof spec, "tfrecord:%s?form=image%s", path, how & 1 ? "&size=9&base=1" : "");
    else
        snprintf(spec, sizeof spec, "cifar10:%s", path);
    read_source(spec, 0);
    read_source(spec, UINT64_MAX);
    memory_end();
done:
    free(file);
    free(spare);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, jpeg[] = {0xff, 0xd8, 0xff};
    if (size < 3)
        return 0;
    unsigned kind = data[0] % 8;
    uint8_t how = data[1];
    data += 2;
    size -= 2;
    if (kind >= 6) {
        decode_damaged(kind == 6, data, size, how);
        return 0;
    }
    if (kind >= 3) {
        read_as_file(kind - 3, data, size, how);
        return 0;
    }
    uint8_t *with = malloc(size + sizeof png);
    if (!with)
        return 0;
    size_t n = kind == 0 ? 0 : kind == 1 ? sizeof png : sizeof jpeg;
    memcpy(with, kind == 1 ? png : jpeg, n);
    memcpy(with + n, data, size);
    decode(with, n + size, how);
    free(with);
    return 0;
}
