/* Chunks: what RecordBlock.take() takes records from. */
#ifndef BEAM_DATASETS_CHUNK_H
#define BEAM_DATASETS_CHUNK_H

#include "native.h"

/* Framed records in a buffer, and where each begins in it; one offset more says where the last one ends. */
typedef struct {
    Py_buffer buffer;
    Ints offsets;
    Py_ssize_t first; /* the number of the first of them */
    int64_t *memory;  /* where offsets and records are, if that is the chunk's own */
    PyObject *rest;   /* of the run, of which the record behind the last can be read; NULL where it is the end */
} Chunk;

/* The chunk in a capsule; NULL with an exception. */
Chunk *chunk_get(PyObject *capsule);

/* A chunk of n framed records, the first of that number, and what follows it or NULL; NULL with an exception. The
 * memory, of malloc(), and the reference are the chunk's then, also where that fails: n + 1 offsets, the records behind
 * them. */
PyObject *chunk_own(int64_t *memory, Py_ssize_t n, Py_ssize_t first, PyObject *rest);

/* runs.c: reads the chunk of what is left of a run that begins with a record; NULL where that fails, with an exception
 * or without. */
PyObject *chunk_read(PyObject *rest, Py_ssize_t first);

#endif
