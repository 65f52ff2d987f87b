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
    int64_t *memory;  /* where offsets and records are, if that is the chunk's own */
    PyObject *rest;   /* of the run, of which more can be read; NULL where nothing more is wanted */
} Chunk;

/* The chunk in a capsule; NULL with an exception. */
Chunk *chunk_get(PyObject *capsule);

/* A chunk of n framed records, the first of that number, and what follows it or NULL; NULL with an exception. The
 * memory, of malloc(), and the reference are the chunk's then, also where that fails: n + 1 offsets, the records behind
 * them. */
PyObject *chunk_own(int64_t *memory, Py_ssize_t n, Py_ssize_t first, PyObject *rest);

/* The arrays that say what is read: for each visit to a run its number, its first record and how many. */
typedef struct {
    PyObject *chunks; /* a dict: by run */
    Py_buffer runs, firsts, counts;
} Visits;

/* runs.c: reads the next chunk of what is left of a run: records that the visits from `at` on take of it, no others.
 * NULL where that fails, with an exception or without. */
PyObject *chunk_read(PyObject *rest, const Visits *visits, Py_ssize_t at);

#endif
