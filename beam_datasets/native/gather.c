/* Gathers ranges of buffers, to write a shard; collects the framed records of a block in one buffer, to gather them in
 * order; and CRC-32C for Python.
 */
#include "encode.h"

#define COLLECTOR "beam_datasets.native.collector"

/* Ranges of buffers to be joined. */
typedef struct {
    Py_buffer *buffers;
    Py_ssize_t num_buffers;
    Ints which, starts, sizes;
} Gather;

/* The total size, or -1 if a range is not inside its buffer. */
static int64_t gather_size(const Gather *plan) {
    int64_t total = 0;
    if (plan->which.n != plan->starts.n || plan->which.n != plan->sizes.n) {
        PyErr_Format(PyExc_ValueError, "there are %zd buffer numbers, %zd starts and %zd sizes.", plan->which.n,
                     plan->starts.n, plan->sizes.n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < plan->which.n; i++) {
        int64_t which = plan->which.values[i], start = plan->starts.values[i], size = plan->sizes.values[i];
        int inside = which >= 0 && which < plan->num_buffers && start >= 0 && size >= 0;
        if (!inside || start > plan->buffers[which].len || size > plan->buffers[which].len - start) {
            PyErr_Format(PyExc_ValueError, "range %zd, %lld bytes from %lld on, is not inside buffer %lld.", i,
                         (long long)size, (long long)start, (long long)which);
            return -1;
        }
        if (size > PY_SSIZE_T_MAX - total) {
            PyErr_SetString(PyExc_ValueError, "the ranges together are too large.");
            return -1;
        }
        total += size;
    }
    return total;
}

static void gather_into(uint8_t *out, const Gather *plan) {
    for (Py_ssize_t i = 0; i < plan->which.n; i++) {
        size_t size = (size_t)plan->sizes.values[i];
        memcpy(out, (const uint8_t *)plan->buffers[plan->which.values[i]].buf + plan->starts.values[i], size);
        out += size;
    }
}

static PyObject *gathered(const Gather *plan) {
    int64_t total = gather_size(plan);
    PyObject *joined = total < 0 ? NULL : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (joined == NULL) return NULL;
    uint8_t *out = (uint8_t *)PyBytes_AsString(joined);
    Py_BEGIN_ALLOW_THREADS
    gather_into(out, plan);
    Py_END_ALLOW_THREADS
    return joined;
}

static PyObject *gathered_from(PyObject *list, Gather *plan) {
    PyObject *result = NULL, *items = PySequence_Tuple(list);
    if (items == NULL) return NULL;
    Py_ssize_t n = PyTuple_Size(items);
    plan->buffers = PyMem_Calloc((size_t)n + 1, sizeof(Py_buffer));
    if (plan->buffers == NULL) {
        PyErr_NoMemory();
    } else {
        while (plan->num_buffers < n &&
               bytes_get(PyTuple_GetItem(items, plan->num_buffers), &plan->buffers[plan->num_buffers]) == 0)
            plan->num_buffers++;
        if (plan->num_buffers == n) result = gathered(plan);
    }
    for (Py_ssize_t i = 0; i < plan->num_buffers; i++) PyBuffer_Release(&plan->buffers[i]);
    PyMem_Free(plan->buffers);
    Py_DECREF(items);
    return result;
}

PyDoc_STRVAR(gather_doc, "gather(buffers, which, starts, sizes)\n--\n\n"
                         "Returns stretches of the buffers one after the other, as bytes: stretch i is sizes[i] bytes\n"
                         "from starts[i] of buffers[which[i]].");

static PyObject *gather(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *buffers, *which, *starts, *sizes, *result = NULL;
    if (!PyArg_ParseTuple(arguments, "OOOO:gather", &buffers, &which, &starts, &sizes)) return NULL;
    Gather plan = {0};
    if (ints_get(which, &plan.which, "which") == 0 && ints_get(starts, &plan.starts, "starts") == 0 &&
        ints_get(sizes, &plan.sizes, "sizes") == 0)
        result = gathered_from(buffers, &plan);
    ints_drop(&plan.sizes);
    ints_drop(&plan.starts);
    ints_drop(&plan.which);
    return result;
}

/* ------------------------------------------------------------------------------------------------------- collectors */

/* Framed records one behind the other, with gaps between them. */
typedef struct {
    Buffer bytes;
    int64_t *starts;
    uint32_t *sizes; /* framed */
    Py_ssize_t count, capacity;
    PyObject *encode;
    Py_ssize_t most; /* bytes of a record */
    int busy; /* Python code that is called from here may call here */
} Collector;

static int take(Collector *self) {
    if (self == NULL) return 0;
    if (self->busy) PyErr_SetString(PyExc_RuntimeError, "the collector is in use");
    return self->busy ? 0 : (self->busy = 1);
}

static int has_room(Collector *self) {
    if (self->count < self->capacity) return 1;
    Py_ssize_t capacity = 2 * self->capacity + 64;
    int64_t *starts = PyMem_Realloc(self->starts, (size_t)capacity * sizeof *starts);
    if (starts != NULL) self->starts = starts;
    uint32_t *sizes = starts == NULL ? NULL : PyMem_Realloc(self->sizes, (size_t)capacity * sizeof *sizes);
    if (sizes == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    self->sizes = sizes;
    self->capacity = capacity;
    return 1;
}

static void put_frame(Collector *self, size_t start, uint64_t size) {
    uint8_t *out = self->bytes.data + start - HEADER;
    uint32_t crc;
    memcpy(out, &size, 8);
    crc = crc32c_mask(crc32c_extend(0, out, 8));
    memcpy(out + 8, &crc, 4);
    crc = crc32c_mask(crc32c_extend(0, out + HEADER, (size_t)size));
    memcpy(out + HEADER + size, &crc, FOOTER);
    self->bytes.size = start + (size_t)size + FOOTER;
    self->starts[self->count] = (int64_t)(start - HEADER);
    self->sizes[self->count++] = (uint32_t)(HEADER + size + FOOTER);
}

static PyObject *collect(PyObject *capsule, PyObject *example) {
    Collector *self = PyCapsule_GetPointer(capsule, COLLECTOR);
    if (!take(self)) return NULL;
    Buffer *bytes = &self->bytes;
    size_t before = bytes->size, start = 0;
    Result done = has_room(self) && buffer_reserve(bytes, HEADER) ? DONE : FAILED;
    if (done == DONE) {
        bytes->size += HEADER;
        done = put_record(bytes, self->encode, example, &start);
    }
    if (done == DONE && !buffer_reserve(bytes, FOOTER)) done = FAILED;
    size_t size = done == DONE ? bytes->size - start : 0;
    if (done == DONE && size <= (size_t)self->most) {
        put_frame(self, start, size);
    } else {
        bytes->size = before;
    }
    self->busy = 0;
    return done == DONE ? PyLong_FromSize_t(size) : NULL;
}

static PyObject *collected_sizes(PyObject *capsule, PyObject *Py_UNUSED(nothing)) {
    Collector *self = PyCapsule_GetPointer(capsule, COLLECTOR);
    if (self == NULL) return NULL;
    return PyBytes_FromStringAndSize((const char *)self->sizes, self->count * (Py_ssize_t)sizeof *self->sizes);
}

static void copy_collected(uint8_t *out, const Collector *self, const Ints *order) {
    for (Py_ssize_t i = 0; i < order->n; i++) {
#ifdef __GNUC__
        if (i + 8 < order->n) __builtin_prefetch(self->bytes.data + self->starts[order->values[i + 8]]);
#endif
        size_t size = self->sizes[order->values[i]];
        memcpy(out, self->bytes.data + self->starts[order->values[i]], size);
        out += size;
    }
}

static PyObject *ordered(const Collector *self, const Ints *order) {
    Py_ssize_t total = 0;
    for (Py_ssize_t i = 0; i < order->n; i++) {
        int64_t number = order->values[i];
        if (number < 0 || number >= self->count || self->sizes[number] > PY_SSIZE_T_MAX - total) {
            PyErr_Format(PyExc_ValueError, "record %lld of %zd, or too many of them", (long long)number, self->count);
            return NULL;
        }
        total += self->sizes[number];
    }
    PyObject *joined = PyBytes_FromStringAndSize(NULL, total);
    if (joined == NULL) return NULL;
    uint8_t *out = (uint8_t *)PyBytes_AsString(joined);
    Py_BEGIN_ALLOW_THREADS
    copy_collected(out, self, order);
    Py_END_ALLOW_THREADS
    return joined;
}

static PyObject *collected(PyObject *capsule, PyObject *numbers) {
    Collector *self = PyCapsule_GetPointer(capsule, COLLECTOR);
    Ints order = {0};
    if (!take(self)) return NULL;
    PyObject *joined = ints_get(numbers, &order, "order") < 0 ? NULL : ordered(self, &order);
    ints_drop(&order);
    self->busy = 0;
    return joined;
}

static void release(Collector *self) {
    PyMem_Free(self->bytes.data);
    PyMem_Free(self->starts);
    PyMem_Free(self->sizes);
    self->bytes = (Buffer){NULL, 0, 0};
    self->starts = NULL;
    self->sizes = NULL;
    self->capacity = 0;
}

static PyObject *clear(PyObject *capsule, PyObject *keep) {
    Collector *self = PyCapsule_GetPointer(capsule, COLLECTOR);
    int keeps = PyObject_IsTrue(keep);
    if (keeps < 0 || !take(self)) return NULL;
    self->count = 0;
    self->bytes.size = 0;
    if (!keeps) release(self);
    self->busy = 0;
    Py_RETURN_NONE;
}

static void destroy_collector(PyObject *capsule) {
    Collector *self = PyCapsule_GetPointer(capsule, COLLECTOR);
    release(self);
    Py_DECREF(self->encode);
    PyMem_Free(self);
}

static PyMethodDef collector_methods[] = {
    {"append", collect, METH_O, "Keeps an example's record, unless it is too large; returns its size in bytes."},
    {"sizes", collected_sizes, METH_NOARGS, "Returns the framed sizes of the records: uint32 in bytes."},
    {"ordered", collected, METH_O, "Returns the framed records of these numbers, joined."},
    {"clear", clear, METH_O, "Drops all records; the argument: whether to keep their memory."},
};

PyDoc_STRVAR(collector_doc, "collector(encode, most)\n--\n\n"
                            "Returns the functions `append`, `sizes`, `ordered` and `clear` of a new buffer of framed\n"
                            "records; records of more than `most` bytes are not kept.");

static PyObject *collector(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *function;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(arguments, "On:collector", &function, &most)) return NULL;
    if (most < 0 || most > INT32_MAX) return PyErr_Format(PyExc_ValueError, "most is %zd.", most);
    Collector *self = PyMem_Calloc(1, sizeof *self);
    if (self == NULL) return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(self, COLLECTOR, destroy_collector);
    if (capsule == NULL) {
        PyMem_Free(self);
        return NULL;
    }
    self->encode = Py_NewRef(function);
    self->most = most;
    PyObject *functions = PyTuple_New(4);
    for (int i = 0; functions != NULL && i < 4; i++) {
        PyObject *made = PyCFunction_New(&collector_methods[i], capsule);
        if (made == NULL || PyTuple_SetItem(functions, i, made) < 0) Py_CLEAR(functions);
    }
    Py_DECREF(capsule);
    return functions;
}

/* ------------------------------------------------------------------------------------------------------------- CRC */

static PyObject *sum_up(PyObject *arguments, const char *format, uint32_t (*sum)(uint32_t, const uint8_t *, size_t)) {
    PyObject *buffer;
    unsigned long crc = 0;
    Py_buffer data;
    if (!PyArg_ParseTuple(arguments, format, &buffer, &crc) || bytes_get(buffer, &data) < 0) return NULL;
    WITHOUT_GIL_IF(data.len >= LARGE, crc = sum((uint32_t)crc, data.buf, (size_t)data.len));
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}

PyDoc_STRVAR(crc32c_doc, "crc32c(data, crc=0)\n--\n\n"
                         "Returns the CRC-32C of the data that follow data with the checksum `crc`.");

static PyObject *crc32c(PyObject *Py_UNUSED(module), PyObject *arguments) {
    return sum_up(arguments, "O|k:crc32c", crc32c_extend);
}

PyDoc_STRVAR(by_table_doc, "crc32c_by_table(data, crc=0)\n--\n\n"
                           "Returns the same, computed without the processor's instruction.");

static PyObject *by_table(PyObject *Py_UNUSED(module), PyObject *arguments) {
    return sum_up(arguments, "O|k:crc32c_by_table", crc32c_by_table);
}

PyMethodDef gather_methods[] = {
    {"gather", gather, METH_VARARGS, gather_doc},
    {"collector", collector, METH_VARARGS, collector_doc},
    {"crc32c", crc32c, METH_VARARGS, crc32c_doc},
    {"crc32c_by_table", by_table, METH_VARARGS, by_table_doc},
    {NULL, NULL, 0, NULL},
};
