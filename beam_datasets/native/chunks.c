/* Chunks: records in memory, which may be followed by others of their run. */
#include "chunk.h"
#include <stdlib.h>

#define CHUNK "beam_datasets.chunk"

static void chunk_drop(Chunk *chunk) {
    PyBuffer_Release(&chunk->buffer);
    if (chunk->memory == NULL) ints_drop(&chunk->offsets);
    free(chunk->memory);
    Py_XDECREF(chunk->cursor);
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

/* Whether a record of a chunk is good. */
static int is_good(const Chunk *chunk, Py_ssize_t i) {
    const int64_t *offset = chunk->offsets.values + i;
    return is_framed_record(&chunk->buffer, offset[0], offset[1], 1);
}

Py_ssize_t chunk_count_good(const Chunk *chunk, Py_ssize_t first, Py_ssize_t stop) {
    const int64_t *offsets = chunk->offsets.values;
    Py_ssize_t i = first;
    while (i < stop && i < chunk->num_checked && offsets[i] < offsets[i + 1]) i++;
    while (i < stop && i >= chunk->num_checked && is_good(chunk, i)) i++;
    return i - first;
}

int chunk_check(Chunk *chunk) {
    Py_ssize_t i = chunk->num_checked;
    const int64_t *offset = chunk->offsets.values + i;
    if (i == chunk->offsets.n - 1 || (offset[0] != offset[1] && !is_good(chunk, i))) return 0;
    chunk->num_checked++;
    return 1;
}

PyObject *chunk_own(int64_t *memory, Py_ssize_t n, Py_ssize_t first, PyObject *cursor) {
    Chunk *chunk = PyMem_Calloc(1, sizeof *chunk);
    if (chunk == NULL) {
        free(memory);
        Py_XDECREF(cursor);
        return PyErr_NoMemory();
    }
    chunk->cursor = cursor;
    chunk->memory = memory;
    chunk->offsets = (Ints){memory, n + 1};
    chunk->buffer.buf = memory + n + 1;
    chunk->buffer.len = (Py_ssize_t)memory[n];
    chunk->first = first;
    return capsule_of(chunk);
}

PyMethodDef chunks_methods[] = {
    {"chunk", py_chunk, METH_VARARGS, chunk_doc},
    {NULL, NULL, 0, NULL},
};
