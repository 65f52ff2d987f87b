/* Examples put together: nests of dicts, of the values that were found in records. */
#include "decode.h"

/* A feature or a nest, and its key where it is in a nest. After a nest come its places, in its order. */
typedef struct {
    PyObject *key, *nest; /* no nest: a feature */
    Py_ssize_t at;        /* of a feature, where its values begin; of a nest, how many keys it has */
} Place;

enum { FEW_PLACES = 64 }; /* the space of a plan grows by so many */

typedef struct {
    Place *places;
    Py_ssize_t n;
} Plan;

/* Adds a nest with all that is in it, or the number of a feature; the root has no key. 0, or -1 with an exception. */
static int plan_add(Plan *plan, PyObject *key, PyObject *nest, PyObject *values, Py_ssize_t n) {
    int is_nest = PyDict_Check(nest), failed = 0;
    Py_ssize_t number = is_nest ? PyDict_Size(nest) : PyLong_AsSsize_t(nest);
    if (number == -1 && PyErr_Occurred()) return -1;
    if (!is_nest && (number < 0 || number >= PyList_Size(values)))
        return PyErr_Format(PyExc_IndexError, "no feature %zd", number), -1;
    if (key != NULL && !PyUnicode_CheckExact(key)) /* it could change the dict while it is compared */
        return PyErr_Format(PyExc_TypeError, "expected a key of type str, got %R", key), -1;
    if (plan->n % FEW_PLACES == 0) {
        Place *places = PyMem_Realloc(plan->places, (size_t)(plan->n + FEW_PLACES) * sizeof *places);
        if (places == NULL) return PyErr_NoMemory(), -1;
        plan->places = places;
    }
    plan->places[plan->n++] = (Place){Py_XNewRef(key), is_nest ? Py_NewRef(nest) : NULL, is_nest ? number : number * n};
    if (!is_nest) return 0;
    if (Py_EnterRecursiveCall(" in a nest of features")) return -1;
    PyObject *inner;
    for (Py_ssize_t at = 0; !failed && PyDict_Next(nest, &at, &key, &inner);)
        failed = plan_add(plan, key, inner, values, n);
    Py_LeaveRecursiveCall();
    return failed;
}

/* Returns what is at the next place in record i, and goes past it; NULL with an exception. */
static PyObject *placed(const Place **next, PyObject *values, Py_ssize_t i) {
    const Place *place = (*next)++;
    if (place->nest == NULL) return Py_XNewRef(PyList_GetItem(values, place->at + i));
    PyObject *example = PyDict_Copy(place->nest); /* a copy is cheaper than a dict that grows */
    for (Py_ssize_t k = 0; example != NULL && k < place->at; k++) {
        PyObject *key = (*next)->key, *value = placed(next, values, i);
        if (value == NULL || PyDict_SetItem(example, key, value) < 0) Py_CLEAR(example);
        Py_XDECREF(value);
    }
    return example;
}

/* Adds the values that a function makes of a column, or the column itself without a function; 0, or -1. */
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
    Plan plan = {NULL, 0};
    PyObject *examples = plan_add(&plan, NULL, nest, values, n) < 0 ? NULL : PyList_New(n);
    for (Py_ssize_t i = 0; examples != NULL && i < n; i++) {
        const Place *next = plan.places;
        PyObject *example = placed(&next, values, i);
        if (example == NULL || PyList_SetItem(examples, i, example) < 0) Py_CLEAR(examples);
    }
    while (plan.n-- > 0) {
        Py_XDECREF(plan.places[plan.n].key);
        Py_XDECREF(plan.places[plan.n].nest);
    }
    PyMem_Free(plan.places);
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
