/* Dicts -> tf.train.Example: a template, created once from the features of a dict, encodes dicts.
 *
 * Only values of the kinds of features/base.py are encoded here. Other values are passed to the field's own encoder in
 * Python, which raises the errors, and the entries that it returns are inserted; so accepted values, errors and bytes
 * are the same as in Python.
 *
 * All functions need the GIL.
 */
#include "encode.h"
#include <math.h>

#define MAX_KEPT (1 << 20) /* bytes of a buffer that are kept for the next example */
#define TEMPLATE "beam_datasets.native.template"
#define FEW 64 /* fields whose values are held on the stack */

typedef struct {
    Py_ssize_t count;
    Field *fields;
    PyObject *fallback;    /* encodes a value that is not a plain dict of the fields */
    PyObject *types_tuple; /* owns the types */
    Types types;
    int whole; /* whether the record's head precedes the entries */
    Buffer spare;
} Template;

/* --------------------------------------------------------------------------------------------------------- examples */

/* Appends the entries that a Python function returns for a value. */
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

/* Gets new references to the values of a plain dict that has exactly the template's keys. */
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

/* Writes the head of a record, if the template has one, before the entries that end the buffer; returns the start of
 * the record. There is space for 1 + MAX_VARINT bytes before the entries. */
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
    Buffer buffer = self->spare; /* removed, because Python code that is called from here may call this function */
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

/* Returns the template of a function of `encoder`; NULL for another function. */
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

/* Values of Python and NumPy -> entries of a tf.train.Example. Values of another kind than the field's go to Python.
 *
 * formats/example.py describes the wire format.
 */
#define MAX_HEAD (4 * (1 + MAX_VARINT)) /* of an entry without its name */

enum { BYTES_LIST = 0x0A, FLOAT_LIST = 0x12, INT_LIST = 0x1A }; /* how a feature begins */

int buffer_reserve(Buffer *buffer, size_t more) {
    if (more > (size_t)PY_SSIZE_T_MAX - SLACK - buffer->size) {
        PyErr_NoMemory();
        return 0;
    }
    size_t wanted = buffer->size + more + SLACK;
    if (wanted <= buffer->capacity) return 1;
    size_t capacity = buffer->capacity < (size_t)PY_SSIZE_T_MAX / 2 ? 2 * buffer->capacity : wanted;
    if (capacity < wanted) capacity = wanted;
    if (capacity < 4096) capacity = 4096;
    uint8_t *data = PyMem_Realloc(buffer->data, capacity);
    if (data == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return 1;
}

/* ---------------------------------------------------------------------------------------------------------- entries */

/* Writes what stands in a field's entry before a feature of some bytes. */
static uint8_t *put_entry(uint8_t *out, const Field *field, size_t feature) {
    size_t name = (size_t)PyBytes_Size(field->name);
    *out++ = 0x0A;
    out = put_varint(out, name + varint_size(feature) + feature);
    memcpy(out, PyBytes_AsString(field->name), name);
    return put_varint(out + name, feature);
}

/* Writes what stands in a field's entry before the payload: of one value of bytes, or of a packed list of numbers. */
static uint8_t *put_head(uint8_t *out, const Field *field, int list, size_t payload) {
    size_t inner = 1 + varint_size(payload) + payload;
    out = put_entry(out, field, 1 + varint_size(inner) + inner);
    *out++ = (uint8_t)list;
    out = put_varint(out, inner);
    *out++ = 0x0A;
    return put_varint(out, payload);
}

static uint8_t *put_empty(uint8_t *out, const Field *field, int list) {
    out = put_entry(out, field, 2);
    *out++ = (uint8_t)list;
    *out++ = 0;
    return out;
}

static size_t head_size(const Field *field) { return MAX_HEAD + (size_t)PyBytes_Size(field->name); }

static Result put_bytes(Buffer *buffer, const Field *field, const void *data, size_t size) {
    if (!buffer_reserve(buffer, size) || !buffer_reserve(buffer, head_size(field) + size)) return FAILED;
    uint8_t *out = put_head(buffer->data + buffer->size, field, BYTES_LIST, size);
    memcpy(out, data, size);
    buffer->size = (size_t)(out + size - buffer->data);
    return DONE;
}

/* Begins a packed list: returns where its payload, of at most so many numbers of so many bytes, may be written. */
static uint8_t *begin_list(Buffer *buffer, const Field *field, size_t count, size_t size) {
    size_t gap = head_size(field) + SLACK;
    if (count > ((size_t)PY_SSIZE_T_MAX - gap) / size) {
        PyErr_NoMemory();
        return NULL;
    }
    return buffer_reserve(buffer, gap + count * size) ? buffer->data + buffer->size + gap : NULL;
}

/* Ends it: writes the head, which ends before the payload begins, and moves the payload to there. */
static void end_list(Buffer *buffer, const Field *field, int list, const uint8_t *stop) {
    uint8_t *out = buffer->data + buffer->size;
    const uint8_t *payload = out + head_size(field) + SLACK;
    size_t size = (size_t)(stop - payload);
    out = size ? put_head(out, field, list, size) : put_empty(out, field, list);
    memmove(out, payload, size);
    buffer->size = (size_t)(out + size - buffer->data);
}

/* ----------------------------------------------------------------------------------------------------------- values */

static int is_one_of(PyObject *value, PyObject *types) {
    PyObject *type = (PyObject *)Py_TYPE(value);
    for (Py_ssize_t i = 0; i < PyTuple_Size(types); i++)
        if (PyTuple_GetItem(types, i) == type) return 1;
    return 0;
}

static Result fall_back(void) {
    PyErr_Clear();
    return FALLBACK;
}

/* Finds the bytes of a plain str or bytes. */
static Result bytes_of(PyObject *value, const char **data, Py_ssize_t *size) {
    if (PyUnicode_CheckExact(value)) {
        *data = PyUnicode_AsUTF8AndSize(value, size);
        return *data == NULL ? fall_back() : DONE; /* half of a surrogate pair */
    }
    if (!PyBytes_CheckExact(value)) return FALLBACK;
    *data = PyBytes_AsString(value);
    *size = PyBytes_Size(value);
    return DONE;
}

/* Finds a plain int as the 64 bits that are stored, if it lies within the bounds. */
static Result int_of(const Field *field, PyObject *value, uint64_t *number) {
    int overflow;
    long long found = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow > 0 && field->high > (unsigned long long)INT64_MAX) {
        *number = PyLong_AsUnsignedLongLong(value);
        if (PyErr_Occurred()) return fall_back();
        return *number <= field->high ? DONE : FALLBACK;
    }
    if (overflow) return FALLBACK;
    if (found == -1 && PyErr_Occurred()) return fall_back();
    *number = (uint64_t)found;
    return found >= field->low && (found < 0 || *number <= field->high) ? DONE : FALLBACK;
}

