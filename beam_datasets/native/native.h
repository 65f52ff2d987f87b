/* What the files of the native module share. */
#ifndef BEAM_DATASETS_NATIVE_H
#define BEAM_DATASETS_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

extern PyMethodDef records_methods[]; /* records.c: TFRecord framing */
extern PyMethodDef shards_methods[];  /* shards.c: indexes checked, records read at their places */
extern PyMethodDef block_methods[];   /* block.c: records in memory */
extern PyMethodDef runs_methods[];      /* runs.c: runs of files, read a chunk at a time */
extern PyMethodDef ahead_methods[];     /* ahead.c: threads that do tasks ahead */
extern PyMethodDef examples_methods[]; /* examples.c: examples put together */
extern PyMethodDef gather_methods[];  /* gather.c: bytes gathered from where they lie, CRC-32C */
extern PyMethodDef schema_methods[];  /* schema.c, lists.c, decode.c: tf.train.Example -> columns */
extern PyMethodDef lists_methods[];
extern PyMethodDef decode_methods[];
extern PyMethodDef encode_methods[];  /* encode.c: values -> tf.train.Example, blocks */

/* block.c: adds the type RecordBlock to the module. */
int block_add(PyObject *module);

/* iterator.c: adds the type BlockIterator. */
int iterator_add(PyObject *module);

/* The framing of a record: its length and the CRC of that before it, the CRC of the data behind it. */
enum { HEADER = 12, FOOTER = 4, OVERHEAD = HEADER + FOOTER };

/* Bytes from which on work is done without the GIL. */
#define LARGE (64 << 10)

/* Does something that needs no GIL, without it if that is worth it. */
#define WITHOUT_GIL_IF(is_worth_it, statement)                                      \
    do {                                                                            \
        PyThreadState *suspended = (is_worth_it) ? PyEval_SaveThread() : NULL;      \
        statement;                                                                  \
        if (suspended != NULL) PyEval_RestoreThread(suspended);                     \
    } while (0)

/* An array of int64. */
typedef struct {
    int64_t *values;
    Py_ssize_t n;
} Ints;

/* Copies them; 0, or -1 with an exception. */
int ints_get(PyObject *object, Ints *ints, const char *name);
void ints_drop(Ints *ints);

/* A one-dimensional array of int64 itself; 0, or -1 with an exception. */
int int64s_get(PyObject *object, Py_buffer *view, int writable, const char *name);

/* The bytes of any buffer; 0, or -1 with an exception. */
int bytes_get(PyObject *object, Py_buffer *view);

/* To be called once, when the module is loaded. */
void crc32c_init(void);
void lists_init(void);

/* The CRC-32C of n bytes, going on from the CRC of what came before (0 at the beginning). Needs no GIL. */
uint32_t crc32c_extend(uint32_t crc, const uint8_t *data, size_t n);

/* The same, made without the processor's instruction. */
uint32_t crc32c_by_table(uint32_t crc, const uint8_t *data, size_t n);

/* Numbers as they stand in files, in little-endian order, at any place. */
static inline uint64_t u64_at(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

static inline uint32_t u32_at(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

/* records.c: whether so many bytes, 16 at least, are one framed record; its CRCs too, where `check` says so. */
int is_record(const uint8_t *at, size_t size, int check);

/* records.c: whether bytes [start, stop) of a buffer are one framed record; its CRCs too, where `check` says so. */
int is_framed_record(const Py_buffer *data, int64_t start, int64_t stop, int check);

/* The CRC as it stands in a TFRecord. */
static inline uint32_t crc32c_mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

#endif
