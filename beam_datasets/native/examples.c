/* Examples: nested dicts of the values of records. */
#include "decode.h"
#include <structmember.h>

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

/* Returns the value or nest at the next place in record i, and advances; NULL with an exception. */
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

/* Adds the values that `make` returns for a column, or the column itself if it is None; 0, or -1. */
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
             "Returns n examples: copies of `nest` with values in place of the numbers of their features.\n\n"
             "`makers` are functions from a column to its values, n for each feature, or None if the column is the\n"
             "list of values.");

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

/* BlockIterator: yields the items of blocks and counts them, without a Python frame for each item.
 *
 * A subclass in Python reads the blocks. PlainBlockIterator in beam_datasets/reading/blocks.py is the same in Python.
 */
typedef struct {
    PyObject_HEAD
    PyObject *items;  /* a sequence; a list must have no other owner; may be NULL */
    PyObject *finish; /* NULL or None if items are yielded unchanged */
    Py_ssize_t place; /* of the next item in the block */
    Py_ssize_t taken;
} BlockIterator;

static PyObject *next_block, *finished; /* names of methods */

static int traverse(BlockIterator *self, visitproc visit, void *arg) {
    Py_VISIT((PyObject *)Py_TYPE((PyObject *)self));
    Py_VISIT(self->items);
    Py_VISIT(self->finish);
    return 0;
}

static int clear(BlockIterator *self) {
    Py_CLEAR(self->items);
    Py_CLEAR(self->finish);
    return 0;
}

static void dealloc(BlockIterator *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Returns how many items of the block are left, or -1 with an exception. */
static Py_ssize_t left(const BlockIterator *self) {
    Py_ssize_t n = self->items == NULL ? 0 : PySequence_Size(self->items);
    return n < 0 ? -1 : n > self->place ? n - self->place : 0;
}

/* Gets the next block; 0, or -1 with an exception, also at the end. */
static int go_on(BlockIterator *self) {
    Py_CLEAR(self->items); /* frees the items before the next ones are read */
    PyObject *items = PyObject_CallMethodObjArgs((PyObject *)self, next_block, NULL);
    if (items == NULL) return -1;
    PyObject *before = self->items; /* not NULL if another thread has set it */
    self->items = items;
    self->place = 0;
    Py_XDECREF(before);
    return 0;
}

/* Returns the next item, and removes it from a list, so that it is freed while it is in the cache. */
static PyObject *take_item(BlockIterator *self) {
    PyObject *item;
    if (!PyList_CheckExact(self->items)) {
        item = PySequence_GetItem(self->items, self->place);
    } else if ((item = PyList_GetItem(self->items, self->place)) != NULL) {
        Py_INCREF(item);
        PyList_SetItem(self->items, self->place, Py_NewRef(Py_None));
    }
    if (item == NULL) return NULL;
    self->place++;
    self->taken++;
    return item;
}

static PyObject *next(BlockIterator *self) {
    Py_ssize_t n;
    while ((n = left(self)) == 0)
        if (go_on(self) < 0) return NULL;
    PyObject *item = n < 0 ? NULL : take_item(self);
    if (item == NULL || self->finish == NULL || self->finish == Py_None) return item;
    PyObject *made = PyObject_CallMethodObjArgs((PyObject *)self, finished, item, NULL);
    Py_DECREF(item);
    return made;
}

static PyMemberDef members[] = {
    {"_items", T_OBJECT, offsetof(BlockIterator, items), 0, "The block; set to () to drop it."},
    {"_finish", T_OBJECT, offsetof(BlockIterator, finish), 0, "If not None, _finished() is called for each item."},
    {"_taken", T_PYSSIZET, offsetof(BlockIterator, taken), 0, "How many items were yielded."},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(type_doc, "Yields the items of the blocks that _next_block() returns; see PlainBlockIterator.");

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)type_doc}, {Py_tp_traverse, traverse},        {Py_tp_clear, clear},
    {Py_tp_dealloc, dealloc},      {Py_tp_iter, PyObject_SelfIter},   {Py_tp_iternext, next},
    {Py_tp_members, members},      {0, NULL},
};

static PyType_Spec spec = {
    .name = "beam_datasets.native._core.BlockIterator",
    .basicsize = sizeof(BlockIterator),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int iterator_add(PyObject *module) {
    if (next_block == NULL) next_block = PyUnicode_InternFromString("_next_block");
    if (finished == NULL) finished = PyUnicode_InternFromString("_finished");
    PyObject *type = next_block == NULL || finished == NULL ? NULL : PyType_FromSpec(&spec);
    if (type == NULL) return -1;
    int failed = PyModule_AddObjectRef(module, "BlockIterator", type);
    Py_DECREF(type);
    return failed;
}
