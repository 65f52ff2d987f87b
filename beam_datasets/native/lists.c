/* Lists of numbers in a record: packed or not, as protobuf reads them.
 *
 * The start of a varint depends on the length of the one before. So the ends of all varints in 64 bytes are found
 * first. With AVX2, groups of four varints of one to three bytes, such as tokens, labels and pixels, are moved to their
 * places by a shuffle for their sequence of lengths (J. Plaisance, N. Kurz and D. Lemire, "Vectorized VByte Decoding").
 * BMI2 is not used: some processors with AVX2 need a hundred cycles for pext.
 */
#include "decode.h"

#define MIN_PACKED 32 /* bytes; varints of shorter lists are read one by one; measured */

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline)) /* also into functions for other processors */
#else
#define INLINE static inline
#endif

typedef uint64_t (*EndsOf)(const uint8_t *at);
typedef Py_ssize_t (*TakeGroups)(Span *rest, int64_t *numbers, Py_ssize_t capacity);

INLINE int first_bit(uint64_t word) {
#if defined(__GNUC__)
    return __builtin_ctzll(word);
#else
    int i = 0;
    while (!(word >> i & 1)) i++;
    return i;
#endif
}

/* -------------------------------------------------------------------------------------------------- any processor */

/* Returns a bit for each of 64 bytes: whether a varint ends there. */
static inline uint64_t ends_of(const uint8_t *at) {
    uint64_t ends = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t high = ~u64_at(at + 8 * i) >> 7 & 0x0101010101010101u;
        ends |= (high * 0x0102040810204080u >> 56) << 8 * i; /* the eight bits meet in the highest byte */
    }
    return ends;
}

/* The bits of a word that belong to the varint that it begins with, by the number of its bytes. */
static const uint64_t KEEP[9] = {
    0,
    0x7f,
    0x7f7f,
    0x7f7f7f,
    0x7f7f7f7f,
    0x7f7f7f7f7f,
    0x7f7f7f7f7f7f,
    0x7f7f7f7f7f7f7f,
    0x7f7f7f7f7f7f7f7f,
};

/* Joins the lower seven bits of the eight bytes of each word; the highest bits of the bytes are 0. */
INLINE void fold(uint64_t *words, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t word = words[i];
        word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
        word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
        words[i] = (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
    }
}

/* Removes a varint from the front; 0 if it has more than 64 bits. */
static inline int take_varint(Span *rest, int64_t *number) {
    uint64_t value = 0;
    for (int shift = 0; shift < 70 && rest->at < rest->end; shift += 7) {
        uint8_t byte = *rest->at++;
        if (shift == 63 && byte > 1) return 0;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte & 128) continue;
        *number = (int64_t)value;
        return 1;
    }
    return 0;
}

/* Removes up to `most` varints from the front, one by one; returns how many, or -1. */
static inline Py_ssize_t take_few(Span *rest, int64_t *numbers, Py_ssize_t capacity, Py_ssize_t most) {
    Py_ssize_t n = 0;
    for (; n < most && rest->at < rest->end; n++)
        if (n == capacity || !take_varint(rest, numbers + n)) return -1;
    return n;
}

/* Removes varints of at most eight bytes from the front, 64 bytes at a time; returns how many. */
INLINE Py_ssize_t take_many(Span *rest, uint64_t *numbers, Py_ssize_t capacity, EndsOf find_ends) {
    Py_ssize_t n = 0;
    while (rest->end - rest->at >= 72 && capacity - n >= 64) {
        int start = 0, some = 0;
        for (uint64_t ends = find_ends(rest->at); ends; ends &= ends - 1) {
            int stop = first_bit(ends) + 1;
            if (stop - start > 8) break;
            numbers[n + some++] = u64_at(rest->at + start) & KEEP[stop - start];
            start = stop;
        }
        fold(numbers + n, some);
        n += some;
        rest->at += start;
        if (start <= 56) break; /* a longer one follows */
    }
    return n;
}

/* Reads varints up to the end; returns how many, or -1. */
INLINE Py_ssize_t read_with(Span rest, int64_t *numbers, Py_ssize_t capacity, EndsOf find_ends,
                            TakeGroups take_groups) {
    Py_ssize_t n = 0, some;
    while (rest.at < rest.end) {
        if (take_groups != NULL) n += take_groups(&rest, numbers + n, capacity - n);
        n += take_many(&rest, (uint64_t *)numbers + n, capacity - n, find_ends);
        some = take_few(&rest, numbers + n, capacity - n, 32);
        if (some < 0) return -1;
        n += some;
    }
    return n;
}

static Py_ssize_t read_anywhere(Span rest, int64_t *numbers, Py_ssize_t capacity) {
    return read_with(rest, numbers, capacity, ends_of, NULL);
}

