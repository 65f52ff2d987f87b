/* The schema of parse(): which features are wanted of records, and how they are found by their names. */
#include "decode.h"
#include <stdlib.h>

#define MOST_FIELDS (1 << 20)

static size_t hash_of(Span name) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    while (name.at < name.end) hash = (hash ^ *name.at++) * 16777619u;
    return hash ^ hash >> 15;
}

/* Returns the place in the table that the name has or would have. */
static size_t place_of(const Schema *schema, Span name) {
    size_t place = hash_of(name) & schema->mask;
    while (schema->table[place] >= 0 && !same(schema->fields[schema->table[place]].name, name))
        place = (place + 1) & schema->mask;
    return place;
}

const Field *schema_find(const Schema *schema, Span name) {
    int32_t field = schema->table[place_of(schema, name)];
    return field < 0 ? NULL : schema->fields + field;
}

static void schema_free(Schema *schema) {
    if (schema == NULL) return;
    for (Py_ssize_t i = 0; i < schema->num_fields; i++) Py_XDECREF(schema->fields[i].object);
    PyMem_Free(schema->fields);
    PyMem_Free(schema->groups);
    PyMem_Free(schema->table);
    PyMem_Free(schema);
}

static void capsule_free(PyObject *capsule) { schema_free(PyCapsule_GetPointer(capsule, SCHEMA)); }

static int check_group(const Group *group) {
    int numbers = group->kind == FLOATS || group->kind == INTEGERS;
    if (!numbers && group->kind != BYTES) {
        PyErr_Format(PyExc_ValueError, "a group is of kind %d", group->kind);
    } else if (group->count < (numbers ? PADDED : ANY) || group->count == 0 || group->count > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "a group of kind %d has %zd values", group->kind, group->count);
    } else if (group->count < 0 && group->num != 1) {
        PyErr_Format(PyExc_ValueError, "a group of kind %d and any number of values has %zd names", group->kind,
                     group->num);
    } else {
        return 0;
    }
    return -1;
}

/* Adds a name to the table; there must be space for it. */
static int add_name(Schema *schema, PyObject *name, Py_ssize_t group, Py_ssize_t slot) {
    char *start;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(name, &start, &size) < 0) return -1;
    Field *field = schema->fields + schema->num_fields;
    *field = (Field){name, {(uint8_t *)start, (uint8_t *)start + size}, group, slot};
    size_t place = place_of(schema, field->name);
    if (schema->table[place] >= 0) {
        PyErr_Format(PyExc_ValueError, "the name %R is there twice", name);
        return -1;
    }
    Py_INCREF(name);
    schema->table[place] = (int32_t)schema->num_fields++;
    return 0;
}

/* Makes groups and fields of the tuples that describe them. */
static int fill(Schema *schema, PyObject *groups) {
    for (Py_ssize_t i = 0; i < schema->num_groups; i++) {
        Group *group = schema->groups + i;
        PyObject *names;
        if (!PyArg_ParseTuple(PyTuple_GetItem(groups, i), "inpO!:schema", &group->kind, &group->count,
                              &group->optional, &PyTuple_Type, &names))
            return -1;
        group->num = PyTuple_Size(names);
        if (check_group(group) < 0) return -1;
        for (Py_ssize_t slot = 0; slot < group->num; slot++)
            if (add_name(schema, PyTuple_GetItem(names, slot), i, slot) < 0) return -1;
    }
    return 0;
}

/* Returns how many names the groups have, or -1. */
static Py_ssize_t count_names(PyObject *groups) {
    Py_ssize_t total = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(groups); i++) {
        PyObject *group = PyTuple_GetItem(groups, i);
        PyObject *names = PyTuple_Check(group) && PyTuple_Size(group) == 4 ? PyTuple_GetItem(group, 3) : NULL;
        if (names == NULL || !PyTuple_Check(names)) {
            PyErr_SetString(PyExc_TypeError, "a group is a tuple (kind, count, optional, tuple of names)");
            return -1;
        }
        total += PyTuple_Size(names);
        if (total > MOST_FIELDS) {
            PyErr_Format(PyExc_ValueError, "there are more than %d names", MOST_FIELDS);
            return -1;
        }
    }
    return total;
}

static Schema *schema_new(PyObject *groups) {
    Py_ssize_t total = count_names(groups), num_groups = PyTuple_Size(groups);
    if (total < 0) return NULL;
    Schema *schema = PyMem_Calloc(1, sizeof *schema);
    if (schema == NULL) return (Schema *)PyErr_NoMemory();
    for (schema->mask = 7; schema->mask < (size_t)(2 * total); schema->mask = 2 * schema->mask + 1) {}
    schema->num_groups = num_groups;
    schema->groups = PyMem_Calloc((size_t)num_groups + 1, sizeof *schema->groups);
    schema->fields = PyMem_Calloc((size_t)total + 1, sizeof *schema->fields);
    schema->table = PyMem_Malloc((schema->mask + 1) * sizeof *schema->table);
    if (schema->groups == NULL || schema->fields == NULL || schema->table == NULL) {
        PyErr_NoMemory();
    } else {
        memset(schema->table, -1, (schema->mask + 1) * sizeof *schema->table);
        if (fill(schema, groups) == 0) return schema;
    }
    schema_free(schema);
    return NULL;
}

/* Lets glibc keep what is freed at the end of each heap, up to 64 MB there, for the next batch.
 *
 * Otherwise it gives the arrays of a batch back to the system, and gets them again as pages to be filled with zeros,
 * which takes as long as decoding does. It does so until a piece of up to 32 MB was freed for the first time; from then
 * on it thinks that there will be more of them (mallopt(3), M_MMAP_THRESHOLD). So one is freed that nobody has written
 * to. What MALLOC_TRIM_THRESHOLD_ says in the environment holds still. */
static void keep_memory(void) {
#if defined(__GLIBC__)
    static int done;
    if (done++) return;
    void *volatile piece = malloc((32 << 20) - (64 << 10)); /* volatile: or the compiler leaves both calls out */
    free(piece);
#endif
}

PyDoc_STRVAR(schema_doc,
             "schema(groups, /)\n--\n\n"
             "Returns what parse() takes: which features are wanted, in groups that are parsed in one piece.\n\n"
             "A group is (kind, count, optional, names), see formats/columns.py. Its kind is 10 for bytes, 18 for\n"
             "floats, 26 for integers, as the tag of the list. Its count is the number of values in each record: 1\n"
             "and more; with one name also -1 for any number, -2 (of numbers) for the same filled up with zeros. If\n"
             "it is optional, records need not have its features. Names are bytes.");

static PyObject *py_schema(PyObject *Py_UNUSED(module), PyObject *groups) {
    if (!PyTuple_Check(groups)) return PyErr_Format(PyExc_TypeError, "groups must be a tuple");
    Schema *schema = schema_new(groups);
    if (schema == NULL) return NULL;
    keep_memory(); /* a schema is made to decode */
    PyObject *capsule = PyCapsule_New(schema, SCHEMA, capsule_free);
    if (capsule == NULL) schema_free(schema);
    return capsule;
}

PyMethodDef schema_methods[] = {
    {"schema", py_schema, METH_O, schema_doc},
    {NULL, NULL, 0, NULL},
};