static Result put_text(Buffer *buffer, const Field *field, PyObject *value) {
    const char *data;
    Py_ssize_t size;
    Result found = bytes_of(value, &data, &size);
    return found == DONE ? put_bytes(buffer, field, data, (size_t)size) : found;
}

static Result put_integer(Buffer *buffer, const Types *types, const Field *field, PyObject *value) {
    uint64_t number;
    if (PyLong_CheckExact(value)) {
        if (int_of(field, value, &number) != DONE) return FALLBACK;
    } else if (PyBool_Check(value) || is_one_of(value, types->booleans)) {
        int truth = PyObject_IsTrue(value);
        if (truth < 0) return fall_back();
        number = (uint64_t)truth;
        if (number > field->high) return FALLBACK;
    } else if (is_one_of(value, types->integers)) {
        PyObject *index = PyNumber_Index(value);
        if (index == NULL) return fall_back();
        Result found = int_of(field, index, &number);
        Py_DECREF(index);
        if (found != DONE) return FALLBACK;
    } else {
        return FALLBACK;
    }
    if (!buffer_reserve(buffer, head_size(field) + MAX_VARINT)) return FAILED;
    uint8_t *out = put_head(buffer->data + buffer->size, field, INT_LIST, varint_size(number));
    buffer->size = (size_t)(put_varint(out, number) - buffer->data);
    return DONE;
}

#define INEXACT 9007199254740992.0 /* 2^53: the first integer that the next one becomes as a double */

static Result put_float(Buffer *buffer, const Types *types, const Field *field, PyObject *value) {
    if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value) && !is_one_of(value, types->floats)) return FALLBACK;
    double number = PyFloat_AsDouble(value);
    if (number == -1 && PyErr_Occurred()) return fall_back();
    float narrow = (float)number;
    /* The bits of a NaN are the interpreter's affair. What is not exact is an error, which Python raises; the double
     * of a larger int may be rounded itself. */
    int differs = field->rounding ? isnan(number) || (isinf(narrow) && !isinf(number)) : (double)narrow != number;
    if (differs) return FALLBACK;
    if (fabs(number) >= INEXACT && PyLong_CheckExact(value)) return FALLBACK;
    if (!buffer_reserve(buffer, head_size(field) + sizeof narrow)) return FAILED;
    uint8_t *out = put_head(buffer->data + buffer->size, field, FLOAT_LIST, sizeof narrow);
    memcpy(out, &narrow, sizeof narrow);
    buffer->size = (size_t)(out + sizeof narrow - buffer->data);
    return DONE;
}

