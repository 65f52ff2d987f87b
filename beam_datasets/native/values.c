/* Values of Python and NumPy -> entries of a tf.train.Example. Other values than a field's kind are left to Python.
 *
 * formats/example.py describes the wire format.
 */
#include "encode.h"

#include <math.h>

#define MAX_HEAD (4 * (1 + MAX_VARINT)) /* of an entry, its name apart */

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
