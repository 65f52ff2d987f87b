/* PNG: the compressed pixels out of a file, and rows of pixels out of filtered ones.
 *
 * Source: https://www.w3.org/TR/png-3.
 *
 * In between the caller decompresses. What these functions do not know (interlacing, palettes, transparent colours) is
 * for a library: None or False says so.
 */
#include "native.h"

static const uint8_t SIGNATURE[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
enum { FRAME = 12, IHDR_SIZE = 13, FIRST = 8 + FRAME + IHDR_SIZE }; /* sizes: around a chunk's data, of a file's head */
enum { NONE, SUB, UP, AVERAGE, PAETH };

/* -------------------------------------------------------------------------------------------------------- CRC-32 */

static uint32_t crc_table[8][256];

void png_init(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
        crc_table[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t i = 0; i < 256; i++)
            crc_table[k][i] = crc_table[0][crc_table[k - 1][i] & 0xFF] ^ crc_table[k - 1][i] >> 8;
}

uint32_t crc32_of(const uint8_t *data, size_t n) {
    uint32_t crc = 0xFFFFFFFFu;
    for (; n >= 8; n -= 8, data += 8) {
        uint64_t word = u64_at(data) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++) crc ^= crc_table[7 - k][word >> 8 * k & 0xFF];
    }
    while (n--) crc = crc_table[0][(crc ^ *data++) & 0xFF] ^ crc >> 8;
    return ~crc;
}

/* -------------------------------------------------------------------------------------------------------- chunks */

typedef struct {
    const uint8_t *kind, *data;
    size_t size;
} Chunk;

static uint32_t big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Takes a chunk off the front; false where it is cut off or damaged. */
static int take_chunk(const uint8_t **at, const uint8_t *end, Chunk *chunk) {
    if (end - *at < FRAME) return 0;
    *chunk = (Chunk){*at + 4, *at + 8, big_endian(*at)};
    if (chunk->size > (size_t)(end - *at - FRAME)) return 0;
    *at += FRAME + chunk->size;
    return crc32_of(chunk->kind, chunk->size + 4) == big_endian(chunk->data + chunk->size);
}

static inline int is(const Chunk *chunk, const char *kind) { return memcmp(chunk->kind, kind, 4) == 0; }

/* Whether the pixels are the same without the chunk: it may be skipped (small first letter), and makes neither colours
 * transparent nor frames. */
static int is_harmless(const Chunk *chunk) {
    return chunk->kind[0] & 32 && !is(chunk, "tRNS") && !is(chunk, "acTL") && !is(chunk, "fcTL") && !is(chunk, "fdAT");
}

/* Goes through the chunks behind the first; returns the size of the compressed pixels, or 0 for a file to be refused.
 *
 * They are copied where `out` is given; else `only` is set to them, if they are in one chunk. */
static size_t walk(const uint8_t *at, const uint8_t *end, uint8_t *out, const uint8_t **only) {
    size_t total = 0;
    int parts = 0, after = 0;
    Chunk chunk;
    while (take_chunk(&at, end, &chunk)) {
        if (is(&chunk, "IEND")) return at == end && chunk.size == 0 ? total : 0;
        if (is(&chunk, "IDAT")) {
            if (after) return 0;
            if (out != NULL) memcpy(out + total, chunk.data, chunk.size);
            *only = parts++ ? NULL : chunk.data;
            total += chunk.size;
        } else if (!is_harmless(&chunk)) {
            return 0;
        }
        after = parts && !is(&chunk, "IDAT");
    }
    return 0;
}

PyDoc_STRVAR(compressed_doc,
             "png_compressed(file, header, /)\n--\n\n"
             "Returns the compressed pixels of a PNG whose header has these 13 bytes; None where the file is damaged,\n"
             "has another header, or chunks that change pixels. All CRCs are checked.");