/* ------------------------------------------------------------------------------------------------ lists of values */

static Py_ssize_t items_of(const Field *field, PyObject *value) { /* of a plain list or tuple that fits, else -1 */
    Py_ssize_t count = -1;
    if (PyList_CheckExact(value)) count = PyList_Size(value);
    if (PyTuple_CheckExact(value)) count = PyTuple_Size(value);
    return field->dimensions == 1 && (field->shape[0] < 0 || field->shape[0] == count) ? count : -1;
}

static PyObject *item_of(PyObject *value, Py_ssize_t i) {
    return PyList_CheckExact(value) ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i);
}

static Result put_texts(Buffer *buffer, const Field *field, PyObject *value) {
    Py_ssize_t count = items_of(field, value);
    if (count < 0) return FALLBACK;
    size_t total = 0;
    const char *data = NULL;
    Py_ssize_t size = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (bytes_of(item_of(value, i), &data, &size) != DONE) return FALLBACK;
        total += 1 + varint_size((size_t)size) + (size_t)size;
        if (total > (size_t)PY_SSIZE_T_MAX / 2) return FALLBACK;
    }
    if (!buffer_reserve(buffer, total) || !buffer_reserve(buffer, head_size(field) + total)) return FAILED;
    uint8_t *out = put_entry(buffer->data + buffer->size, field, 1 + varint_size(total) + total);
    *out++ = BYTES_LIST;
    out = put_varint(out, total);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (bytes_of(item_of(value, i), &data, &size) != DONE) return FALLBACK;
        *out++ = 0x0A;
        out = put_varint(out, (size_t)size);
        memcpy(out, data, (size_t)size);
        out += size;
    }
    buffer->size = (size_t)(out - buffer->data);
    return DONE;
}

static Result put_integer_list(Buffer *buffer, const Field *field, PyObject *value) {
    Py_ssize_t count = items_of(field, value);
    if (count < 0) return FALLBACK;
    uint8_t *out = begin_list(buffer, field, (size_t)count, MAX_VARINT);
    if (out == NULL) return FAILED;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = item_of(value, i);
        uint64_t number;
        if (field->element == '?' ? !PyBool_Check(item) : !PyLong_CheckExact(item)) return FALLBACK;
        if (int_of(field, item, &number) != DONE) return FALLBACK;
        out = put_varint(out, number);
    }
    end_list(buffer, field, INT_LIST, out);
    return DONE;
}

/* Writes doubles as floats; false where one is not exact or, with rounding, would become an infinity: an error, which
 * Python raises. Compilers make vectors of these loops. */
static int narrow_all(uint8_t *out, const char *doubles, size_t count, int rounding) {
    unsigned wrong = 0;
    double number;
    for (size_t i = 0; i < count; i++) {
        memcpy(&number, doubles + i * sizeof number, sizeof number);
        float narrow = (float)number;
        memcpy(out + i * sizeof narrow, &narrow, sizeof narrow);
        double stored = narrow;
        wrong |= rounding ? isinf(stored) && !isinf(number) : (stored != number) & (number == number);
    }
    return !wrong;
}

static Result put_float_list(Buffer *buffer, const Field *field, PyObject *value) {
    Py_ssize_t count = items_of(field, value);
    if (count < 0) return FALLBACK;
    uint8_t *out = begin_list(buffer, field, (size_t)count, sizeof(float));
    if (out == NULL) return FAILED;
    for (Py_ssize_t i = 0; i < count; i++, out += sizeof(float)) {
        PyObject *item = item_of(value, i);
        if (!PyFloat_CheckExact(item)) return FALLBACK;
        double number = PyFloat_AsDouble(item);
        if (!narrow_all(out, (const char *)&number, 1, field->rounding)) return FALLBACK;
    }
    end_list(buffer, field, FLOAT_LIST, out);
    return DONE;
}

/* ---------------------------------------------------------------------------------------------------------- arrays */

