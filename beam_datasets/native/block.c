/* RecordBlock: checked records that lie in the buffers they were read into, so that nothing is copied to decode them.
 *
 * Bytes are made of a record only where it is asked for. beam_datasets/formats/record_block.py has the same in Python.
 */
#include "decode.h"
#include <stdlib.h>
#include <structmember.h>

#define CHUNK "beam_datasets.chunk"
#define HEADER 12
#define FOOTER 4

/* Framed records in a buffer, and where each begins in it; one offset more says where the last one ends. */
typedef struct {
    Py_buffer buffer;
    Ints offsets;
    Py_ssize_t first; /* the number of the first of them */
    int64_t *memory;  /* where offsets and records are, if that is the chunk's own */
    int checked;      /* whether all records are known to be good */
} Chunk;

typedef struct {
    PyObject_HEAD
    Span *records;
    PyObject **chunks; /* in which each of them lies */
    Py_ssize_t n, room, num_bytes;
} RecordBlock;

static PyTypeObject *block_type; /* made once, with the module */

/* ---------------------------------------------------------------------------------------------------------- chunks */

static void chunk_drop(Chunk *chunk) {
    PyBuffer_Release(&chunk->buffer);
    if (chunk->memory == NULL) ints_drop(&chunk->offsets);
    free(chunk->memory);
    PyMem_Free(chunk);
}

static void chunk_free(PyObject *capsule) { chunk_drop(PyCapsule_GetPointer(capsule, CHUNK)); }

static PyObject *capsule_of(Chunk *chunk) {
    PyObject *capsule = PyCapsule_New(chunk, CHUNK, chunk_free);
    if (capsule == NULL) chunk_drop(chunk);
    return capsule;
}

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

PyDoc_STRVAR(chunk_doc, "chunk(buffer, offsets, first)\n--\n\n"
                        "Returns what RecordBlock.take() takes records from: framed ones, where each begins and the\n"
                        "last one ends, and the number of the first of them. It holds the buffer.");

static PyObject *py_chunk(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *buffer, *offsets;
    Py_ssize_t first;
    if (!PyArg_ParseTuple(arguments, "OOn:chunk", &buffer, &offsets, &first)) return NULL;
    if (first < 0 || first > PY_SSIZE_T_MAX / 2) return PyErr_Format(PyExc_ValueError, "first is %zd.", first);
    Chunk *chunk = chunk_new(buffer, offsets, first);
    if (chunk == NULL) return NULL;
    return capsule_of(chunk);
}

PyObject *chunk_own(int64_t *memory, Py_ssize_t n, Py_ssize_t first, int checked) {
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
    chunk->checked = checked;
    return capsule_of(chunk);
}

/* ---------------------------------------------------------------------------------------------------------- blocks */

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
    for (Py_ssize_t i = 0; i < self->n; i++) Py_DECREF(self->chunks[i]);
    PyMem_Free(self->records);
    PyMem_Free(self->chunks);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Makes room for so many more; 0, or -1 with an exception. */
static int make_room(RecordBlock *block, Py_ssize_t more) {
    if (more <= block->room - block->n) return 0;
    if (more > PY_SSIZE_T_MAX / 64 - block->n) goto none;
    Py_ssize_t room = block->n + more < 2 * block->room ? 2 * block->room : block->n + more;
    Span *records = PyMem_Realloc(block->records, (size_t)room * sizeof *records);
    if (records == NULL) goto none;
    block->records = records;
    PyObject **chunks = PyMem_Realloc(block->chunks, (size_t)room * sizeof *chunks);
    if (chunks == NULL) goto none;
    block->chunks = chunks;
    block->room = room;
    return 0;
none:
    PyErr_NoMemory();
    return -1;
}

static void add(RecordBlock *block, Span record, PyObject *chunk) {
    Py_INCREF(chunk);
    block->chunks[block->n] = chunk;
    block->records[block->n++] = record;
    block->num_bytes += record.end - record.at;
}

/* The number of good records of [first, stop) before the first bad one; places in the chunk. */
static Py_ssize_t count_good(const Chunk *chunk, Py_ssize_t first, Py_ssize_t stop) {
    const int64_t *offsets = chunk->offsets.values;
    Py_ssize_t i = first;
    if (chunk->checked) return stop - first;
    while (i < stop && is_framed_record(&chunk->buffer, offsets[i], offsets[i + 1], 1)) i++;
    return i - first;
}

/* The records of a visit that are still to be taken, and what the block may have. */
typedef struct {
    int64_t first, count;
    Py_ssize_t most, limit;
} Wanted;

/* Returns how many records from a place of a chunk on are wanted and fit into the block, but at least one. */
static Py_ssize_t fitting(const RecordBlock *block, const Chunk *chunk, Py_ssize_t place, const Wanted *wanted) {
    const int64_t *offsets = chunk->offsets.values;
    Py_ssize_t room = wanted->most - block->n, left = chunk->offsets.n - 1 - place, n = 1;
    int64_t bytes = wanted->limit - block->num_bytes;
    if (room > left) room = left;
    if (room > wanted->count) room = (Py_ssize_t)wanted->count;
    while (n < room && (offsets[place + n + 1] <= bytes || offsets[place + n + 1] - bytes <= offsets[place])) n++;
    return n;
}