static PyObject *py_compressed(PyObject *module, PyObject *args) {
    Py_buffer file, header;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*:png_compressed", &file, &header)) return NULL;
    const uint8_t *at = (uint8_t *)file.buf + 8, *end = (uint8_t *)file.buf + file.len, *only = NULL;
    Chunk first;
    size_t size = 0;
    if (file.len >= FIRST && memcmp(file.buf, SIGNATURE, 8) == 0 && take_chunk(&at, end, &first) &&
        is(&first, "IHDR") && first.size == IHDR_SIZE && header.len == IHDR_SIZE &&
        memcmp(first.data, header.buf, IHDR_SIZE) == 0)
        size = walk(at, end, NULL, &only);
    if (size == 0) {
        result = Py_NewRef(Py_None);
    } else {
        result = PyBytes_FromStringAndSize((const char *)only, (Py_ssize_t)size);
        if (result != NULL && only == NULL) walk(at, end, (uint8_t *)PyBytes_AsString(result), &only);
    }
    PyBuffer_Release(&file);
    PyBuffer_Release(&header);
    return result;
}

/* ------------------------------------------------------------------------------------------------------- filters */

/* Returns which of the three is nearest to left + above - corner; of equals the first.
 *
 * The corner is, unless it is so near to one of the others, or beyond it, that the other one is. So no distances are
 * needed, and no branches, which noise makes slow. */
static inline uint8_t paeth(int left, int above, int corner) {
    int limit = 3 * corner - left - above;
    int low = left < above ? left : above, high = left < above ? above : left;
    int nearest = high <= limit ? low : corner;
    return (uint8_t)(limit <= low ? high : nearest);
}

/* Undoes the filter of a row; `pixel` is the distance in bytes to the same byte of the pixel before.
 *
 * That pixel is kept in `left`, and the one above it in `corner`: `pixel` is known when this is compiled, so these are
 * registers, and all bytes of a pixel are computed at once. */
static inline void unfilter_row(int filter, const uint8_t *in, const uint8_t *above, uint8_t *out, size_t n,
                                size_t pixel) {
    uint8_t left[8] = {0}, corner[8] = {0};
    size_t i, k;
    switch (filter) {
    case NONE:
        memcpy(out, in, n);
        return;
    case UP:
        for (i = 0; i < n; i++) out[i] = (uint8_t)(in[i] + above[i]);
        return;
    case SUB:
        for (i = 0; i < n; i += pixel)
            for (k = 0; k < pixel; k++) out[i + k] = left[k] = (uint8_t)(in[i + k] + left[k]);
        return;
    case AVERAGE:
        for (i = 0; i < n; i += pixel)
            for (k = 0; k < pixel; k++) out[i + k] = left[k] = (uint8_t)(in[i + k] + ((left[k] + above[i + k]) >> 1));
        return;
    default:
        for (i = 0; i < n; i += pixel)
            for (k = 0; k < pixel; k++) {
                out[i + k] = left[k] = (uint8_t)(in[i + k] + paeth(left[k], above[i + k], corner[k]));
                corner[k] = above[i + k];
            }
    }
}

typedef struct {
    size_t height, stride, pixel;
} Image;

/* Undoes the filters of an image; false where a filter has an unknown number. */
static inline int unfilter(const uint8_t *in, uint8_t *out, const uint8_t *zeros, size_t height, size_t stride,
                           size_t pixel) {
    const uint8_t *above = zeros;
    for (size_t row = 0; row < height; row++, in += stride + 1, above = out, out += stride) {
        if (*in > PAETH) return 0;
        unfilter_row(*in, in + 1, above, out, stride, pixel);
    }
    return 1;
}

/* The same, with the distance known when this is compiled, so that the pixel before is kept in registers. */
static int unfilter_image(const uint8_t *in, uint8_t *out, const uint8_t *zeros, const Image *image) {
    switch (image->pixel) {
    case 1: return unfilter(in, out, zeros, image->height, image->stride, 1);
    case 2: return unfilter(in, out, zeros, image->height, image->stride, 2);
    case 3: return unfilter(in, out, zeros, image->height, image->stride, 3);
    case 4: return unfilter(in, out, zeros, image->height, image->stride, 4);
    case 6: return unfilter(in, out, zeros, image->height, image->stride, 6);
    default: return unfilter(in, out, zeros, image->height, image->stride, 8);
    }
}

