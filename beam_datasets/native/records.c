/* TFRecord framing: records checked and taken out of a file's bytes, framed, gathered from where they lie.
 *
 * A record is a little-endian u64 length, the masked CRC-32C of these 8 bytes, the data, the masked CRC-32C of the data
 * (beam_datasets/formats/tfrecord.py). What is wrong with a bad record is not said here: functions give the good ones
 * before it, and the Python code looks at the first bad one again.
 */
#include "native.h"
#include <stdlib.h>

#define HEADER 12
#define OVERHEAD 16

static uint64_t load64(const uint8_t *data) {
    uint64_t value;
    memcpy(&value, data, 8);
    return value;
}

static uint32_t load32(const uint8_t *data) {
    uint32_t value;
    memcpy(&value, data, 4);
    return value;
}

static uint32_t masked(const uint8_t *data, size_t n) { return crc32c_mask(crc32c_extend(0, data, n)); }

/* --------------------------------------------------------------------------------------------------------- reading */

/* Whether the n bytes are one framed record, checked. */
static int is_record(const uint8_t *data, int64_t n, int check) {
    if (load64(data) != (uint64_t)(n - OVERHEAD)) return 0;
    if (!check) return 1;
    return masked(data + HEADER, (size_t)(n - OVERHEAD)) == load32(data + n - 4) && masked(data, 8) == load32(data + 8);
}

/* The number of good records before the first bad one. */
static Py_ssize_t count_good(const Py_buffer *data, const Ints *offsets, int check) {
    Py_ssize_t i = 0;
    for (; i + 1 < offsets->n; i++) {
        int64_t start = offsets->values[i], stop = offsets->values[i + 1];
        if (start < 0 || stop < OVERHEAD || stop > data->len || start > stop - OVERHEAD) break;
        if (!is_record((const uint8_t *)data->buf + start, stop - start, check)) break;
    }
    return i;
}

static PyObject *unframed(const Py_buffer *data, const Ints *offsets, int check) {
    Py_ssize_t good;
    if (check && data->len >= LARGE) {
        Py_BEGIN_ALLOW_THREADS
        good = count_good(data, offsets, check);
        Py_END_ALLOW_THREADS
    } else {
        good = count_good(data, offsets, check);
    }
    PyObject *records = PyList_New(good);
    for (Py_ssize_t i = 0; records != NULL && i < good; i++) {
        int64_t start = offsets->values[i], stop = offsets->values[i + 1];
        PyObject *record = PyBytes_FromStringAndSize((const char *)data->buf + start + HEADER, stop - start - OVERHEAD);
        if (record == NULL)
            Py_CLEAR(records);
        else
            PyList_SetItem(records, i, record);
    }
    return records;
}

PyDoc_STRVAR(unframe_doc, "unframe(buffer, offsets, check)\n--\n\n"
                          "Returns the data of the good records before the first bad one, as bytes.");

static PyObject *unframe(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *buffer, *places;
    int check;
    if (!PyArg_ParseTuple(arguments, "OOp:unframe", &buffer, &places, &check)) return NULL;
    Ints offsets;
    if (ints_get(places, &offsets, "offsets") < 0) return NULL;
    PyObject *records = NULL;
    Py_buffer data;
    if (bytes_get(buffer, &data) == 0) {
        records = unframed(&data, &offsets, check);
        PyBuffer_Release(&data);
    }
    ints_drop(&offsets);
    return records;
}

/* Offsets that are found one after the other. */
typedef struct {
    int64_t *values;
    size_t n, room;
} Found;

static int found(Found *offsets, int64_t offset) {
    if (offsets->n == offsets->room) {
        size_t room = offsets->room ? 2 * offsets->room : 512;
        int64_t *values = realloc(offsets->values, 8 * room);
        if (values == NULL) return -1;
        offsets->values = values;
        offsets->room = room;
    }
    offsets->values[offsets->n++] = offset;
    return 0;
}

static int walk(const uint8_t *data, size_t n, int check, Found *offsets) {
    size_t place = 0;
    while (found(offsets, (int64_t)place) == 0) {
        if (n - place < OVERHEAD || masked(data + place, 8) != load32(data + place + 8)) return 0;
        uint64_t length = load64(data + place);
        if (length > n - place - OVERHEAD) return 0;
        const uint8_t *record = data + place + HEADER;
        if (check && masked(record, (size_t)length) != load32(record + length)) return 0;
        place += (size_t)length + OVERHEAD;
    }
    return -1;
}

PyDoc_STRVAR(scan_doc, "scan(buffer, check)\n--\n\n"
                       "Returns where the good records before the first bad or cut one begin, and where the last of\n"
                       "them ends: int64 in a bytearray.");

static PyObject *scan(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *buffer;
    int check;
    if (!PyArg_ParseTuple(arguments, "Op:scan", &buffer, &check)) return NULL;
    Py_buffer data;
    if (bytes_get(buffer, &data) < 0) return NULL;
    Found offsets = {NULL, 0, 0};
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = walk(data.buf, (size_t)data.len, check, &offsets);
    Py_END_ALLOW_THREADS
    PyObject *result =
        failed ? PyErr_NoMemory() : PyByteArray_FromStringAndSize((const char *)offsets.values, 8 * (Py_ssize_t)offsets.n);
    free(offsets.values);
    PyBuffer_Release(&data);
    return result;
}

/* --------------------------------------------------------------------------------------------------------- framing */