/* Adds the first of the wanted records of a chunk; returns how many, or -1 with an exception. */
static Py_ssize_t take_run(RecordBlock *block, PyObject *capsule, const Chunk *chunk, const Wanted *wanted) {
    if (wanted->first < chunk->first || wanted->first - chunk->first >= chunk->offsets.n - 1) return 0;
    Py_ssize_t place = (Py_ssize_t)(wanted->first - chunk->first), good;
    Py_ssize_t stop = place + fitting(block, chunk, place, wanted);
    const int64_t *offsets = chunk->offsets.values;
    if (offsets[stop] >= LARGE && offsets[stop] - LARGE >= offsets[place]) {
        Py_BEGIN_ALLOW_THREADS
        good = count_good(chunk, place, stop);
        Py_END_ALLOW_THREADS
    } else {
        good = count_good(chunk, place, stop);
    }
    if (make_room(block, good) < 0) return -1;
    const uint8_t *data = chunk->buffer.buf;
    for (Py_ssize_t i = place; i < place + good; i++)
        add(block, (Span){data + offsets[i] + HEADER, data + offsets[i + 1] - FOOTER}, capsule);
    return good;
}

/* The arrays that say what is read: for each visit to a run its number, its first record and how many. */
typedef struct {
    PyObject *chunks; /* a dict: by run */
    Py_buffer runs, firsts, counts;
} Visits;

/* Takes what there is of a visit, and notes what is left. Returns how many records, or -1 with an exception. */
static Py_ssize_t take_visit(RecordBlock *block, const Visits *visits, Py_ssize_t at, Py_ssize_t most,
                             Py_ssize_t limit) {
    int64_t *first = (int64_t *)visits->firsts.buf + at, *count = (int64_t *)visits->counts.buf + at;
    PyObject *run = PyLong_FromLongLong(((const int64_t *)visits->runs.buf)[at]);
    PyObject *capsule = run == NULL ? NULL : PyDict_GetItemWithError(visits->chunks, run);
    Chunk *chunk = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, CHUNK);
    Py_ssize_t taken = PyErr_Occurred() ? -1 : 0;
    if (chunk != NULL && *count > 0) {
        Py_INCREF(capsule);
        taken = take_run(block, capsule, chunk, &(Wanted){*first, *count, most, limit});
        if (taken > 0) {
            *first += taken;
            *count -= taken;
            if (*first - chunk->first == chunk->offsets.n - 1 && PyDict_DelItem(visits->chunks, run) < 0) taken = -1;
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
    Visits visits;
    if (!PyArg_ParseTuple(arguments, "O!OOOnnnn:take", &PyDict_Type, &visits.chunks, &runs, &firsts, &counts, &at,
                          &stop, &most, &limit))
        return NULL;
    if (int64s_get(runs, &visits.runs, 0, "runs") < 0) return NULL;
    if (int64s_get(firsts, &visits.firsts, 1, "firsts") == 0) {
        if (int64s_get(counts, &visits.counts, 1, "counts") == 0) {
            Py_ssize_t n = visits.runs.len / 8;
            if (visits.firsts.len / 8 != n || visits.counts.len / 8 != n || at < 0 || stop > n)
                PyErr_Format(PyExc_ValueError, "[%zd, %zd) of %zd runs, %zd firsts and %zd counts", at, stop, n,
                             visits.firsts.len / 8, visits.counts.len / 8);
            else
                result = taken_of(self, &visits, at, stop, most, limit);
            PyBuffer_Release(&visits.counts);
        }
        PyBuffer_Release(&visits.firsts);
    }
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
    if (make_room(block, n) < 0) {
        Py_DECREF(block);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++, start += step) add(block, self->records[start], self->chunks[start]);
    return (PyObject *)block;
}

static PyObject *subscript(RecordBlock *self, PyObject *index) {
    if (PySlice_Check(index)) return part(self, index);
    Py_ssize_t i = PyNumber_AsSsize_t(index, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred()) return NULL;
    return item(self, i < 0 ? i + self->n : i);
}

static PyObject *extend(RecordBlock *self, PyObject *object) {
    const Span *records;
    Py_ssize_t n = block_spans(object, &records);
    if (n < 0) return PyErr_Format(PyExc_TypeError, "only a RecordBlock can be added to one, not %R", object);
    RecordBlock *other = (RecordBlock *)object;
    if (make_room(self, n) < 0) return NULL;
    for (Py_ssize_t i = 0; i < n; i++) add(self, other->records[i], other->chunks[i]);
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
             "Records, as a sequence of bytes that are made when they are asked for; a slice is such a block.");

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

static PyMethodDef functions[] = {
    {"chunk", py_chunk, METH_VARARGS, chunk_doc},
    {NULL, NULL, 0, NULL},
};

int block_add(PyObject *module) {
    if (block_type == NULL) block_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (block_type == NULL || PyModule_AddFunctions(module, functions) < 0) return -1;
    return PyModule_AddObjectRef(module, "RecordBlock", (PyObject *)block_type);
}
