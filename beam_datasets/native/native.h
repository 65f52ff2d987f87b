/* What the files of the native module share. */
#ifndef BEAM_DATASETS_NATIVE_H
#define BEAM_DATASETS_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

extern PyMethodDef records_methods[]; /* records.c: TFRecord framing */
extern PyMethodDef shards_methods[];  /* records.c: records read at their places */
extern PyMethodDef block_methods[];   /* block.c: records in memory */
extern PyMethodDef runs_methods[];      /* runs.c: runs of files, read a chunk at a time */
extern PyMethodDef ahead_methods[];     /* runs.c: threads that do tasks ahead */
extern PyMethodDef examples_methods[]; /* examples.c: examples put together, and handed out */
extern PyMethodDef gather_methods[];  /* gather.c: bytes gathered from where they lie, CRC-32C */
extern PyMethodDef schema_methods[];  /* lists.c, decode.c: tf.train.Example -> columns */
extern PyMethodDef lists_methods[];
extern PyMethodDef decode_methods[];
extern PyMethodDef encode_methods[];  /* encode.c: values -> tf.train.Example, blocks */

/* block.c: adds the type RecordBlock to the module. */
int block_add(PyObject *module);

/* examples.c: adds the type BlockIterator. */
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

/* Chunks: what RecordBlock.take() takes records from. */

/* Framed records in a buffer, and where each begins in it; one offset more says where the last one ends. Records that
 * were left out have no bytes. */
typedef struct {
    Py_buffer buffer;
    Ints offsets;
    Py_ssize_t first; /* the number of the first of them */
    Py_ssize_t num_checked; /* from the first on, are good or were left out */
    int64_t *memory;  /* where offsets and records are, if that is the chunk's own */
    PyObject *cursor; /* of the run, to read more of it; NULL if no more is wanted */
} Chunk;

/* The chunk in a capsule; NULL with an exception. */
Chunk *chunk_get(PyObject *capsule);

/* Checks the next record, and notes that it is good; 0 if it is not, or there is none. Needs no GIL. */
int chunk_check(Chunk *chunk);

/* A chunk of n framed records, the first of that number, and what follows it or NULL; NULL with an exception. The
 * memory, of malloc(), and the reference are the chunk's then, also where that fails: n + 1 offsets, the records behind
 * them. */
PyObject *chunk_own(int64_t *memory, Py_ssize_t n, Py_ssize_t first, PyObject *cursor);

/* The arrays that say what is read: for each visit to a run its number, its first record and how many. */
typedef struct {
    PyObject *chunks; /* a dict: by run */
    Py_buffer runs, firsts, counts;
} Visits;

/* runs.c: reads the next chunk of a run: the records that the visits from `at` on take of it, and no others. NULL if
 * that fails, with or without an exception. */
PyObject *chunk_read(PyObject *cursor, const Visits *visits, Py_ssize_t at);

/* Tasks that threads of this module do ahead of the readers that need them. The threads never need the GIL. */

/* One piece of work; the first member of a struct with what it needs. The memory is the caller's, from ahead_submit()
 * until ahead_take(). */
typedef struct Task {
    void (*work)(struct Task *task); /* calls nothing of Python */
    struct Task *before, *after;     /* in the queue */
    int state;
} Task;

/* Whether tasks that are submitted may be done by a thread. */
int ahead_is_on(void);

/* Queues a task, without waiting; `work` is set. Needs no GIL. */
void ahead_submit(Task *task);

/* Takes a task back: one that has begun is waited for. Returns whether it was done; else the caller does it, if it is
 * to be done. To be called once for each submitted task; without the GIL where that may take long. */
int ahead_take(Task *task);

/* For work that may end early: whether its result is waited for. Needs no GIL. */
int ahead_is_wanted(const Task *task);

#endif