/* Undoes the filters of all images. */
static int unfilter_all(const Py_buffer *rows, Py_ssize_t n, uint8_t *out, const uint8_t *zeros, const Image *image) {
    size_t size = image->height * image->stride;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!unfilter_image(rows[i].buf, out + (size_t)i * size, zeros, image)) return 0;
    return 1;
}

/* Gets the filtered rows of all images, which must all have the right size; `got` says how many there are. */
static int get_rows(PyObject *list, Py_buffer *rows, Py_ssize_t size, Py_ssize_t *got) {
    for (Py_ssize_t n = PyList_Size(list); *got < n; ++*got) {
        PyObject *item = PyList_GetItem(list, *got);
        if (item == NULL || PyObject_GetBuffer(item, rows + *got, PyBUF_SIMPLE) < 0) return -1;
        if (rows[*got].len == size) continue;
        PyErr_Format(PyExc_ValueError, "an image has %zd bytes; expected %zd", rows[*got].len, size);
        ++*got;
        return -1;
    }
    return 0;
}

static int check_sizes(Py_ssize_t n, Py_ssize_t height, Py_ssize_t stride, Py_ssize_t pixel, Py_ssize_t out) {
    int known = pixel == 1 || pixel == 2 || pixel == 3 || pixel == 4 || pixel == 6 || pixel == 8;
    if (!known || height < 1 || stride < 1 || stride % pixel || height > PY_SSIZE_T_MAX / 2 / stride ||
        (n && height * stride > PY_SSIZE_T_MAX / 2 / n) || n * height * stride != out) {
        PyErr_Format(PyExc_ValueError, "%zd images of %zd rows of %zd bytes, %zd a pixel, do not fit into %zd bytes", n,
                     height, stride, pixel, out);
        return -1;
    }
    return 0;
}

PyDoc_STRVAR(unfilter_doc,
             "png_unfilter(images, out, height, stride, pixel, /)\n--\n\n"
             "Undoes the filters of images, a list of their rows, and puts the pixels of all into a buffer; whether\n"
             "it could be done.\n\n"
             "A row has a byte that says which filter, and `stride` bytes; a pixel has 1, 2, 3, 4, 6 or 8 bytes.");

static PyObject *py_unfilter(PyObject *module, PyObject *args) {
    PyObject *images, *result = NULL;
    Py_buffer out;
    Py_ssize_t height, stride, pixel, got = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!w*nnn:png_unfilter", &PyList_Type, &images, &out, &height, &stride, &pixel))
        return NULL;
    Py_ssize_t n = PyList_Size(images);
    Py_buffer *rows = NULL;
    uint8_t *zeros = NULL;
    if (check_sizes(n, height, stride, pixel, out.len) == 0) {
        rows = PyMem_Calloc((size_t)n + 1, sizeof *rows);
        zeros = PyMem_Calloc((size_t)stride, 1);
        if (rows == NULL || zeros == NULL) {
            PyErr_NoMemory();
        } else if (get_rows(images, rows, height * (stride + 1), &got) == 0) {
            Image image = {(size_t)height, (size_t)stride, (size_t)pixel};
            PyThreadState *thread = out.len >= LARGE ? PyEval_SaveThread() : NULL;
            int done = unfilter_all(rows, n, out.buf, zeros, &image);
            if (thread != NULL) PyEval_RestoreThread(thread);
            result = PyBool_FromLong(done);
        }
    }
    for (Py_ssize_t i = 0; i < got; i++) PyBuffer_Release(rows + i);
    PyMem_Free(rows);
    PyMem_Free(zeros);
    PyBuffer_Release(&out);
    return result;
}

PyMethodDef png_methods[] = {
    {"png_compressed", py_compressed, METH_VARARGS, compressed_doc},
    {"png_unfilter", py_unfilter, METH_VARARGS, unfilter_doc},
    {NULL, NULL, 0, NULL},
};
