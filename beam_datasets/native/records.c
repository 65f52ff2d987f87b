/* TFRecord framing: records checked, and taken out of a file's bytes.
 *
 * A record is a little-endian u64 length, the masked CRC-32C of these 8 bytes, the data, the masked CRC-32C of the data
 * (beam_datasets/formats/tfrecord.py). Functions return the good records before the first bad one; Python code reads
 * that one again and reports the error.
 */
#include "native.h"
#include <stdlib.h>
#include <unistd.h>

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

/* A growing array of offsets. */
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
                       "Returns the offsets of the good records before the first bad or truncated one, and the end of\n"
                       "the last of them: int64 in a bytearray.");

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

/* Random access: reads the records of a shard at their offsets.
 *
 * The layouts are those of beam_datasets/formats/index.py and tfrecord.py. Functions return the good records; their
 * callers in Python read the others again and report the errors.
 */
#define ON_STACK (8 << 10)  /* bytes of a record that is read into memory on the stack */

/* The offset and size of a framed record in its file; the size is 0 if the record does not exist. */
typedef struct {
    uint64_t start;
    size_t size;
} Place;

static Place place_of(const Py_buffer *offsets, int64_t record) {
    Place none = {0, 0};
    if (record < 0 || record >= offsets->len / 8 - 1) return none;
    const uint8_t *at = (const uint8_t *)offsets->buf + 8 * record;
    uint64_t start = u64_at(at), stop = u64_at(at + 8);
    if (stop > INT64_MAX || stop < OVERHEAD || start > stop - OVERHEAD || stop - start > MAX_RECORD) return none;
    return (Place){start, (size_t)(stop - start)};
}

static int descriptor_of(PyObject *object, int *descriptor) {
    long value = PyLong_AsLong(object);
    if (value == -1 && PyErr_Occurred()) return -1;
    *descriptor = value < 0 || value > INT32_MAX ? -1 : (int)value;
    return 0;
}

static int read_whole(int descriptor, uint64_t start, uint8_t *data, size_t n) {
    return pread(descriptor, data, n, (off_t)start) == (ssize_t)n;
}

static PyObject *bytes_of(const uint8_t *data, Place place) {
    return PyBytes_FromStringAndSize((const char *)data + HEADER, (Py_ssize_t)(place.size - OVERHEAD));
}

static PyObject *read_one(int descriptor, Place place) {
    uint8_t little[ON_STACK], *data = little;
    int good;
    if (place.size == 0) Py_RETURN_NONE;
    if (place.size > sizeof little && (data = PyMem_Malloc(place.size)) == NULL) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    good = read_whole(descriptor, place.start, data, place.size) && is_record(data, place.size, 1);
    Py_END_ALLOW_THREADS
    PyObject *result = good ? bytes_of(data, place) : Py_NewRef(Py_None);
    if (data != little) PyMem_Free(data);
    return result;
}

PyDoc_STRVAR(read_record_doc,
             "read_record(descriptor, offsets, record, /)\n--\n\n"
             "Returns the checked data of a record of a file; None if it cannot be read or is bad.\n\n"
             "`offsets` is a buffer of uint64: the start of each record, and the end of the last one.");

static PyObject *read_record(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t n) {
    int descriptor, overflow;
    Py_buffer offsets;
    if (n != 3) return PyErr_Format(PyExc_TypeError, "read_record() takes 3 arguments, got %zd.", n);
    int64_t record = PyLong_AsLongLongAndOverflow(arguments[2], &overflow);
    if (record == -1 && PyErr_Occurred()) return NULL;
    if (descriptor_of(arguments[0], &descriptor) < 0 || bytes_get(arguments[1], &offsets) < 0) return NULL;
    Place place = place_of(&offsets, record);
    PyBuffer_Release(&offsets);
    return read_one(descriptor, place);
}

PyDoc_STRVAR(read_records_doc,
             "read_records(descriptor, offsets, records, /)\n--\n\n"
             "Returns the checked data of records of a file, up to the first that cannot be read or is bad.\n\n"
             "`offsets` is as for read_record().");

static PyObject *read_records(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t n) {
    int descriptor;
    Ints records;
    Py_buffer offsets = {0};
    if (n != 3) return PyErr_Format(PyExc_TypeError, "read_records() takes 3 arguments, got %zd.", n);
    if (descriptor_of(arguments[0], &descriptor) < 0 || ints_get(arguments[2], &records, "records") < 0) return NULL;
    PyObject *found = bytes_get(arguments[1], &offsets) < 0 ? NULL : PyList_New(0);
    for (Py_ssize_t i = 0; found != NULL && i < records.n; i++) {
        PyObject *record = read_one(descriptor, place_of(&offsets, records.values[i]));
        int is_bad = record == Py_None;
        int failed = record == NULL || (!is_bad && PyList_Append(found, record) < 0) || PyErr_CheckSignals() < 0;
        Py_XDECREF(record);
        if (failed) Py_CLEAR(found);
        if (is_bad) break;
    }
    PyBuffer_Release(&offsets);
    ints_drop(&records);
    return found;
}

PyMethodDef records_methods[] = {
    {"unframe", unframe, METH_VARARGS, unframe_doc},
    {"scan", scan, METH_VARARGS, scan_doc},
    {"read_record", (PyCFunction)(void (*)(void))read_record, METH_FASTCALL, read_record_doc},
    {"read_records", (PyCFunction)(void (*)(void))read_records, METH_FASTCALL, read_records_doc},
    {NULL, NULL, 0, NULL},
};
