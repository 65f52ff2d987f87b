/* Shared by the files of the native module. */
#ifndef BEAM_DATASETS_NATIVE_H
#define BEAM_DATASETS_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

extern PyMethodDef records_methods[]; /* records.c: TFRecord framing, random access */
extern PyMethodDef block_methods[];   /* block.c: records in memory */
extern PyMethodDef runs_methods[];      /* runs.c: runs of files, read a chunk at a time; prefetch threads */
extern PyMethodDef examples_methods[]; /* examples.c: nested examples, BlockIterator */
extern PyMethodDef gather_methods[];  /* gather.c: joined ranges of buffers, CRC-32C */
extern PyMethodDef lists_methods[];   /* lists.c, decode.c: tf.train.Example -> columns */
extern PyMethodDef decode_methods[];
extern PyMethodDef encode_methods[];  /* encode.c: values -> tf.train.Example, blocks */

/* block.c: adds the type RecordBlock to the module. */
int block_add(PyObject *module);

/* examples.c: adds the type BlockIterator. */
int iterator_add(PyObject *module);

/* The framing of a record: the length and its CRC before the data, the CRC of the data after them. */
enum { HEADER = 12, FOOTER = 4, OVERHEAD = HEADER + FOOTER };

/* Bytes of a framed record that is read here; Python reads larger ones, if the limit of beam_datasets/limits.py is
 * raised. Also, Linux shortens longer reads, see storage/local.py. */
#define MAX_RECORD (1 << 30)

/* Work on at least so many bytes is done without the GIL. */
#define LARGE (64 << 10)

/* Executes a statement that needs no GIL, without the GIL if that is worth it. */
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

/* Gets the buffer of a one-dimensional array of int64; 0, or -1 with an exception. */
int int64s_get(PyObject *object, Py_buffer *view, int writable, const char *name);

/* The bytes of any buffer; 0, or -1 with an exception. */
int bytes_get(PyObject *object, Py_buffer *view);

/* Called once, when the module is loaded. */
void crc32c_init(void);
void lists_init(void);

/* Returns the CRC-32C of n bytes that follow bytes with the checksum `crc` (0 at the start). Needs no GIL. */
uint32_t crc32c_extend(uint32_t crc, const uint8_t *data, size_t n);

/* The same, computed without the processor's instruction. */
uint32_t crc32c_by_table(uint32_t crc, const uint8_t *data, size_t n);

/* Makes glibc keep up to 64 MB of freed memory at the end of each heap for the next chunk or batch. */
void keep_memory(void);

/* Reads little-endian numbers at any alignment. */
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

/* records.c: whether `size` bytes, at least 16, are one framed record; `check` includes its CRCs. */
int is_record(const uint8_t *at, size_t size, int check);

/* records.c: whether bytes [start, stop) of a buffer are one framed record; `check` includes its CRCs. */
int is_framed_record(const Py_buffer *data, int64_t start, int64_t stop, int check);

/* Returns the masked CRC that a TFRecord contains. */
static inline uint32_t crc32c_mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

/* Framed records in a buffer, with n + 1 offsets: the start of each and the end of the last one. Records that were not
 * read have no bytes. RecordBlock.take() takes records from chunks. */
typedef struct {
    Py_buffer buffer;
    Ints offsets;
    Py_ssize_t first; /* number of the first record */
    Py_ssize_t num_checked; /* this many first records are good or were not read */
    int64_t *memory;  /* that the chunk owns, with the offsets and records; or NULL */
    PyObject *cursor; /* to read more of the run; NULL if no more is wanted */
} Chunk;

/* The chunk in a capsule; NULL with an exception. */
Chunk *chunk_get(PyObject *capsule);

/* Checks the next record and increments num_checked; 0 if it is bad, or at the end. Needs no GIL. */
int chunk_check(Chunk *chunk);

/* Returns a chunk of n framed records with the number of the first one, and a cursor or NULL; NULL with an exception.
 * `memory`, from malloc(), has n + 1 offsets followed by the records. The chunk takes ownership of it and of the
 * cursor, also if the call fails. */
PyObject *chunk_own(int64_t *memory, Py_ssize_t n, Py_ssize_t first, PyObject *cursor);

/* What is read: for each visit the number of its run, the first record and the number of records. */
typedef struct {
    PyObject *chunks; /* a dict: by run */
    Py_buffer runs, firsts, counts;
} Visits;

/* runs.c: reads the next chunk of a run: only the records that the visits from `at` on need. NULL if that fails, with
 * or without an exception. */
PyObject *chunk_read(PyObject *cursor, const Visits *visits, Py_ssize_t at);

/* Tasks that threads of this module do ahead of the readers that need them. The threads never need the GIL.
 *
 * A task is the first member of a struct with its data. The caller keeps the memory from ahead_submit() until
 * ahead_take(). */
typedef struct Task {
    void (*work)(struct Task *task); /* calls nothing of Python */
    struct Task *before, *after;     /* in the queue */
    int state;
} Task;

/* Whether tasks that are submitted may be done by a thread. */
int ahead_is_on(void);

/* Queues a task, without waiting; `work` is set. Needs no GIL. */
void ahead_submit(Task *task);

/* Takes a task back; waits for one that has begun. Returns whether it was done; if not, the caller may do it. Call it
 * once for each submitted task, without the GIL if that may take long. */
int ahead_take(Task *task);

/* For work that may end early: whether a reader waits for it. Needs no GIL. */
int ahead_is_wanted(const Task *task);

#endif
