/* Chunks: records in memory, with a cursor if others of their run follow. RecordBlock: checked records that stay in the
 * chunks that they were read into, so that decoding copies nothing.
 *
 * A record is copied to bytes only on request. beam_datasets/formats/record_block.py is the same in Python.
 */
#include "decode.h"
#include <stdlib.h>
#include <structmember.h>

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
                        "Returns a chunk for RecordBlock.take(): a buffer of framed records, which it holds, their\n"
                        "offsets with the end of the last one, and the number of the first one.");

static Chunk *chunk_new(PyObject *buffer, PyObject *offsets, Py_ssize_t first) {
    Chunk *chunk = PyMem_Calloc(1, sizeof *chunk);
    if (chunk == NULL) return (Chunk *)PyErr_NoMemory();
    chunk->first = first;
    if (ints_get(offsets, &chunk->offsets, "offsets") == 0) {
        if (chunk->offsets.n == 0)
            PyErr_SetString(PyExc_ValueError, "expected at least one offset, the end of the last record.");
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

/* The number of good records of [first, stop) before the first bad one; places in the chunk. Needs no GIL. */
static Py_ssize_t chunk_count_good(const Chunk *chunk, Py_ssize_t first, Py_ssize_t stop) {
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

PyMethodDef block_methods[] = {
    {"chunk", py_chunk, METH_VARARGS, chunk_doc},
    {NULL, NULL, 0, NULL},
};

/* ---------------------------------------------------------------------------------------------------------- blocks */

/* A chunk that contains records of a block, and the end of their range in the block. */
typedef struct {
    PyObject *chunk;
    Py_ssize_t stop;
} Held;

typedef struct {
    PyObject_HEAD
    Span *records;
    Held *held; /* the chunks of all records, in their order */
    Py_ssize_t n, capacity, num_held, held_capacity, num_bytes;
} RecordBlock;

static PyTypeObject *block_type; /* made once, with the module */

static RecordBlock *block_new(PyTypeObject *type) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return (RecordBlock *)alloc(type, 0);
}

static PyObject *new_empty(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, ":RecordBlock", names)) return NULL;
    return (PyObject *)block_new(type);
}

