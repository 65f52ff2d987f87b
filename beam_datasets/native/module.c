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

PyMODINIT_FUNC PyInit__core(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) return NULL;
    if (PyModule_AddFunctions(module, records_methods) < 0 || PyModule_AddFunctions(module, decode_methods) < 0 ||
        PyModule_AddFunctions(module, encode_methods) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
