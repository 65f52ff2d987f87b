/* Chunks of runs: records in memory, and a run of which the next ones are read when they are wanted.
 *
 * What cannot be read is not told: whoever asked (beam_datasets/reading/runs.py) reads it again then.
 */
#include "chunk.h"
#include <stdlib.h>

#ifndef _WIN32
#include <unistd.h>
#endif

#define CHUNK "beam_datasets.chunk"
#define REST "beam_datasets.rest"

/* What is left of a run: records of an open file up to one before `stop`. */
typedef struct {
    PyObject *owner; /* keeps the file open */
    int descriptor;
    Py_buffer offsets; /* u64: where each record of the file begins, and the last one ends */
    Py_ssize_t stop, chunk_bytes;
} Rest;

static void chunk_drop(Chunk *chunk) {
    PyBuffer_Release(&chunk->buffer);
    if (chunk->memory == NULL) ints_drop(&chunk->offsets);
    free(chunk->memory);
    Py_XDECREF(chunk->rest);
    PyMem_Free(chunk);
}

static void chunk_free(PyObject *capsule) { chunk_drop(PyCapsule_GetPointer(capsule, CHUNK)); }

Chunk *chunk_get(PyObject *capsule) { return PyCapsule_GetPointer(capsule, CHUNK); }

static PyObject *capsule_of(Chunk *chunk) {
    PyObject *capsule = PyCapsule_New(chunk, CHUNK, chunk_free);
    if (capsule == NULL) chunk_drop(chunk);
    return capsule;
}

PyDoc_STRVAR(chunk_doc, "chunk(buffer, offsets, first)\n--\n\n"
                        "Returns what RecordBlock.take() takes records from: framed ones, where each begins and the\n"
                        "last one ends, and the number of the first of them. It holds the buffer.");

static Chunk *chunk_new(PyObject *buffer, PyObject *offsets, Py_ssize_t first) {
    Chunk *chunk = PyMem_Calloc(1, sizeof *chunk);
    if (chunk == NULL) return (Chunk *)PyErr_NoMemory();
    chunk->first = first;
    if (ints_get(offsets, &chunk->offsets, "offsets") == 0) {
        if (chunk->offsets.n == 0)
            PyErr_SetString(PyExc_ValueError, "offsets say where the last record ends, at least.");
        else if (bytes_get(buffer, &chunk->buffer) == 0)
            return chunk;
        ints_drop(&chunk->offsets);
    }
    PyMem_Free(chunk);
    return NULL;
}

static PyObject *py_chunk(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *buffer, *offsets;
    Py_ssize_t first;
    if (!PyArg_ParseTuple(arguments, "OOn:chunk", &buffer, &offsets, &first)) return NULL;
    if (first < 0 || first > PY_SSIZE_T_MAX / 2) return PyErr_Format(PyExc_ValueError, "first is %zd.", first);
    Chunk *chunk = chunk_new(buffer, offsets, first);
    if (chunk == NULL) return NULL;
    return capsule_of(chunk);
}

PyObject *chunk_own(int64_t *memory, Py_ssize_t n, Py_ssize_t first) {
    Chunk *chunk = PyMem_Calloc(1, sizeof *chunk);
    if (chunk == NULL) {
        free(memory);
        return PyErr_NoMemory();
    }
    chunk->memory = memory;
    chunk->offsets = (Ints){memory, n + 1};
    chunk->buffer.buf = memory + n + 1;
    chunk->buffer.len = (Py_ssize_t)memory[n];
    chunk->first = first;
    return capsule_of(chunk);
}

/* ------------------------------------------------------------------------------------------------------------ runs */

#ifndef _WIN32

static void rest_drop(Rest *rest) {
    PyBuffer_Release(&rest->offsets);
    Py_DECREF(rest->owner);
    PyMem_Free(rest);
}

static void rest_free(PyObject *capsule) { rest_drop(PyCapsule_GetPointer(capsule, REST)); }

static const uint8_t *at_offset(const Rest *rest, Py_ssize_t record) {
    return (const uint8_t *)rest->offsets.buf + 8 * (size_t)record;
}

static uint64_t offset_of(const Rest *rest, Py_ssize_t record) { return u64_at(at_offset(rest, record)); }

/* Whether the records of a run from `first` to before `stop` are a chunk, or less. */
static int is_chunk(const Rest *rest, Py_ssize_t first, Py_ssize_t stop, uint64_t most) {
    return offset_of(rest, stop) - offset_of(rest, first) <= most;
}

