/* Shared by the files that read records: the wire format, and the schema of the requested features.
 *
 * A record is a serialized tf.train.Example, a map from names to features. A feature is one list:
 *
 *     record   0a <length> entry entry ...
 *     entry    0a <length>  0a <length> name  12 <length> feature
 *     feature  0a <length> (0a <length> bytes)*
 *              12 <length> (0a <length> float32 ... | 0d float32)*
 *              1a <length> (0a <length> varint ... | 08 varint)*
 *
 * Source: https://protobuf.dev/programming-guides/encoding and tensorflow/core/example/{example,feature}.proto.
 */
#ifndef BEAM_DATASETS_DECODE_H
#define BEAM_DATASETS_DECODE_H

#include "native.h"

enum { BYTES = 0x0a, FLOATS = 0x12, INTEGERS = 0x1a }; /* kinds: the tags of lists */
enum { ENTRY = 0x0a, NAME = 0x0a, FEATURE = 0x12, VALUES = 0x0a, ONE_FLOAT = 0x0d, ONE_INTEGER = 0x08 }; /* tags */
enum { ANY = -1, PADDED = -2 };                                                                          /* counts */

#define SCHEMA "beam_datasets.schema"

/* Bytes [at, end). */
typedef struct {
    const uint8_t *at, *end;
} Span;

/* Features of one kind whose values are one array. */
typedef struct {
    int kind, optional;
    Py_ssize_t count; /* of values in each record, or ANY or PADDED */
    Py_ssize_t num;   /* of names */
} Group;

typedef struct {
    PyObject *object; /* the name, as bytes */
    Span name;
    Py_ssize_t group, slot; /* which group, and which of its names */
} Field;

typedef struct {
    Py_ssize_t num_groups, num_fields;
    Group *groups;
    Field *fields;
    int32_t *table; /* hash -> field, or -1 */
    size_t mask;
} Schema;

/* lists.c: returns the field of a name, or NULL. */
const Field *schema_find(const Schema *schema, Span name);

/* lists.c: reads the values of a list of FLOATS or INTEGERS. Returns how many, or -1 if they exceed the capacity or are
 * not canonical. If `values` is NULL they are only counted. */
Py_ssize_t read_numbers(int kind, Span list, char *values, Py_ssize_t capacity);

/* block.c: the records of a RecordBlock; returns how many, or -1 if the object is not one. */
Py_ssize_t block_spans(PyObject *object, const Span **records);

static inline Py_ssize_t number_size(int kind) { return kind == FLOATS ? 4 : 8; }

static inline int same(Span a, Span b) {
    return a.end - a.at == b.end - b.at && memcmp(a.at, b.at, (size_t)(a.end - a.at)) == 0;
}

/* Removes a field with this tag and a length from the front; 0 if the length has more than five bytes. */
static inline int take(Span *rest, uint8_t tag, Span *field) {
    uint64_t length = 0;
    if (rest->at == rest->end || *rest->at++ != tag) return 0;
    for (int shift = 0; shift < 35 && rest->at < rest->end; shift += 7) {
        uint8_t byte = *rest->at++;
        length |= (uint64_t)(byte & 127) << shift;
        if (byte & 128) continue;
        if (length > (uint64_t)(rest->end - rest->at)) return 0;
        field->at = rest->at;
        field->end = rest->at += length;
        return 1;
    }
    return 0;
}

#endif
