/* Arguments of functions: arrays of int64, which stand for offsets, places and sizes.
 *
 * They are copied, so that nobody changes them between the check and the use while the GIL is not held.
 */
#include "native.h"

static int is_int64(const Py_buffer *view) {
    const char *format = view->format == NULL ? "" : view->format;
    if (*format == '<' || *format == '=' || *format == '@') format++;
    return view->ndim == 1 && view->itemsize == 8 && (*format == 'q' || *format == 'l') && format[1] == 0;
}

int int64s_get(PyObject *object, Py_buffer *view, int writable, const char *name) {
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags) < 0) return -1;
    if (is_int64(view)) return 0;
    PyErr_Format(PyExc_ValueError, "%s must be a one-dimensional array of int64.", name);
    PyBuffer_Release(view);
    return -1;
}

int ints_get(PyObject *object, Ints *ints, const char *name) {
    Py_buffer view;
    if (int64s_get(object, &view, 0, name) < 0) return -1;
    ints->n = view.len / 8;
    ints->values = PyMem_Malloc((size_t)view.len + 8);
    if (ints->values != NULL)
        memcpy(ints->values, view.buf, (size_t)view.len);
    else
        PyErr_NoMemory();
    PyBuffer_Release(&view);
    return ints->values == NULL ? -1 : 0;
}

void ints_drop(Ints *ints) {
    PyMem_Free(ints->values);
    ints->values = NULL;
}

int bytes_get(PyObject *object, Py_buffer *view) { return PyObject_GetBuffer(object, view, PyBUF_SIMPLE); }