static uint8_t *put_framed(uint8_t *out, const uint8_t *data, size_t n) {
    uint64_t length = n;
    uint32_t crc;
    memcpy(out, &length, 8);
    crc = masked(out, 8);
    memcpy(out + 8, &crc, 4);
    memcpy(out + HEADER, data, n);
    crc = masked(data, n);
    memcpy(out + HEADER + n, &crc, 4);
    return out + OVERHEAD + n;
}

/* A piece of the framed records: those at places [first, last) of the order, or of the records themselves. */
typedef struct {
    const uint8_t **data;
    size_t *sizes;
    Py_ssize_t first, last;
} Piece;

static void put_piece(uint8_t *out, const Piece *piece) {
    for (Py_ssize_t i = piece->first; i < piece->last; i++) {
#if defined(__GNUC__)
        if (i + 2 < piece->last) __builtin_prefetch(piece->data[i + 2]);
#endif
        out = put_framed(out, piece->data[i], piece->sizes[i]);
    }
}

static PyObject *framed_piece(const Piece *piece) {
    size_t total = 0;
    for (Py_ssize_t i = piece->first; i < piece->last; i++) total += piece->sizes[i] + OVERHEAD;
    PyObject *joined = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (joined == NULL) return NULL;
    uint8_t *out = (uint8_t *)PyBytes_AsString(joined);
    if (total >= LARGE) {
        Py_BEGIN_ALLOW_THREADS
        put_piece(out, piece);
        Py_END_ALLOW_THREADS
    } else {
        put_piece(out, piece);
    }
    return joined;
}

/* The records as a tuple of bytes, which nobody else can change while the GIL is not held. */
static PyObject *bytes_of(PyObject *records) {
    PyObject *items = PySequence_Tuple(records);
    if (items == NULL) return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_Size(items); i++) {
        if (PyBytes_Check(PyTuple_GetItem(items, i))) continue;
        Py_DECREF(items);
        PyErr_Format(PyExc_TypeError, "record %zd is not bytes.", i);
        return NULL;
    }
    return items;
}

/* Fills in where the records lie, in the order; -1 where it names one that is not there. */
static int arrange(PyObject *items, const Ints *order, const uint8_t **data, size_t *sizes, uint64_t *framed) {
    Py_ssize_t n = PyTuple_Size(items);
    for (Py_ssize_t i = 0; i < (order ? order->n : n); i++) {
        int64_t place = order ? order->values[i] : i;
        if (place < 0 || place >= n) {
            PyErr_Format(PyExc_ValueError, "order has %lld, but there are %zd records.", (long long)place, n);
            return -1;
        }
        PyObject *record = PyTuple_GetItem(items, (Py_ssize_t)place);
        data[i] = (const uint8_t *)PyBytes_AsString(record);
        sizes[i] = (size_t)PyBytes_Size(record);
        framed[i] = sizes[i] + OVERHEAD;
    }
    return 0;
}

static PyObject *framed_pieces(PyObject *items, const Ints *order, Py_ssize_t group) {
    Py_ssize_t n = order ? order->n : PyTuple_Size(items), pieces = n / group + (n % group != 0);
    PyObject *parts = NULL, *framed = PyBytes_FromStringAndSize(NULL, 8 * n);
    const uint8_t **data = PyMem_Calloc((size_t)n + 1, sizeof *data);
    size_t *sizes = PyMem_Calloc((size_t)n + 1, sizeof *sizes);
    if (framed == NULL || data == NULL || sizes == NULL) {
        PyErr_NoMemory();
    } else if (arrange(items, order, data, sizes, (uint64_t *)PyBytes_AsString(framed)) == 0) {
        parts = PyList_New(pieces);
        for (Py_ssize_t i = 0; parts != NULL && i < pieces; i++) {
            Py_ssize_t first = i * group, last = n - first < group ? n : first + group;
            PyObject *part = framed_piece(&(Piece){data, sizes, first, last});
            if (part == NULL)
                Py_CLEAR(parts);
            else
                PyList_SetItem(parts, i, part);
        }
    }
    PyMem_Free(data);
    PyMem_Free(sizes);
    PyObject *result = parts == NULL ? NULL : PyTuple_Pack(2, parts, framed);
    Py_XDECREF(parts);
    Py_XDECREF(framed);
    return result;
}

PyDoc_STRVAR(frame_doc, "frame(records, order, group)\n--\n\n"
                        "Returns the records framed, in the order (None for theirs), `group` of them joined to one bytes;\n"
                        "and the framed sizes: uint64 in bytes.");

static PyObject *frame(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *records, *places;
    Py_ssize_t group;
    if (!PyArg_ParseTuple(arguments, "OOn:frame", &records, &places, &group)) return NULL;
    if (group < 1) return PyErr_Format(PyExc_ValueError, "group must be at least 1, got %zd.", group);
    Ints order;
    int ordered = places != Py_None;
    if (ordered && ints_get(places, &order, "order") < 0) return NULL;
    PyObject *items = bytes_of(records);
    PyObject *result = items == NULL ? NULL : framed_pieces(items, ordered ? &order : NULL, group);
    Py_XDECREF(items);
    if (ordered) ints_drop(&order);
    return result;
}

PyMethodDef records_methods[] = {
    {"unframe", unframe, METH_VARARGS, unframe_doc},
    {"scan", scan, METH_VARARGS, scan_doc},
    {"frame", frame, METH_VARARGS, frame_doc},
    {NULL, NULL, 0, NULL},
};