static Py_ssize_t count_anywhere(Span rest) {
    Py_ssize_t n = 0;
    while (rest.end - rest.at >= 8) {
        uint64_t sums = 0; /* of eight columns of bytes */
        for (int i = 0; i < 255 && rest.end - rest.at >= 8; i++, rest.at += 8)
            sums += ~u64_at(rest.at) >> 7 & 0x0101010101010101u;
        sums = (sums & 0x00ff00ff00ff00ffu) + (sums >> 8 & 0x00ff00ff00ff00ffu);
        n += (Py_ssize_t)(sums * 0x0001000100010001u >> 48);
    }
    while (rest.at < rest.end) n += *rest.at++ < 128;
    return n;
}

/* ------------------------------------------------------------------------------------------------------------ AVX2 */

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <stdlib.h>

#define TARGET __attribute__((target("avx2,bmi,popcnt")))
#define WINDOW 80 /* bytes that are read for the varints of the first 64 */

static uint8_t shuffles[81][16];    /* for four varints of each sequence of lengths: their bytes into 32 bits each */
static uint8_t shuffle_of[1 << 12]; /* by where varints end in the next twelve bytes */

static void make_shuffles(void) {
    memset(shuffles, 0x80, sizeof shuffles);
    for (int i = 0; i < 81; i++) {
        int at = 0, ends = 0;
        for (int k = 0, lengths = i; k < 4; k++, lengths /= 3) {
            for (int byte = 0; byte <= lengths % 3; byte++) shuffles[i][4 * k + byte] = (uint8_t)at++;
            ends |= 1 << (at - 1);
        }
        for (int behind = 0; behind < 1 << (12 - at); behind++) shuffle_of[ends | behind << at] = (uint8_t)i;
    }
}

TARGET static inline uint64_t ends_by_vector(const uint8_t *at) {
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)at));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)(at + 32)));
    return ~((uint64_t)high << 32 | low);
}

/* Reads the first four varints of 16 bytes. */
TARGET static inline void read_four(const uint8_t *at, uint64_t ends, int64_t *numbers) {
    __m128i shuffle = _mm_loadu_si128((const __m128i *)shuffles[shuffle_of[ends & 0xfff]]);
    __m128i bytes = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)at), shuffle);
    bytes = _mm_and_si128(bytes, _mm_set1_epi8(127));
    __m128i pairs = _mm_maddubs_epi16(_mm_set1_epi16((short)0x8001), bytes); /* first + 128 * second */
    __m128i four = _mm_madd_epi16(pairs, _mm_set1_epi32(1 | 1 << 30));       /* first + 16384 * second */
    _mm256_storeu_si256((__m256i *)numbers, _mm256_cvtepu32_epi64(four));
}

/* Removes groups of four varints of at most three bytes from the front; returns how many varints. */
TARGET static inline Py_ssize_t take_groups(Span *rest, int64_t *numbers, Py_ssize_t capacity) {
    uint8_t window[WINDOW];
    Py_ssize_t n = 0;
    while (rest->end - rest->at >= MIN_PACKED) {
        Py_ssize_t left = rest->end - rest->at;
        const uint8_t *at = rest->at;
        if (left < WINDOW) {
            memset(window, 0, WINDOW);
            at = memcpy(window, at, (size_t)left);
        }
        uint64_t ends = ends_by_vector(at);
        if (left < 64) ends &= ((uint64_t)1 << left) - 1;
        uint64_t longer = ~ends & ~ends >> 1 & ~ends >> 2; /* where three bytes follow on which another follows */
        ends &= (longer & -longer) - 1;                    /* those before the first of them */
        int start = 0, some = __builtin_popcountll(ends) & ~3;
        if (some == 0 || some > capacity - n) break;
        for (Py_ssize_t stop = n + some; n < stop; n += 4) {
            read_four(at + start, ends >> start, numbers + n);
            uint64_t last = ends & (ends - 1);
            last &= last - 1;
            last &= last - 1;
            start = first_bit(last) + 1;
            ends = last & (last - 1);
        }
        rest->at += start;
    }
    return n;
}

TARGET static Py_ssize_t read_by_vector(Span rest, int64_t *numbers, Py_ssize_t capacity) {
    return read_with(rest, numbers, capacity, ends_by_vector, take_groups);
}

TARGET static Py_ssize_t count_by_vector(Span rest) {
    Py_ssize_t n = 0;
    for (; rest.end - rest.at >= 64; rest.at += 64) n += __builtin_popcountll(ends_by_vector(rest.at));
    return n + count_anywhere(rest);
}

static int has_vectors(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
}

#else

#define make_shuffles() ((void)0)
#define has_vectors() 0
#define read_by_vector read_anywhere
#define count_by_vector count_anywhere

#endif

/* --------------------------------------------------------------------------------------------------------- choosing */

static int by_vector;

void lists_init(void) {
    by_vector = has_vectors();
    if (by_vector) make_shuffles();
}

static Py_ssize_t count_varints(Span values) { return by_vector ? count_by_vector(values) : count_anywhere(values); }

