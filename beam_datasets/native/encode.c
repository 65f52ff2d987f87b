/* Dicts -> tf.train.Example: a template is made once of the features of a dict, and encodes dicts by it.
 *
 * Only values of the kinds of features/base.py are encoded here. All else is passed to the field's own encoder in
 * Python, which also raises the errors, and the entries that it returns are put in their place; so what is accepted,
 * what is refused and what is written are those of Python.
 *
 * All is done with the GIL.
 */
#include "encode.h"

#define MAX_KEPT (1 << 20) /* bytes of a buffer that are kept for the next example */
#define TEMPLATE "beam_datasets.native.template"
#define FEW 64 /* fields whose values are held on the stack */

typedef struct {
    Py_ssize_t count;
    Field *fields;
    PyObject *fallback;    /* from a value that is not a plain dict of the fields to its entries */
    PyObject *types_tuple; /* what the types are borrowed from */
    Types types;
    int whole; /* with the head of a record before the entries */
    Buffer spare;
} Template;

/* --------------------------------------------------------------------------------------------------------- examples */

/* Appends the entries that a Python function makes of a value. */
static Result put_python(Buffer *buffer, PyObject *function, PyObject *value) {
    PyObject *entries = PyObject_CallFunctionObjArgs(function, value, NULL);
    if (entries == NULL) return FAILED;
    char *data;
    Py_ssize_t size;
    Result done = FAILED;
    if (PyBytes_AsStringAndSize(entries, &data, &size) == 0 && buffer_reserve(buffer, (size_t)size)) {
        memcpy(buffer->data + buffer->size, data, (size_t)size);
        buffer->size += (size_t)size;
        done = DONE;
    }
    Py_DECREF(entries);
    return done;
}

static Result put_field(Buffer *buffer, const Template *self, const Field *field, PyObject *value) {
    if (field->optional && value == Py_None) return DONE;
    Result done = put_value(buffer, &self->types, field, value);
    return done == FALLBACK ? put_python(buffer, field->part, value) : done;
}

/* Finds the values of a plain dict that has the template's keys and no others. They are new references. */
static Result values_of(const Template *self, PyObject *example, PyObject **values) {
    if (!PyDict_CheckExact(example) || PyDict_Size(example) != self->count) return FALLBACK;
    Result found = DONE;
    Py_ssize_t i = 0;
    for (; i < self->count; i++) {
        values[i] = PyDict_GetItemWithError(example, self->fields[i].key);
        if (values[i] == NULL) {
            found = PyErr_Occurred() ? FAILED : FALLBACK;
            break;
        }
        Py_INCREF(values[i]);
    }
    if (found != DONE)
        while (i-- > 0) Py_DECREF(values[i]);
    return found;
}

static Result put_example(Buffer *buffer, const Template *self, PyObject *example) {
    PyObject *few[FEW], **values = few;
    if (self->count > FEW) {
        values = PyMem_Malloc((size_t)self->count * sizeof *values);
        if (values == NULL) {
            PyErr_NoMemory();
            return FAILED;
        }
    }
    Result done = values_of(self, example, values);
    if (done == DONE) {
        for (Py_ssize_t i = 0; i < self->count && done == DONE; i++)
            done = put_field(buffer, self, &self->fields[i], values[i]);
        for (Py_ssize_t i = 0; i < self->count; i++) Py_DECREF(values[i]);
    } else if (done == FALLBACK) {
        done = put_python(buffer, self->fallback, example);
    }
    if (values != few) PyMem_Free(values);
    return done;
}

/* Puts the head of a record, where the template has one, before the entries that begin somewhere in the buffer and go
 * to its end; returns where the record begins then. There is space for 1 + MAX_VARINT bytes before the entries. */
static size_t put_record_head(Buffer *buffer, const Template *self, size_t entries) {
    if (!self->whole) return entries;
    size_t size = buffer->size - entries, head = 1 + varint_size(size);
    uint8_t length[MAX_VARINT + SLACK], *start = buffer->data + entries - head;
    put_varint(length, size);
    start[0] = 0x0A;
    memcpy(start + 1, length, head - 1);
    return entries - head;
}

/* Returns the entries of an example, or its record. */
static PyObject *encode(PyObject *capsule, PyObject *example) {
    Template *self = PyCapsule_GetPointer(capsule, TEMPLATE);
    if (self == NULL) return NULL;
    Buffer buffer = self->spare; /* taken out: Python code that is called from here may call here */
    self->spare = (Buffer){NULL, 0, 0};
    buffer.size = 1 + MAX_VARINT;
    PyObject *result = NULL;
    if (buffer_reserve(&buffer, 0) && put_example(&buffer, self, example) == DONE) {
        size_t start = put_record_head(&buffer, self, 1 + MAX_VARINT);
        result = PyBytes_FromStringAndSize((const char *)buffer.data + start, (Py_ssize_t)(buffer.size - start));
    }
    if (self->spare.data == NULL && buffer.capacity <= MAX_KEPT) {
        self->spare = buffer;
    } else {
        PyMem_Free(buffer.data);
    }
    return result;
}

