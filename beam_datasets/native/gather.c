/* Bytes gathered from where they lie, which is what writing a shard is; and CRC-32C for Python. */
#include "native.h"

/* Stretches of bytes that are to stand one after the other. */
typedef struct {
    Py_buffer *buffers;
    Py_ssize_t num_buffers;
    Ints which, starts, sizes;
} Gather;

/* The total size, or -1 where a stretch is not inside its buffer. */
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
            PyErr_Format(PyExc_ValueError, "stretch %zd is %lld bytes from %lld of buffer %lld: not inside it.", i,
                         (long long)size, (long long)start, (long long)which);
            return -1;
        }
        if (size > PY_SSIZE_T_MAX - total) {
            PyErr_SetString(PyExc_ValueError, "the stretches are too large together.");
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
    if (ints_get(which, &plan.which, "which") < 0) return NULL;
    if (ints_get(starts, &plan.starts, "starts") == 0) {
        if (ints_get(sizes, &plan.sizes, "sizes") == 0) {
            result = gathered_from(buffers, &plan);
            ints_drop(&plan.sizes);
        }
        ints_drop(&plan.starts);
    }
    ints_drop(&plan.which);
    return result;
}

/* ------------------------------------------------------------------------------------------------------------- CRC */

static PyObject *sum_up(PyObject *arguments, const char *format, uint32_t (*sum)(uint32_t, const uint8_t *, size_t)) {
    PyObject *buffer;
    unsigned long crc = 0;
    Py_buffer data;
    if (!PyArg_ParseTuple(arguments, format, &buffer, &crc) || bytes_get(buffer, &data) < 0) return NULL;
    if (data.len >= LARGE) {
        Py_BEGIN_ALLOW_THREADS
        crc = sum((uint32_t)crc, data.buf, (size_t)data.len);
        Py_END_ALLOW_THREADS
    } else {
        crc = sum((uint32_t)crc, data.buf, (size_t)data.len);
    }
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}

PyDoc_STRVAR(crc32c_doc, "crc32c(data, crc=0)\n--\n\nReturns the CRC-32C of the data, going on from that of what was before.");

static PyObject *crc32c(PyObject *Py_UNUSED(module), PyObject *arguments) {
    return sum_up(arguments, "O|k:crc32c", crc32c_extend);
}

PyDoc_STRVAR(by_table_doc, "crc32c_by_table(data, crc=0)\n--\n\nReturns the same, made without the processor's instruction.");

static PyObject *by_table(PyObject *Py_UNUSED(module), PyObject *arguments) {
    return sum_up(arguments, "O|k:crc32c_by_table", crc32c_by_table);
}

PyMethodDef gather_methods[] = {
    {"gather", gather, METH_VARARGS, gather_doc},
    {"crc32c", crc32c, METH_VARARGS, crc32c_doc},
    {"crc32c_by_table", by_table, METH_VARARGS, by_table_doc},
    {NULL, NULL, 0, NULL},
};
