/* One example put together: a nest of dicts, of the values that were found. */
#include "native.h"

/* Returns the nest with values in place of their numbers; NULL with an exception. */
static PyObject *placed(PyObject *nest, PyObject *values) {
    if (!PyDict_Check(nest)) {
        Py_ssize_t number = PyLong_AsSsize_t(nest);
        if (number == -1 && PyErr_Occurred()) return NULL;
        PyObject *value = PyList_GetItem(values, number);
        Py_XINCREF(value);
        return value;
    }
    if (Py_EnterRecursiveCall(" in a nest of features")) return NULL;
    PyObject *example = PyDict_Copy(nest), *key, *number; /* a copy is cheaper than a dict that grows */
    for (Py_ssize_t at = 0; example != NULL && PyDict_Next(nest, &at, &key, &number);) {
        PyObject *value = NULL;
        if (!PyUnicode_CheckExact(key)) /* it could change the dict while it is compared */
            PyErr_Format(PyExc_TypeError, "the key %R is no str", key);
        else
            value = placed(number, values);
        if (value == NULL || PyDict_SetItem(example, key, value) < 0) Py_CLEAR(example);
        Py_XDECREF(value);
    }
    Py_LeaveRecursiveCall();
    return example;
}

/* Adds the values that a function makes of what was found, or these themselves where there is none; 0, or -1. */
static int add(PyObject *values, PyObject *found, PyObject *make) {
    PyObject *made = make == Py_None ? Py_NewRef(found) : PyObject_CallFunctionObjArgs(make, found, NULL);
    if (made == NULL) return -1;
    Py_ssize_t size = PySequence_Size(made);
    int failed = size < 0;
    for (Py_ssize_t i = 0; !failed && i < size; i++) { /* an array that is iterated raises an error at its end */
        PyObject *value = PySequence_GetItem(made, i);
        failed = value == NULL || PyList_Append(values, value) < 0;
        Py_XDECREF(value);
    }
    Py_DECREF(made);
    return failed ? -1 : 0;
}

PyDoc_STRVAR(example_doc,
             "example(found, makers, nest, /)\n--\n\n"
             "Returns an example: a nest of dicts with values in place of their numbers.\n\n"
             "The values are those that the functions make of the parts that were found of a record, one behind the\n"
             "other; None stands for no function: that part is the values.");

static PyObject *example(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t n) {
    if (n != 3) return PyErr_Format(PyExc_TypeError, "example() takes 3 arguments, got %zd.", n);
    PyObject *found = arguments[0], *makers = arguments[1];
    if (!PyTuple_Check(found) || !PyTuple_Check(makers) || PyTuple_Size(found) != PyTuple_Size(makers))
        return PyErr_Format(PyExc_TypeError, "found and makers must be tuples of the same length.");
    PyObject *values = PyList_New(0), *result = NULL;
    int failed = values == NULL;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_Size(found); i++)
        failed = add(values, PyTuple_GetItem(found, i), PyTuple_GetItem(makers, i)) < 0;
    if (!failed) result = placed(arguments[2], values);
    Py_XDECREF(values);
    return result;
}

PyMethodDef example_methods[] = {
    {"example", (PyCFunction)(void (*)(void))example, METH_FASTCALL, example_doc},
    {NULL, NULL, 0, NULL},
};
