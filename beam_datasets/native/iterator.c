/* BlockIterator: hands out the values of lists one by one and counts them, without a call of Python for each.
 *
 * A subclass written in Python gives the lists and says what is done at an error. beam_datasets/reading/yielding.py has
 * the same type in Python.
 */
#include "native.h"
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyObject *values;   /* a list; NULL where the next one is to be asked for */
    PyObject *function; /* that each value is put through; NULL for none */
    Py_ssize_t place;   /* in values, of what is next */
    long long taken;
} BlockIterator;

static int traverse(BlockIterator *self, visitproc visit, void *arg) {
    Py_VISIT((PyObject *)Py_TYPE((PyObject *)self));
    Py_VISIT(self->values);
    Py_VISIT(self->function);
    return 0;
}

static int clear(BlockIterator *self) {
    Py_CLEAR(self->values);
    Py_CLEAR(self->function);
    return 0;
}

static void dealloc(BlockIterator *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* A StopIteration of a function of the user's would look like the end. */
static void rename_stop(void) {
    PyObject *type, *value, *traceback;
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL) PyException_SetTraceback(value, traceback);
    PyErr_SetString(PyExc_RuntimeError, "a function given to map() raised StopIteration");
    PyObject *new_type, *new_value, *new_traceback;
    PyErr_Fetch(&new_type, &new_value, &new_traceback);
    PyErr_NormalizeException(&new_type, &new_value, &new_traceback);
    PyException_SetCause(new_value, value); /* takes the reference */
    PyErr_Restore(new_type, new_value, new_traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
}

/* Calls close(), which may not hide the error that is set. */
static PyObject *fail(BlockIterator *self) {
    PyObject *type, *value, *traceback;
    rename_stop();
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *closed = PyObject_CallMethod((PyObject *)self, "close", NULL);
    if (closed == NULL) PyErr_WriteUnraisable((PyObject *)self);
    Py_XDECREF(closed);
    PyErr_Restore(type, value, traceback);
    return NULL;
}

/* Takes the next value out of the list, which then does not hold it any more. */
static PyObject *take(BlockIterator *self) {
    PyObject *value = PyList_GetItem(self->values, self->place);
    if (value == NULL) return NULL;
    Py_INCREF(value);
    Py_INCREF(Py_None);
    PyList_SetItem(self->values, self->place++, Py_None);
    return value;
}

/* What the function may do to this iterator leaves it whole: nothing of it is used but `taken` afterwards. */
static PyObject *put_through(BlockIterator *self, PyObject *value) {
    PyObject *function = self->function;
    Py_INCREF(function);
    PyObject *result = PyObject_CallFunctionObjArgs(function, value, NULL);
    Py_DECREF(function);
    Py_DECREF(value);
    return result;
}

static PyObject *next(BlockIterator *self) {
    while (self->values == NULL || self->place >= PyList_Size(self->values)) {
        Py_CLEAR(self->values);
        PyObject *values = PyObject_CallMethod((PyObject *)self, "_next_block", NULL);
        if (values == NULL) return fail(self);
        if (values == Py_None) {
            Py_DECREF(values);
            PyObject *closed = PyObject_CallMethod((PyObject *)self, "close", NULL);
            Py_XDECREF(closed);
            return NULL; /* the end, or an error of close() */
        }
        if (!PyList_Check(values)) {
            Py_DECREF(values);
            PyErr_SetString(PyExc_TypeError, "_next_block() must return a list or None.");
            return fail(self);
        }
        PyObject *before = self->values; /* none, unless _next_block() called next() */
        self->values = values;
        self->place = 0;
        Py_XDECREF(before);
    }
    PyObject *value = take(self);
    if (value != NULL && self->function != NULL) value = put_through(self, value);
    if (value == NULL) return fail(self);
    self->taken++;
    return value;
}

PyDoc_STRVAR(forget_doc, "_forget()\n--\n\nLets go of the values that were not handed out.");

static PyObject *forget(BlockIterator *self, PyObject *Py_UNUSED(ignored)) {
    Py_CLEAR(self->values);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(use_doc, "_use(function)\n--\n\n"
                      "Sets what each value is put through when it is handed out; None for nothing.");

static PyObject *use(BlockIterator *self, PyObject *function) {
    PyObject *before = self->function;
    self->function = function == Py_None ? NULL : function;
    Py_XINCREF(self->function);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(close_doc, "close()\n--\n\nDoes nothing; for a subclass to override.");

static PyObject *do_nothing(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored)) { Py_RETURN_NONE; }

static PyMethodDef methods[] = {
    {"_forget", (PyCFunction)(void (*)(void))forget, METH_NOARGS, forget_doc},
    {"close", do_nothing, METH_NOARGS, close_doc},
    {"_use", (PyCFunction)(void (*)(void))use, METH_O, use_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"_taken", T_LONGLONG, offsetof(BlockIterator, taken), 0, "How many values were handed out; may be set."},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(type_doc, "Hands out the values of the lists that _next_block() returns, until it returns None.\n\n"
                       "A subclass has _next_block(), and close(), which is called at the end and at an error.");

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)type_doc},    {Py_tp_traverse, traverse},  {Py_tp_clear, clear},
    {Py_tp_dealloc, dealloc},         {Py_tp_iter, PyObject_SelfIter}, {Py_tp_iternext, next},
    {Py_tp_methods, methods},         {Py_tp_members, members},    {0, NULL},
};

static PyType_Spec spec = {
    .name = "beam_datasets.native._core.BlockIterator",
    .basicsize = sizeof(BlockIterator),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int iterator_add(PyObject *module) {
    PyObject *type = PyType_FromSpec(&spec);
    if (type == NULL) return -1;
    int failed = PyModule_AddObjectRef(module, "BlockIterator", type);
    Py_DECREF(type);
    return failed;
}
