/* The module beam_datasets.native._core: what the other files offer to Python.
 *
 * Only the limited API of Python 3.11 is used, so one build serves all later Pythons; NumPy arrays come and go through
 * the buffer protocol. Every function checks the sizes of the buffers that it is given: a wrong one is a ValueError,
 * never a read or a write outside.
 */
#include "native.h"

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_doc = "Fast paths of beam_datasets; see beam_datasets.native.",
    .m_size = 0,
};

static int add_everything(PyObject *module) {
    PyMethodDef *files[] = {records_methods, gather_methods, schema_methods, lists_methods,
                            decode_methods,  encode_methods, shards_methods, examples_methods,
                            runs_methods,    chunks_methods, ahead_methods};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (PyModule_AddFunctions(module, files[i]) < 0) return -1;
    /* A checksum of _core.pyi, which setup.py passes; native/__init__.py expects that of the stubs beside it. */
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0) return -1;
    return block_add(module) < 0 ? -1 : iterator_add(module);
}

PyMODINIT_FUNC PyInit__core(void) {
    const uint16_t one = 1;
    if (*(const uint8_t *)&one != 1) { /* numbers are copied as they stand in files, which is little-endian */
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