/* Returns the record behind the last one of the chunk that begins with `first`. */
static Py_ssize_t end_of(const Rest *rest, Py_ssize_t first) {
    uint64_t most = (uint64_t)rest->chunk_bytes;
    if (is_chunk(rest, first, rest->stop, most + most / 4)) return rest->stop; /* a little more, so that none is left */
    Py_ssize_t stop = first + 1, step = 1; /* one record in any case; the last one does not fit */
    for (; step < rest->stop - stop && is_chunk(rest, first, stop + step, most); step *= 2) stop += step;
    for (; step > 0; step /= 2)
        if (step < rest->stop - stop && is_chunk(rest, first, stop + step, most)) stop += step;
    return stop;
}

int64_t *records_get(int descriptor, const uint8_t *offsets, uint64_t n) {
    uint64_t start = u64_at(offsets), size = u64_at(offsets + 8 * n) - start;
    if (start > INT64_MAX || size > PY_SSIZE_T_MAX / 2 || n > PY_SSIZE_T_MAX / 32) return NULL;
    int64_t *memory = malloc((size_t)(8 * (n + 1) + size));
    if (memory == NULL) return NULL;
    for (uint64_t i = 0; i < n; i++) memory[i] = (int64_t)(u64_at(offsets + 8 * i) - start);
    memory[n] = (int64_t)size; /* not looked at again: offsets in a mapped file may have changed */
    if (pread(descriptor, memory + n + 1, (size_t)size, (off_t)start) == (ssize_t)size) return memory;
    free(memory);
    return NULL;
}

PyObject *chunk_read(PyObject *capsule, Py_ssize_t first) {
    Rest *rest = PyCapsule_GetPointer(capsule, REST);
    if (rest == NULL || first < 0 || first >= rest->stop) return NULL;
    int64_t *memory;
    Py_ssize_t stop;
    Py_BEGIN_ALLOW_THREADS
    stop = end_of(rest, first);
    memory = records_get(rest->descriptor, at_offset(rest, first), (uint64_t)(stop - first));
    Py_END_ALLOW_THREADS
    if (memory == NULL) return NULL;
    PyObject *chunk = chunk_own(memory, stop - first, first);
    if (chunk != NULL && stop < rest->stop) chunk_get(chunk)->rest = Py_NewRef(capsule);
    return chunk;
}

static Rest *rest_new(PyObject *owner, int descriptor, PyObject *offsets, Py_ssize_t first, Py_ssize_t stop,
                    Py_ssize_t chunk_bytes) {
    Rest *rest = PyMem_Calloc(1, sizeof *rest);
    if (rest == NULL) return (Rest *)PyErr_NoMemory();
    if (bytes_get(offsets, &rest->offsets) == 0) {
        Py_ssize_t n = rest->offsets.len / 8 - 1;
        if (first >= 0 && first < stop && stop <= n && chunk_bytes > 0) {
            rest->owner = Py_NewRef(owner);
            rest->descriptor = descriptor;
            rest->stop = stop;
            rest->chunk_bytes = chunk_bytes;
            return rest;
        }
        PyErr_Format(PyExc_ValueError, "[%zd, %zd) of %zd records in chunks of %zd bytes", first, stop, n, chunk_bytes);
        PyBuffer_Release(&rest->offsets);
    }
    PyMem_Free(rest);
    return NULL;
}

PyDoc_STRVAR(run_doc, "run(owner, descriptor, offsets, first, stop, chunk_bytes, /)\n--\n\n"
                      "Returns a chunk, see chunk(), without records, which is followed by records [first, stop) of a\n"
                      "file: RecordBlock.take() reads about so many bytes of them at a time, when it gets there. The\n"
                      "owner keeps the file open; offsets, uint64, say where each record of the file begins and the\n"
                      "last one ends. Where they cannot be read, take() ends there and drops the chunk.");

static PyObject *py_run(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *owner, *offsets;
    int descriptor;
    Py_ssize_t first, stop, chunk_bytes;
    if (!PyArg_ParseTuple(arguments, "OiOnnn:run", &owner, &descriptor, &offsets, &first, &stop, &chunk_bytes))
        return NULL;
    Rest *rest = rest_new(owner, descriptor, offsets, first, stop, chunk_bytes);
    if (rest == NULL) return NULL;
    PyObject *capsule = PyCapsule_New(rest, REST, rest_free);
    if (capsule == NULL) {
        rest_drop(rest);
        return NULL;
    }
    int64_t *none = calloc(1, sizeof *none);
    PyObject *chunk = none == NULL ? PyErr_NoMemory() : chunk_own(none, 0, first);
    if (chunk == NULL)
        Py_DECREF(capsule);
    else
        chunk_get(chunk)->rest = capsule;
    return chunk;
}

#else

PyObject *chunk_read(PyObject *Py_UNUSED(capsule), Py_ssize_t Py_UNUSED(first)) { return NULL; }

#endif

PyMethodDef chunks_methods[] = {
    {"chunk", py_chunk, METH_VARARGS, chunk_doc},
#ifndef _WIN32
    {"run", py_run, METH_VARARGS, run_doc},
#endif
    {NULL, NULL, 0, NULL},
};