/* The template of a function that `encoder` made; NULL for another function. */
static Template *template_of(PyObject *function) {
    if (!PyObject_TypeCheck(function, &PyCFunction_Type) || PyCFunction_GetFunction(function) != encode) return NULL;
    return PyCapsule_GetPointer(PyCFunction_GetSelf(function), TEMPLATE);
}

Result put_record(Buffer *buffer, PyObject *function, PyObject *example, size_t *start) {
    const Template *self = template_of(function);
    if (!buffer_reserve(buffer, 1 + MAX_VARINT)) return FAILED;
    size_t entries = *start = buffer->size += 1 + MAX_VARINT;
    if (self == NULL) return put_python(buffer, function, example);
    if (put_example(buffer, self, example) != DONE) return FAILED;
    *start = put_record_head(buffer, self, entries);
    return DONE;
}

/* -------------------------------------------------------------------------------------------------------- templates */

static void free_template(Template *self) {
    for (Py_ssize_t i = 0; self->fields != NULL && i < self->count; i++) {
        Field *field = &self->fields[i];
        Py_XDECREF(field->key);
        Py_XDECREF(field->part);
        Py_XDECREF(field->name);
        Py_XDECREF(field->format);
    }
    PyMem_Free(self->fields);
    PyMem_Free(self->spare.data);
    Py_XDECREF(self->fallback);
    Py_XDECREF(self->types_tuple);
    PyMem_Free(self);
}

static void destroy(PyObject *capsule) { free_template(PyCapsule_GetPointer(capsule, TEMPLATE)); }

static int read_shape(Field *field, PyObject *shape) {
    Py_ssize_t dimensions = PyTuple_Size(shape);
    if (dimensions > MAX_DIMENSIONS) {
        PyErr_Format(PyExc_ValueError, "an array of %zd dimensions; at most %d", dimensions, MAX_DIMENSIONS);
        return 0;
    }
    field->dimensions = (int)dimensions;
    for (int i = 0; i < field->dimensions; i++) {
        field->shape[i] = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
        if (field->shape[i] == -1 && PyErr_Occurred()) return 0;
    }
    return 1;
}

static int read_field(Field *field, PyObject *given) {
    PyObject *key, *part, *name, *format, *shape;
    int kind, element;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a field is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(given, "ippUOSLKCnSO!:field", &kind, &field->optional, &field->rounding, &key, &part, &name,
                          &field->low, &field->high, &element, &field->element_size, &format, &PyTuple_Type, &shape))
        return 0;
    Py_ssize_t size = field->element_size;
    int number = (element == '?' && size == 1) || (element == 'f' && (size == 4 || size == 8)) ||
                 ((element == 'i' || element == 'u') && (size == 1 || size == 2 || size == 4 || size == 8));
    if (kind < 0 || kind >= KINDS || (kind == INTEGERS && (!number || element == 'f')) ||
        (kind == FLOATS && (!number || element != 'f'))) {
        PyErr_Format(PyExc_ValueError, "a field of kind %d with elements of %zd bytes", kind, size);
        return 0;
    }
    field->kind = (Kind)kind;
    field->element = (char)element;
    field->key = Py_NewRef(key);
    field->part = Py_NewRef(part);
    field->name = Py_NewRef(name);
    field->format = Py_NewRef(format);
    return read_shape(field, shape);
}

static int read_template(Template *self, PyObject *fields, PyObject *fallback, PyObject *types) {
    self->fallback = Py_NewRef(fallback);
    self->types_tuple = Py_NewRef(types);
    Types *t = &self->types;
    if (!PyArg_ParseTuple(types, "OO!O!O!:types", &t->array, &PyTuple_Type, &t->booleans, &PyTuple_Type, &t->integers,
                          &PyTuple_Type, &t->floats))
        return 0;
    self->fields = PyMem_Calloc((size_t)PyList_Size(fields) + 1, sizeof *self->fields);
    if (self->fields == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    for (self->count = 0; self->count < PyList_Size(fields);) {
        Field *field = &self->fields[self->count++];
        if (!read_field(field, PyList_GetItem(fields, self->count - 1))) return 0;
    }
    return 1;
}

static PyMethodDef encode_method = {"encode", encode, METH_O, "Returns the entries of an example, or its record."};

static PyObject *encoder(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *fields, *fallback, *types;
    int whole;
    if (!PyArg_ParseTuple(args, "O!OO!p:encoder", &PyList_Type, &fields, &fallback, &PyTuple_Type, &types, &whole))
        return NULL;
    Template *self = PyMem_Calloc(1, sizeof *self);
    if (self == NULL) return PyErr_NoMemory();
    self->whole = whole;
    PyObject *capsule = read_template(self, fields, fallback, types) ? PyCapsule_New(self, TEMPLATE, destroy) : NULL;
    if (capsule == NULL) {
        free_template(self);
        return NULL;
    }
    PyObject *function = PyCFunction_New(&encode_method, capsule);
    Py_DECREF(capsule);
    return function;
}

PyMethodDef encode_methods[] = {
    {"encoder", encoder, METH_VARARGS,
     "encoder(fields, fallback, types, whole): the function from a dict to its entries, or to its record."},
    {NULL, NULL, 0, NULL},
};