/* Gets the buffer of a NumPy array of the field's dtype and shape, whose elements stand in C order without gaps. */
static Result open_array(const Types *types, const Field *field, PyObject *value, Py_buffer *view) {
    if ((PyObject *)Py_TYPE(value) != types->array) return FALLBACK;
    if (PyObject_GetBuffer(value, view, PyBUF_RECORDS_RO) < 0) return fall_back();
    int fits = view->ndim == field->dimensions && view->itemsize == field->element_size && view->format != NULL &&
               strcmp(view->format, PyBytes_AsString(field->format)) == 0 && PyBuffer_IsContiguous(view, 'C');
    for (int i = 0; fits && i < view->ndim; i++) fits = field->shape[i] < 0 || view->shape[i] == field->shape[i];
    if (fits) return DONE;
    PyBuffer_Release(view);
    return FALLBACK;
}

/* Writes the varints of `count` numbers of a C type; NULL where one does not fit. */
#define PUT_VARINTS(type, wide, fits)                   \
    for (size_t i = 0; i < count; i++) {                \
        type number;                                    \
        memcpy(&number, data + i * sizeof number, sizeof number); \
        if (!(fits)) return NULL;                       \
        out = put_varint(out, (uint64_t)(wide)number);  \
    }                                                   \
    return out

static uint8_t *put_varints(uint8_t *out, const Field *field, const char *data, size_t count) {
    const long long low = field->low;
    const unsigned long long high = field->high;
    switch (field->element << 4 | (int)field->element_size) {
        case '?' << 4 | 1: PUT_VARINTS(uint8_t, uint64_t, number < 2);
        case 'i' << 4 | 1: PUT_VARINTS(int8_t, int64_t, 1);
        case 'i' << 4 | 2: PUT_VARINTS(int16_t, int64_t, 1);
        case 'i' << 4 | 4: PUT_VARINTS(int32_t, int64_t, 1);
        case 'i' << 4 | 8: PUT_VARINTS(int64_t, int64_t, number >= low && (number < 0 || (uint64_t)number <= high));
        case 'u' << 4 | 1: PUT_VARINTS(uint8_t, uint64_t, 1);
        case 'u' << 4 | 2: PUT_VARINTS(uint16_t, uint64_t, 1);
        case 'u' << 4 | 4: PUT_VARINTS(uint32_t, uint64_t, 1);
        case 'u' << 4 | 8: PUT_VARINTS(uint64_t, uint64_t, 1);
    }
    return NULL;
}

static Result put_integers(Buffer *buffer, const Field *field, const Py_buffer *view) {
    size_t count = (size_t)(view->len / view->itemsize);
    size_t size = field->element == 'i' ? MAX_VARINT : (8 * (size_t)view->itemsize + 6) / 7;
    uint8_t *out = begin_list(buffer, field, count, size);
    if (out == NULL) return FAILED;
    out = put_varints(out, field, view->buf, count);
    if (out == NULL) return FALLBACK;
    end_list(buffer, field, INT_LIST, out);
    return DONE;
}

static Result put_floats(Buffer *buffer, const Field *field, const Py_buffer *view) {
    size_t count = (size_t)(view->len / view->itemsize);
    uint8_t *out = begin_list(buffer, field, count, sizeof(float));
    if (out == NULL) return FAILED;
    if (view->itemsize == sizeof(float)) {
        memcpy(out, view->buf, count * sizeof(float));
    } else if (!narrow_all(out, view->buf, count, field->rounding)) {
        return FALLBACK;
    }
    end_list(buffer, field, FLOAT_LIST, out + count * sizeof(float));
    return DONE;
}

static Result put_array(Buffer *buffer, const Types *types, const Field *field, PyObject *value) {
    Py_buffer view;
    Result found = open_array(types, field, value, &view);
    if (found != DONE) return found;
    if (field->kind == INTEGERS) {
        found = put_integers(buffer, field, &view);
    } else if (field->kind == FLOATS) {
        found = put_floats(buffer, field, &view);
    } else {
        found = put_bytes(buffer, field, view.buf, (size_t)view.len);
    }
    PyBuffer_Release(&view);
    return found;
}

Result put_value(Buffer *buffer, const Types *types, const Field *field, PyObject *value) {
    Result done;
    switch (field->kind) {
        case TEXT: return put_text(buffer, field, value);
        case INTEGER: return put_integer(buffer, types, field, value);
        case FLOAT: return put_float(buffer, types, field, value);
        case TEXTS: return put_texts(buffer, field, value);
        case INTEGERS:
            done = put_array(buffer, types, field, value);
            return done == FALLBACK ? put_integer_list(buffer, field, value) : done;
        case FLOATS:
            done = put_array(buffer, types, field, value);
            return done == FALLBACK ? put_float_list(buffer, field, value) : done;
        case RAW: return put_array(buffer, types, field, value);
        default: return FALLBACK;
    }
}
