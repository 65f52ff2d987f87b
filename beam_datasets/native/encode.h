/* Shared by the files that encode: fields, and the buffer that entries are written to. */
#ifndef BEAM_DATASETS_ENCODE_H
#define BEAM_DATASETS_ENCODE_H

#include "native.h"

#define MAX_VARINT 10
#define SLACK 8 /* bytes after the end of a buffer's content that may be overwritten */
#define MAX_DIMENSIONS 8

/* What a field's values are:
 *   python   anything; encoded by the field's own encoder
 *   text     one str or bytes
 *   integer  one integer in [low, high]
 *   float    one float
 *   texts    a list of str or bytes
 *   integers a list or an array of integers, stored as varints
 *   floats   a list or an array of floats, stored as float32
 *   raw      an array, stored as its bytes
 */
typedef enum { PYTHON, TEXT, INTEGER, FLOAT, TEXTS, INTEGERS, FLOATS, RAW, KINDS } Kind;

typedef struct {
    Kind kind;
    int optional;    /* None is a value, and leaves no entry */
    int rounding;    /* floats need not be exact in float32 */
    PyObject *key;   /* in the dict */
    PyObject *part;  /* its encoder in Python */
    PyObject *name;  /* bytes: the entry up to the feature's length */
    long long low;   /* bounds of integers */
    unsigned long long high;
    char element;            /* of arrays: '?' bool, 'i' signed, 'u' unsigned, 'f' float */
    Py_ssize_t element_size; /* in bytes */
    PyObject *format;        /* bytes: of a buffer of such elements */
    int dimensions;
    Py_ssize_t shape[MAX_DIMENSIONS]; /* -1 for any length */
} Field;

/* NumPy's types: its array, and tuples of those of scalars. */
typedef struct {
    PyObject *array, *booleans, *integers, *floats;
} Types;

typedef struct {
    uint8_t *data;
    size_t size, capacity;
} Buffer;

/* Functions return DONE, FALLBACK if Python must do it (no exception is set), or FAILED with an exception. */
typedef enum { FAILED = -1, FALLBACK = 0, DONE = 1 } Result;

/* Reserves memory for `more` + SLACK bytes after the content; false with an exception. */
int buffer_reserve(Buffer *buffer, size_t more);

/* Appends the entry of a field's value. */
Result put_value(Buffer *buffer, const Types *types, const Field *field, PyObject *value);

/* Appends the record of an example, encoded by a Python function or one of `encoder`. Sets `start`, which may be up to
 * 1 + MAX_VARINT bytes after the previous content. */
Result put_record(Buffer *buffer, PyObject *function, PyObject *example, size_t *start);

static inline int bit_length(uint64_t number) { /* of a number that is not 0 */
#ifdef __GNUC__
    return 64 - __builtin_clzll(number);
#else
    int length = 0;
    for (; number; number >>= 1) length++;
    return length;
#endif
}

static inline size_t varint_size(uint64_t number) { return ((size_t)bit_length(number | 1) + 6) / 7; }

/* Writes a varint and returns its end. Up to SLACK bytes after it may be overwritten. */
static inline uint8_t *put_varint(uint8_t *out, uint64_t number) {
    if (number < 1 << 7) {
        *out = (uint8_t)number;
        return out + 1;
    }
    size_t size = varint_size(number);
    if (number < 1 << 28) { /* spreads all groups of 7 bits at once */
        uint32_t n = (uint32_t)number;
        uint32_t word = (n & 0x7F) | (n << 1 & 0x7F00) | (n << 2 & 0x7F0000) | (n << 3 & 0x7F000000);
        word |= 0x80808080u & ((1u << (8 * (size - 1))) - 1);
        memcpy(out, &word, sizeof word);
        return out + size;
    }
    if (number < (uint64_t)1 << 56) {
        uint64_t word = (number & 0xFFFFFFF) | (number << 4 & 0xFFFFFFF00000000);
        word = (word & 0x3FFF00003FFF) | (word << 2 & 0x3FFF00003FFF0000);
        word = (word & 0x7F007F007F007F) | (word << 1 & 0x7F007F007F007F00);
        word |= 0x8080808080808080 & (((uint64_t)1 << (8 * (size - 1))) - 1);
        memcpy(out, &word, sizeof word);
        return out + size;
    }
    for (; number >= 128; number >>= 7) *out++ = (uint8_t)(number | 128);
    *out++ = (uint8_t)number;
    return out;
}

#endif