/* Reads varints up to the end; returns how many, or -1. */
static Py_ssize_t read_varints(Span values, int64_t *numbers, Py_ssize_t capacity) {
    if (values.end - values.at < MIN_PACKED) return take_few(&values, numbers, capacity, PY_SSIZE_T_MAX);
    return by_vector ? read_by_vector(values, numbers, capacity) : read_anywhere(values, numbers, capacity);
}

/* ----------------------------------------------------------------------------------------------------------- lists */

/* Removes the next values of a list from the front: one that is not packed, or a packed list. */
static int take_values(int kind, Span *list, Span *values) {
    uint8_t tag = *list->at;
    if (tag == VALUES) return take(list, VALUES, values);
    if (tag != (kind == FLOATS ? ONE_FLOAT : ONE_INTEGER)) return 0;
    Py_ssize_t size = 1, left = list->end - list->at - 1;
    if (kind == FLOATS)
        size = 4;
    else
        while (size < left && list->at[size] & 128) size++;
    if (size > left) return 0;
    *values = (Span){list->at + 1, list->at + 1 + size};
    list->at = values->end;
    return 1;
}

static Py_ssize_t read_floats(Span values, char *floats, Py_ssize_t capacity) {
    Py_ssize_t size = values.end - values.at;
    if (size % 4 || size / 4 > capacity) return -1;
    if (floats != NULL && size) memcpy(floats, values.at, (size_t)size);
    return size / 4;
}

Py_ssize_t read_numbers(int kind, Span list, char *numbers, Py_ssize_t capacity) {
    Py_ssize_t n = 0, some;
    while (list.at < list.end) {
        Span values;
        if (!take_values(kind, &list, &values)) return -1;
        char *place = numbers == NULL ? NULL : numbers + n * number_size(kind);
        if (kind == FLOATS)
            some = read_floats(values, place, capacity - n);
        else
            some = place == NULL ? count_varints(values) : read_varints(values, (int64_t *)place, capacity - n);
        if (some < 0 || some > capacity - n) return -1;
        n += some;
    }
    return n;
}

/* --------------------------------------------------------------------------------------------------------- methods */

static PyObject *py_varints(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *object;
    Py_buffer data;
    int portable;
    if (!PyArg_ParseTuple(args, "Op:varints", &object, &portable) || bytes_get(object, &data) < 0) return NULL;
    Span rest = {data.buf, (const uint8_t *)data.buf + data.len};
    Py_ssize_t n = portable ? count_anywhere(rest) : count_varints(rest);
    PyObject *array = PyByteArray_FromStringAndSize(NULL, n * 8);
    if (array != NULL) {
        int64_t *numbers = (int64_t *)PyByteArray_AsString(array);
        Py_ssize_t some = portable ? read_anywhere(rest, numbers, n) : read_varints(rest, numbers, n);
        if (some != n) {
            Py_DECREF(array);
            array = Py_NewRef(Py_None);
        }
    }
    PyBuffer_Release(&data);
    return array;
}

PyDoc_STRVAR(varints_doc,
             "varints(data, portable, /)\n--\n\n"
             "Returns the varints of the data as a bytearray of int64; None if one is too long or truncated.\n\n"
             "`portable` uses only instructions that all processors have.");

/* The schema of parse(): which features are wanted of records, and how they are found by their names. */
#define MAX_FIELDS (1 << 20)

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
        PyErr_Format(PyExc_ValueError, "the name %R occurs twice", name);
        return -1;
    }
    Py_INCREF(name);
    schema->table[place] = (int32_t)schema->num_fields++;
    return 0;
}

/* Sets groups and fields from the tuples that describe them. */
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
        if (total > MAX_FIELDS) {
            PyErr_Format(PyExc_ValueError, "there are more than %d names", MAX_FIELDS);
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

PyDoc_STRVAR(schema_doc,
             "schema(groups, /)\n--\n\n"
             "Returns the schema for parse(): the requested features, in groups whose values are one array.\n\n"
             "A group is (kind, count, optional, names), see formats/columns.py. `kind` is the tag of the list: 10\n"
             "for bytes, 18 for floats, 26 for integers. `count` is the number of values in each record, 1 or more;\n"
             "with one name also -1 for any number, or -2 for any number of numbers padded with zeros. Features of\n"
             "an optional group may be missing. Names are bytes.");

static PyObject *py_schema(PyObject *Py_UNUSED(module), PyObject *groups) {
    if (!PyTuple_Check(groups)) return PyErr_Format(PyExc_TypeError, "groups must be a tuple");
    Schema *schema = schema_new(groups);
    if (schema == NULL) return NULL;
    keep_memory();
    PyObject *capsule = PyCapsule_New(schema, SCHEMA, capsule_free);
    if (capsule == NULL) schema_free(schema);
    return capsule;
}

PyMethodDef lists_methods[] = {
    {"varints", py_varints, METH_VARARGS, varints_doc},
    {"schema", py_schema, METH_O, schema_doc},
    {NULL, NULL, 0, NULL},
};