static void dealloc(RecordBlock *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    for (Py_ssize_t i = 0; i < self->num_held; i++) Py_DECREF(self->held[i].chunk);
    PyMem_Free(self->records);
    PyMem_Free(self->held);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Reserves memory for so many more items; the new memory, or NULL with an exception. */
static void *grown(void *items, size_t size, Py_ssize_t n, Py_ssize_t *capacity, Py_ssize_t more) {
    if (more > PY_SSIZE_T_MAX / 64 - n) return PyErr_NoMemory();
    Py_ssize_t wanted = n + more < 2 * *capacity ? 2 * *capacity : n + more;
    void *found = PyMem_Realloc(items, (size_t)wanted * size);
    if (found == NULL) return PyErr_NoMemory();
    *capacity = wanted;
    return found;
}

/* Reserves memory for so many more records, and for as many chunks; 0, or -1 with an exception. */
static int make_room(RecordBlock *block, Py_ssize_t records, Py_ssize_t chunks) {
    if (records > block->capacity - block->n) {
        Span *found = grown(block->records, sizeof *found, block->n, &block->capacity, records);
        if (found == NULL) return -1;
        block->records = found;
    }
    if (chunks > block->held_capacity - block->num_held) {
        Held *found = grown(block->held, sizeof *found, block->num_held, &block->held_capacity, chunks);
        if (found == NULL) return -1;
        block->held = found;
    }
    return 0;
}

/* Adds the next `count` records to the block, which are in a chunk. */
static void hold(RecordBlock *block, PyObject *chunk, Py_ssize_t count) {
    block->n += count;
    if (block->num_held == 0 || block->held[block->num_held - 1].chunk != chunk)
        block->held[block->num_held++].chunk = Py_NewRef(chunk);
    block->held[block->num_held - 1].stop = block->n;
}

/* Adds records [start, stop) of another block; the memory is reserved. */
static void add(RecordBlock *block, const RecordBlock *other, Py_ssize_t start, Py_ssize_t stop) {
    if (start == stop) return;
    Span *out = block->records + block->n;
    memcpy(out, other->records + start, (size_t)(stop - start) * sizeof *out);
    for (Py_ssize_t i = 0; i < stop - start; i++) block->num_bytes += out[i].end - out[i].at;
    for (const Held *from = other->held; start < stop; from++) {
        if (from->stop <= start) continue;
        Py_ssize_t end = from->stop < stop ? from->stop : stop;
        hold(block, from->chunk, end - start);
        start = end;
    }
}

/* The records of a visit that are left, and the limits of the block. */
typedef struct {
    int64_t first, count;
    Py_ssize_t most, limit;
} Wanted;

/* Returns how many records of a chunk from `place` on are wanted and fit into the block, at least one. */
static Py_ssize_t fitting(const RecordBlock *block, const Chunk *chunk, Py_ssize_t place, const Wanted *wanted) {
    const int64_t *offsets = chunk->offsets.values;
    Py_ssize_t capacity = wanted->most - block->n, left = chunk->offsets.n - 1 - place, n = 1;
    int64_t bytes = wanted->limit - block->num_bytes;
    if (capacity > left) capacity = left;
    if (capacity > wanted->count) capacity = (Py_ssize_t)wanted->count;
    while (n < capacity && (offsets[place + n + 1] <= bytes || offsets[place + n + 1] - bytes <= offsets[place])) n++;
    return n;
}

/* Adds the first of the wanted records of a chunk; returns how many, or -1 with an exception. */
static Py_ssize_t take_run(RecordBlock *block, PyObject *capsule, const Chunk *chunk, const Wanted *wanted) {
    if (wanted->first < chunk->first || wanted->first - chunk->first >= chunk->offsets.n - 1) return 0;
    Py_ssize_t place = (Py_ssize_t)(wanted->first - chunk->first), good;
    Py_ssize_t stop = place + fitting(block, chunk, place, wanted);
    const int64_t *offsets = chunk->offsets.values;
    int is_large = stop > chunk->num_checked && offsets[stop] >= LARGE && offsets[stop] - LARGE >= offsets[place];
    WITHOUT_GIL_IF(is_large, good = chunk_count_good(chunk, place, stop));
    if (good == 0) return 0;
    if (make_room(block, good, 1) < 0) return -1;
    const uint8_t *data = chunk->buffer.buf;
    Span *out = block->records + block->n;
    for (Py_ssize_t i = place; i < place + good; i++)
        *out++ = (Span){data + offsets[i] + HEADER, data + offsets[i + 1] - FOOTER};
    block->num_bytes += (Py_ssize_t)(offsets[place + good] - offsets[place]) - good * (HEADER + FOOTER);
    hold(block, capsule, good);
    return good;
}

/* Whether a record is in a chunk, good or not. */
static int chunk_has(const Chunk *chunk, int64_t record) {
    if (record < chunk->first || record - chunk->first >= chunk->offsets.n - 1) return 0;
    const int64_t *offset = chunk->offsets.values + (record - chunk->first);
    return offset[0] != offset[1];
}

/* Returns a new reference to the chunk with the first record of a visit, which is read if necessary. NULL if that
 * fails, with or without an exception; a chunk with other records is then dropped. */
static PyObject *chunk_at(const Visits *visits, Py_ssize_t at, PyObject *run) {
    PyObject *chunks = visits->chunks;
    PyObject *capsule = PyDict_GetItemWithError(chunks, run);
    if (capsule == NULL) return NULL;
    Chunk *chunk = chunk_get(capsule);
    if (chunk == NULL) return NULL;
    if (chunk_has(chunk, ((const int64_t *)visits->firsts.buf)[at])) return Py_NewRef(capsule);
    PyObject *cursor = chunk->cursor;
    chunk->cursor = NULL; /* a block that still holds the chunk does not hold the file */
    PyObject *next = cursor == NULL ? NULL : chunk_read(cursor, visits, at);
    Py_XDECREF(cursor);
    int failed = next != NULL ? PyDict_SetItem(chunks, run, next) : PyErr_Occurred() ? -1 : PyDict_DelItem(chunks, run);
    if (failed) Py_CLEAR(next);
    return next;
}

/* Adds the available records of a visit, and updates what is left. Returns how many, or -1 with an exception. */
static Py_ssize_t take_visit(RecordBlock *block, const Visits *visits, Py_ssize_t at, Py_ssize_t most,
                             Py_ssize_t limit) {
    int64_t *first = (int64_t *)visits->firsts.buf + at, *count = (int64_t *)visits->counts.buf + at;
    if (*count <= 0) return 0;
    PyObject *run = PyLong_FromLongLong(((const int64_t *)visits->runs.buf)[at]);
    PyObject *capsule = run == NULL ? NULL : chunk_at(visits, at, run);
    Py_ssize_t taken = PyErr_Occurred() ? -1 : 0;
    if (capsule != NULL) {
        Chunk *chunk = chunk_get(capsule);
        taken = take_run(block, capsule, chunk, &(Wanted){*first, *count, most, limit});
        if (taken > 0) {
            *first += taken;
            *count -= taken;
            int ends = *first - chunk->first == chunk->offsets.n - 1 && chunk->cursor == NULL;
            if (ends && PyDict_DelItem(visits->chunks, run) < 0) taken = -1;
        }
        Py_DECREF(capsule);
    }
    Py_XDECREF(run);
    return taken;
}

static PyObject *taken_of(RecordBlock *self, const Visits *visits, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t most,
                          Py_ssize_t limit) {
    const int64_t *counts = visits->counts.buf;
    while (at < stop && self->n < most && self->num_bytes < limit) {
        Py_ssize_t taken = take_visit(self, visits, at, most, limit);
        if (taken < 0) return NULL;
        if (counts[at] <= 0)
            at++;
        else if (taken == 0)
            break;
    }
    return PyLong_FromSsize_t(at);
}

PyDoc_STRVAR(take_doc, "take(chunks, runs, firsts, counts, at, stop, most, limit)\n--\n\n"
                       "Adds records of the visits [at, stop) to runs, while the block has fewer than `most` records\n"
                       "and `limit` bytes; see PlainRecordBlock.take().");

static PyObject *py_take(RecordBlock *self, PyObject *arguments) {
    PyObject *runs, *firsts, *counts, *result = NULL;
    Py_ssize_t at, stop, most, limit;
    Visits visits = {0};
    if (!PyArg_ParseTuple(arguments, "O!OOOnnnn:take", &PyDict_Type, &visits.chunks, &runs, &firsts, &counts, &at,
                          &stop, &most, &limit))
        return NULL;
    if (int64s_get(runs, &visits.runs, 0, "runs") == 0 && int64s_get(firsts, &visits.firsts, 1, "firsts") == 0 &&
        int64s_get(counts, &visits.counts, 1, "counts") == 0) {
        Py_ssize_t n = visits.runs.len / 8;
        if (visits.firsts.len / 8 != n || visits.counts.len / 8 != n || at < 0 || stop > n)
            PyErr_Format(PyExc_ValueError, "[%zd, %zd) of %zd runs, %zd firsts and %zd counts", at, stop, n,
                         visits.firsts.len / 8, visits.counts.len / 8);
        else
            result = taken_of(self, &visits, at, stop, most, limit);
    }
    PyBuffer_Release(&visits.counts);
    PyBuffer_Release(&visits.firsts);
    PyBuffer_Release(&visits.runs);
    return result;
}

static Py_ssize_t length(RecordBlock *self) { return self->n; }

static PyObject *item(RecordBlock *self, Py_ssize_t i) {
    if (i < 0 || i >= self->n) {
        PyErr_Format(PyExc_IndexError, "record %zd of a block of %zd", i, self->n);
        return NULL;
    }
    return PyBytes_FromStringAndSize((const char *)self->records[i].at, self->records[i].end - self->records[i].at);
}

static PyObject *part(RecordBlock *self, PyObject *slice) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(slice, &start, &stop, &step) < 0) return NULL;
    Py_ssize_t n = PySlice_AdjustIndices(self->n, &start, &stop, step);
    RecordBlock *block = block_new(Py_TYPE((PyObject *)self));
    if (block == NULL) return NULL;
    Py_ssize_t chunks = step == 1 && n > self->num_held ? self->num_held : n;
    if (make_room(block, n, chunks) < 0) {
        Py_DECREF(block);
        return NULL;
    }
    if (step == 1)
        add(block, self, start, start + n);
    else
        for (Py_ssize_t i = 0; i < n; i++, start += step) add(block, self, start, start + 1);
    return (PyObject *)block;
}

