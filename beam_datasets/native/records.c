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

static uint32_t masked(const uint8_t *data, size_t n) { return crc32c_mask(crc32c_extend(0, data, n)); }

/* --------------------------------------------------------------------------------------------------------- reading */

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

/* A record to frame; `object` is held, so that nobody frees it while the GIL is not. */
typedef struct {
    PyObject *object;
    const uint8_t *data;
    size_t size;
} Record;

typedef struct {
    Record *items;
    Py_ssize_t n;
} Records;

static void drop_records(Records *records) {
    for (Py_ssize_t i = 0; i < records->n; i++) Py_DECREF(records->items[i].object);
    PyMem_Free(records->items);
}

/* Takes the records of a list; -1 with an exception. */
static int take_records(PyObject *list, Records *records) {
    Py_ssize_t n = PyList_Size(list);
    records->n = 0;
    records->items = PyMem_Calloc((size_t)n + 1, sizeof(Record));
    if (records->items == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *record = PyList_GetItem(list, i);
        if (!PyBytes_Check(record)) {
            PyErr_Format(PyExc_TypeError, "record %zd is not bytes.", i);
            break;
        }
        Py_INCREF(record);
        records->items[records->n++] =
            (Record){record, (const uint8_t *)PyBytes_AsString(record), (size_t)PyBytes_Size(record)};
    }
    if (records->n == n) return 0;
    drop_records(records);
    return -1;
}

static void put_records(uint8_t *out, const Records *records, Py_ssize_t first, Py_ssize_t stop) {
    for (Py_ssize_t i = first; i < stop; i++) {
#if defined(__GNUC__)
        /* They lie anywhere in memory: the next ones are on their way while this one is copied. */
        if (i + 2 < stop) __builtin_prefetch(records->items[i + 2].data);
#endif
        out = put_framed(out, records->items[i].data, records->items[i].size);
    }
}

/* The framed records [first, stop), joined. */
static PyObject *joined(const Records *records, Py_ssize_t first, Py_ssize_t stop) {
    uint64_t total = 0;
    for (Py_ssize_t i = first; i < stop; i++) {
        total += records->items[i].size + OVERHEAD;
        if (total > PY_SSIZE_T_MAX) return PyErr_NoMemory();
    }
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (result == NULL) return NULL;
    uint8_t *out = (uint8_t *)PyBytes_AsString(result);
    if (total >= LARGE) {
        Py_BEGIN_ALLOW_THREADS
        put_records(out, records, first, stop);
        Py_END_ALLOW_THREADS
    } else {
        put_records(out, records, first, stop);
    }
    return result;
}

static PyObject *framed(const Records *records, Py_ssize_t group) {
    Py_ssize_t n = records->n, pieces = n / group + (n % group != 0);
    PyObject *parts = PyList_New(pieces);
    for (Py_ssize_t done = 0; parts != NULL && done < pieces; done++) {
        Py_ssize_t first = done * group, stop = n - first < group ? n : first + group;
        PyObject *part = joined(records, first, stop);
        if (part == NULL || PyList_SetItem(parts, done, part) < 0) Py_CLEAR(parts);
    }
    return parts;
}

PyDoc_STRVAR(frame_doc, "frame(records, group)\n--\n\n"
                        "Returns the records of a list framed, `group` of them joined to one bytes.");

static PyObject *frame(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *list, *result = NULL;
    Py_ssize_t group;
    if (!PyArg_ParseTuple(arguments, "O!n:frame", &PyList_Type, &list, &group)) return NULL;
    if (group < 1) return PyErr_Format(PyExc_ValueError, "group must be at least 1, got %zd.", group);
    Records records;
    if (take_records(list, &records) == 0) {
        result = framed(&records, group);
        drop_records(&records);
    }
    return result;
}

PyMethodDef records_methods[] = {
    {"unframe", unframe, METH_VARARGS, unframe_doc},
    {"scan", scan, METH_VARARGS, scan_doc},
    {"frame", frame, METH_VARARGS, frame_doc},
    {NULL, NULL, 0, NULL},
};
