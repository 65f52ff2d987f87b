/* Examples put together: the values of features, each in a list of its own, to a dict for each record. */
#include "decode.h"

/* Returns a dict of the keys; NULL with an exception. */
static PyObject *empty_example(PyObject *keys) {
    PyObject *example = PyDict_New();
    for (Py_ssize_t k = 0; example != NULL && k < PyTuple_Size(keys); k++) {
        PyObject *key = PyTuple_GetItem(keys, k);
        if (!PyUnicode_Check(key)) PyErr_Format(PyExc_TypeError, "the key %R is no str", key);
        if (PyErr_Occurred() || PyDict_SetItem(example, key, Py_None) < 0) Py_CLEAR(example);
    }
    return example;
}

static int check_columns(PyObject *keys, PyObject *columns, Py_ssize_t n) {
    if (PyTuple_Size(keys) != PyTuple_Size(columns)) {
        PyErr_Format(PyExc_ValueError, "%zd keys, but %zd columns", PyTuple_Size(keys), PyTuple_Size(columns));
        return -1;
    }
    for (Py_ssize_t k = 0; k < PyTuple_Size(columns); k++) {
        PyObject *column = PyTuple_GetItem(columns, k);
        if (PyList_Check(column) && PyList_Size(column) == n) continue;
        PyErr_Format(PyExc_ValueError, "column %zd is no list of %zd values", k, n);
        return -1;
    }
    return 0;
}

/* A key, and the list of its values. */
typedef struct {
    PyObject *key, *values;
} Column;

/* Returns example i; a copy of a whole dict is cheaper than one that grows. */
static PyObject *example_of(PyObject *empty, const Column *columns, Py_ssize_t num, Py_ssize_t i) {
    PyObject *example = PyDict_Copy(empty);
    for (Py_ssize_t k = 0; example != NULL && k < num; k++) {
        PyObject *value = PyList_GetItem(columns[k].values, i);
        if (value == NULL || PyDict_SetItem(example, columns[k].key, value) < 0) Py_CLEAR(example);
    }
    return example;
}

static PyObject *examples_of(PyObject *empty, PyObject *keys, PyObject *lists, Py_ssize_t n) {
    Py_ssize_t num = PyTuple_Size(keys);
    Column *columns = PyMem_Calloc((size_t)num + 1, sizeof *columns);
    if (columns == NULL) return PyErr_NoMemory();
    for (Py_ssize_t k = 0; k < num; k++) columns[k] = (Column){PyTuple_GetItem(keys, k), PyTuple_GetItem(lists, k)};
    PyObject *examples = PyList_New(n);
    for (Py_ssize_t i = 0; examples != NULL && i < n; i++) {
        PyObject *example = example_of(empty, columns, num, i);
        if (example == NULL || PyList_SetItem(examples, i, example) < 0) Py_CLEAR(examples);
    }
    PyMem_Free(columns);
    return examples;
}

PyObject *py_examples(PyObject *module, PyObject *args) {
    PyObject *keys, *columns;
    Py_ssize_t n;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!n:examples", &PyTuple_Type, &keys, &PyTuple_Type, &columns, &n)) return NULL;
    if (n < 0) return PyErr_Format(PyExc_ValueError, "n is %zd", n);
    if (check_columns(keys, columns, n) < 0) return NULL;
    PyObject *empty = empty_example(keys);
    PyObject *examples = empty == NULL ? NULL : examples_of(empty, keys, columns, n);
    Py_XDECREF(empty);
    return examples;
}
