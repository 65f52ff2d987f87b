/* Chunks: what RecordBlock.take() takes records from. */
#ifndef BEAM_DATASETS_CHUNK_H
#define BEAM_DATASETS_CHUNK_H

#include "native.h"

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

#endif