static PyObject *subscript(RecordBlock *self, PyObject *index) {
    if (PySlice_Check(index)) return part(self, index);
    Py_ssize_t i = PyNumber_AsSsize_t(index, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred()) return NULL;
    return item(self, i < 0 ? i + self->n : i);
}

static PyObject *extend(RecordBlock *self, PyObject *object) {
    if (Py_TYPE(object) != block_type)
        return PyErr_Format(PyExc_TypeError, "only a RecordBlock can be added to one, not %R", object);
    const RecordBlock *other = (RecordBlock *)object;
    Py_ssize_t n = other->n; /* it may be this block itself */
    if (make_room(self, n, other->num_held) < 0) return NULL;
    add(self, other, 0, n);
    return Py_NewRef((PyObject *)self);
}

Py_ssize_t block_spans(PyObject *object, const Span **records) {
    if (Py_TYPE(object) != block_type) return -1;
    *records = ((RecordBlock *)object)->records;
    return ((RecordBlock *)object)->n;
}

static PyMethodDef methods[] = {
    {"take", (PyCFunction)(void (*)(void))py_take, METH_VARARGS, take_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"num_bytes", T_PYSSIZET, offsetof(RecordBlock, num_bytes), READONLY, "Of all records together."},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(type_doc,
             "A sequence of records, each copied to bytes on access; a slice is a RecordBlock.");

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)type_doc}, {Py_tp_new, new_empty},         {Py_tp_dealloc, dealloc},
    {Py_sq_length, length},        {Py_sq_item, item},             {Py_mp_subscript, subscript},
    {Py_mp_length, length},        {Py_sq_inplace_concat, extend}, {Py_tp_methods, methods},
    {Py_tp_members, members},      {0, NULL},
};

static PyType_Spec spec = {
    .name = "beam_datasets.native._core.RecordBlock",
    .basicsize = sizeof(RecordBlock),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int block_add(PyObject *module) {
    if (block_type == NULL) block_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (block_type == NULL) return -1;
    return PyModule_AddObjectRef(module, "RecordBlock", (PyObject *)block_type);
}
