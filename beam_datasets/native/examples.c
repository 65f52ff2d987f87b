/* Examples put together: nests of dicts, of the values that were found in records. */
#include "decode.h"

/* Returns the value of a feature in record i of n, borrowed; NULL with an exception. */
static inline PyObject *value_of(PyObject *number, PyObject *values, Py_ssize_t n, Py_ssize_t i) {
    Py_ssize_t feature = PyLong_AsSsize_t(number);
    if (feature == -1 && PyErr_Occurred()) return NULL;
    if (feature < 0 || feature >= PyList_Size(values)) return PyErr_Format(PyExc_IndexError, "no feature %zd", feature);
    return PyList_GetItem(values, feature * n + i);
}

/* Returns the nest of record i, with values in place of the numbers of their features; NULL with an exception. */
static PyObject *placed(PyObject *nest, PyObject *values, Py_ssize_t n, Py_ssize_t i) {
    if (!PyDict_Check(nest)) return Py_XNewRef(value_of(nest, values, n, i));
    if (Py_EnterRecursiveCall(" in a nest of features")) return NULL;
    PyObject *example = PyDict_Copy(nest), *key, *inner; /* a copy is cheaper than a dict that grows */
    for (Py_ssize_t at = 0; example != NULL && PyDict_Next(nest, &at, &key, &inner);) {
        int failed = !PyUnicode_CheckExact(key); /* it could change the dict while it is compared */
        if (failed) {
            PyErr_Format(PyExc_TypeError, "expected a key of type str, got %R", key);
        } else if (PyDict_Check(inner)) {
            PyObject *value = placed(inner, values, n, i);
            failed = value == NULL || PyDict_SetItem(example, key, value) < 0;
            Py_XDECREF(value);
        } else {
            PyObject *value = value_of(inner, values, n, i);
            failed = value == NULL || PyDict_SetItem(example, key, value) < 0;
        }
        if (failed) Py_CLEAR(example);
    }
    Py_LeaveRecursiveCall();
    return example;
}

/* Adds the values that a function makes of a column, or the column itself if there is no function; 0, or -1. */
static int add(PyObject *values, PyObject *column, PyObject *make) {
    PyObject *made = make == Py_None ? Py_NewRef(column) : PyObject_CallFunctionObjArgs(make, column, NULL);
    if (made == NULL) return -1;
    int failed;
    if (PyList_Check(made)) {
        Py_ssize_t size = PyList_Size(values);
        failed = PyList_SetSlice(values, size, size, made) < 0;
    } else {
        Py_ssize_t size = PySequence_Size(made);
        failed = size < 0;
        for (Py_ssize_t i = 0; !failed && i < size; i++) { /* iterating an array raises an error at its end */
            PyObject *value = PySequence_GetItem(made, i);
            failed = value == NULL || PyList_Append(values, value) < 0;
            Py_XDECREF(value);
        }
    }
    Py_DECREF(made);
    return failed ? -1 : 0;
}

static PyObject *nests_of(PyObject *nest, PyObject *values, Py_ssize_t n) {
    PyObject *examples = PyList_New(n);
    for (Py_ssize_t i = 0; examples != NULL && i < n; i++) {
        PyObject *example = placed(nest, values, n, i);
        if (example == NULL || PyList_SetItem(examples, i, example) < 0) Py_CLEAR(examples);
    }
    return examples;
}

PyDoc_STRVAR(examples_doc,
             "examples(columns, makers, nest, n, /)\n--\n\n"
             "Returns n examples: nests of dicts with values in place of the numbers of their features.\n\n"
             "The values are those that the functions make of the columns, one after the other: n of each feature.\n"
             "None stands for no function: the column is the values.");

static PyObject *examples(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 4) return PyErr_Format(PyExc_TypeError, "examples() takes 4 arguments, got %zd", count);
    PyObject *columns = arguments[0], *makers = arguments[1];
    Py_ssize_t n = PyLong_AsSsize_t(arguments[3]);
    if (n == -1 && PyErr_Occurred()) return NULL;
    if (n < 0) return PyErr_Format(PyExc_ValueError, "n is %zd", n);
    if (!PyTuple_Check(columns) || !PyTuple_Check(makers) || PyTuple_Size(columns) != PyTuple_Size(makers))
        return PyErr_Format(PyExc_TypeError, "columns and makers must be tuples of the same length");
    PyObject *values = PyList_New(0), *result = NULL;
    int failed = values == NULL;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_Size(columns); i++)
        failed = add(values, PyTuple_GetItem(columns, i), PyTuple_GetItem(makers, i)) < 0;
    if (!failed) result = nests_of(arguments[2], values, n);
    Py_XDECREF(values);
    return result;
}

PyMethodDef examples_methods[] = {
    {"examples", (PyCFunction)(void (*)(void))examples, METH_FASTCALL, examples_doc},
    {NULL, NULL, 0, NULL},
};
