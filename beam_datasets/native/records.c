/* TFRecord framing: records checked, and taken out of a file's bytes.
 *
 * A record is a little-endian u64 length, the masked CRC-32C of these 8 bytes, the data, the masked CRC-32C of the data
 * (beam_datasets/formats/tfrecord.py). What is wrong with a bad record is not said here: functions give the good ones
 * before it, and the Python code looks at the first bad one again.
 */
#include "native.h"
#include <stdlib.h>

static uint32_t masked(const uint8_t *data, size_t n) { return crc32c_mask(crc32c_extend(0, data, n)); }

int is_framed_record(const Py_buffer *data, int64_t start, int64_t stop, int check) {
    if (start < 0 || stop < OVERHEAD || stop > data->len || start > stop - OVERHEAD) return 0;
    return is_record((const uint8_t *)data->buf + start, (size_t)(stop - start), check);
}

int is_record(const uint8_t *at, size_t size, int check) {
    size_t n = size - OVERHEAD;
    if (u64_at(at) != n) return 0;
    if (!check) return 1;
    return masked(at + HEADER, n) == u32_at(at + HEADER + n) && masked(at, 8) == u32_at(at + 8);
}

/* The number of good records before the first bad one. */
static Py_ssize_t count_good(const Py_buffer *data, const Ints *offsets, int check) {
    Py_ssize_t i = 0;
    while (i + 1 < offsets->n && is_framed_record(data, offsets->values[i], offsets->values[i + 1], check)) i++;
    return i;
}

static PyObject *unframed(const Py_buffer *data, const Ints *offsets, int check) {
    Py_ssize_t good;
    WITHOUT_GIL_IF(check && data->len >= LARGE, good = count_good(data, offsets, check));
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
    PyObject *buffer, *places, *records = NULL;
    int check;
    Ints offsets = {0};
    Py_buffer data = {0};
    if (!PyArg_ParseTuple(arguments, "OOp:unframe", &buffer, &places, &check)) return NULL;
    if (ints_get(places, &offsets, "offsets") == 0 && bytes_get(buffer, &data) == 0)
        records = unframed(&data, &offsets, check);
    PyBuffer_Release(&data);
    ints_drop(&offsets);
    return records;
}

/* Offsets that are found one after the other. */
typedef struct {
    int64_t *values;
    size_t n, capacity;
} Found;

static int found(Found *offsets, int64_t offset) {
    if (offsets->n == offsets->capacity) {
        size_t capacity = offsets->capacity ? 2 * offsets->capacity : 512;
        int64_t *values = realloc(offsets->values, 8 * capacity);
        if (values == NULL) return -1;
        offsets->values = values;
        offsets->capacity = capacity;
    }
    offsets->values[offsets->n++] = offset;
    return 0;
}

static int walk(const uint8_t *data, size_t n, int check, Found *offsets) {
    size_t place = 0;
    while (found(offsets, (int64_t)place) == 0) {
        if (n - place < OVERHEAD || masked(data + place, 8) != u32_at(data + place + 8)) return 0;
        uint64_t length = u64_at(data + place);
        if (length > n - place - OVERHEAD) return 0;
        const uint8_t *record = data + place + HEADER;
        if (check && masked(record, (size_t)length) != u32_at(record + length)) return 0;
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
    PyObject *result = failed ? PyErr_NoMemory()
                              : PyByteArray_FromStringAndSize((const char *)offsets.values, 8 * (Py_ssize_t)offsets.n);
    free(offsets.values);
    PyBuffer_Release(&data);
    return result;
}

PyMethodDef records_methods[] = {
    {"unframe", unframe, METH_VARARGS, unframe_doc},
    {"scan", scan, METH_VARARGS, scan_doc},
    {NULL, NULL, 0, NULL},
};
