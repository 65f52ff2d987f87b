/* BlockIterator: hands out the items of blocks one by one and counts them, without a Python frame for each.
 *
 * A subclass in Python reads the blocks. PlainBlockIterator in beam_datasets/reading/blocks.py does the same.
 */
#include "native.h"
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyObject *items;  /* a sequence, a list that nobody else has; NULL for none */
    PyObject *finish; /* NULL or None if items are handed out as they are */
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

/* Goes on to the next block; 0, or -1 with an exception, also at the end. */
static int go_on(BlockIterator *self) {
    Py_CLEAR(self->items); /* no items in memory while the next ones are read */
    PyObject *items = PyObject_CallMethodObjArgs((PyObject *)self, next_block, NULL);
    if (items == NULL) return -1;
    PyObject *before = self->items; /* not NULL if another thread has set it meanwhile */
    self->items = items;
    self->place = 0;
    Py_XDECREF(before);
    return 0;
}

/* Returns the next item. A list does not hold it any more, so that it is freed while a near cache has it. */
static PyObject *take(BlockIterator *self) {
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
    PyObject *item = n < 0 ? NULL : take(self);
    if (item == NULL || self->finish == NULL || self->finish == Py_None) return item;
    PyObject *made = PyObject_CallMethodObjArgs((PyObject *)self, finished, item, NULL);
    Py_DECREF(item);
    return made;
}

static PyMemberDef members[] = {
    {"_items", T_OBJECT, offsetof(BlockIterator, items), 0, "The block; set to () to drop it."},
    {"_finish", T_OBJECT, offsetof(BlockIterator, finish), 0, "If not None, _finished() is called for each item."},
    {"_taken", T_PYSSIZET, offsetof(BlockIterator, taken), 0, "How many items were handed out."},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(type_doc, "Hands out the items of the blocks that _next_block() returns; see PlainBlockIterator.");

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
