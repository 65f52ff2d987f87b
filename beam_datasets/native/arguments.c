/* Arguments of functions: arrays of int64, or lists and tuples of int, which stand for offsets, places and sizes.
 *
 * They are copied, so that nobody changes them between the check and the use while the GIL is not held.
 */
#include "native.h"

static int is_int64(const Py_buffer *view) {
    const char *format = view->format == NULL ? "" : view->format;
    if (*format == '<' || *format == '=' || *format == '@') format++;
    return view->ndim == 1 && view->itemsize == 8 && (*format == 'q' || *format == 'l') && format[1] == 0;
}

static int make_room(Ints *ints, Py_ssize_t n) {
    ints->n = n;
    ints->values = PyMem_Calloc((size_t)n + 1, 8);
    if (ints->values != NULL) return 0;
    PyErr_NoMemory();
    return -1;
}

/* Integers that do not fit become the nearest that do: out of any range that matters here. */
static int copy_items(PyObject *items, Ints *ints) {
    for (Py_ssize_t i = 0; i < ints->n; i++) {
        int overflow;
        long long value = PyLong_AsLongLongAndOverflow(PyTuple_GetItem(items, i), &overflow);
        if (value == -1 && PyErr_Occurred()) return -1;
        ints->values[i] = overflow > 0 ? INT64_MAX : overflow < 0 ? INT64_MIN : value;
    }
    return 0;
}

static int ints_of_sequence(PyObject *object, Ints *ints) {
    PyObject *items = PySequence_Tuple(object);
    if (items == NULL) return -1;
    int failed = make_room(ints, PyTuple_Size(items)) < 0 || copy_items(items, ints) < 0;
    Py_DECREF(items);
    if (!failed) return 0;
    ints_drop(ints);
    return -1;
}

int int64s_get(PyObject *object, Py_buffer *view, int writable, const char *name) {
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags) < 0) return -1;
    if (is_int64(view)) return 0;
    PyErr_Format(PyExc_ValueError, "%s must be a one-dimensional array of int64, or a list or tuple of int.", name);
    PyBuffer_Release(view);
    return -1;
}

static int ints_of_array(PyObject *object, Ints *ints, const char *name) {
    Py_buffer view;
    if (int64s_get(object, &view, 0, name) < 0) return -1;
    int failed = make_room(ints, view.len / 8);
    if (!failed) memcpy(ints->values, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return failed;
}

int ints_get(PyObject *object, Ints *ints, const char *name) {
    ints->values = NULL;
    if (PyList_Check(object) || PyTuple_Check(object)) return ints_of_sequence(object, ints);
    return ints_of_array(object, ints, name);
}

void ints_drop(Ints *ints) {
    PyMem_Free(ints->values);
    ints->values = NULL;
}

int bytes_get(PyObject *object, Py_buffer *view) { return PyObject_GetBuffer(object, view, PyBUF_SIMPLE); }
