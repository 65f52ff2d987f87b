/* The module beam_datasets.native._core, which contains the functions and types of the other files.
 *
 * Only the limited API of Python 3.11 is used, so one build serves all later Pythons; NumPy arrays are passed through
 * the buffer protocol. Every function checks the sizes of its buffers: a wrong size is a ValueError, never an access
 * out of bounds.
 */
#include "native.h"

#include <stdlib.h>

/* Offsets, places and sizes are arrays of int64. Arrays that are used without the GIL are copied, so that no other
 * thread changes them between the check and the use. */
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

/* Otherwise glibc returns the memory of a chunk, or of the arrays of a batch, to the system, and gets it again as pages
 * that the kernel fills with zeros, which takes a sixth of the time of reading, and as long as decoding. It raises its
 * threshold when a block of up to 32 MB is freed for the first time (mallopt(3), M_MMAP_THRESHOLD), so such a block is
 * freed here without being written to. The environment variable MALLOC_TRIM_THRESHOLD_ still has priority. */
void keep_memory(void) {
#if defined(__GLIBC__)
    static int done;
    if (done++) return;
    void *volatile piece = malloc((32 << 20) - (64 << 10)); /* volatile, or the compiler removes both calls */
    free(piece);
#endif
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_doc = "Fast paths of beam_datasets; see beam_datasets.native.",
    .m_size = 0,
};

static int add_everything(PyObject *module) {
    PyMethodDef *files[] = {records_methods, gather_methods,   lists_methods, decode_methods,
                            encode_methods,  examples_methods, runs_methods,  block_methods};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (PyModule_AddFunctions(module, files[i]) < 0) return -1;
    /* A checksum of _core.pyi, which setup.py passes; native/__init__.py expects that of the stubs beside it. */
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0) return -1;
    return block_add(module) < 0 ? -1 : iterator_add(module);
}

PyMODINIT_FUNC PyInit__core(void) {
    const uint16_t one = 1;
    if (*(const uint8_t *)&one != 1) { /* numbers are copied to and from little-endian files */
        PyErr_SetString(PyExc_ImportError, "beam_datasets.native is for little-endian machines; others use Python.");
        return NULL;
    }
    crc32c_init();
    lists_init();
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) return NULL;
    if (add_everything(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
