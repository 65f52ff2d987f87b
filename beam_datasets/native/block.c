/* RecordBlock: checked records that lie in the buffers they were read into, so that nothing is copied to decode them.
 *
 * Bytes are made of a record only where it is asked for. beam_datasets/formats/record_block.py has the same in Python.
 */
#include "decode.h"
#include <structmember.h>

#define CHUNK "beam_datasets.chunk"
#define HEADER 12
#define FOOTER 4

/* Framed records in a buffer, and where each begins in it; one offset more says where the last one ends. */
typedef struct {
    Py_buffer buffer;
    Ints offsets;
} Chunk;

typedef struct {
    PyObject_HEAD
    Span *records;
    PyObject **chunks; /* in which each of them lies */
    Py_ssize_t n, room, num_bytes;
} RecordBlock;

static PyTypeObject *block_type; /* made once, with the module */

/* ---------------------------------------------------------------------------------------------------------- chunks */

static void chunk_free(PyObject *capsule) {
    Chunk *chunk = PyCapsule_GetPointer(capsule, CHUNK);
    PyBuffer_Release(&chunk->buffer);
    ints_drop(&chunk->offsets);
    PyMem_Free(chunk);
}

static Chunk *chunk_new(PyObject *buffer, PyObject *offsets) {
    Chunk *chunk = PyMem_Calloc(1, sizeof *chunk);
    if (chunk == NULL) return (Chunk *)PyErr_NoMemory();
    if (ints_get(offsets, &chunk->offsets, "offsets") == 0) {
        if (bytes_get(buffer, &chunk->buffer) == 0) return chunk;
        ints_drop(&chunk->offsets);
    }
    PyMem_Free(chunk);
    return NULL;
}

PyDoc_STRVAR(chunk_doc, "chunk(buffer, offsets)\n--\n\n"
                        "Returns what RecordBlock.take() takes records from: framed ones, and where each begins and the\n"
                        "last one ends. It holds the buffer.");

static PyObject *py_chunk(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *buffer, *offsets;
    if (!PyArg_ParseTuple(arguments, "OO:chunk", &buffer, &offsets)) return NULL;
    Chunk *chunk = chunk_new(buffer, offsets);
    if (chunk == NULL) return NULL;
    PyObject *capsule = PyCapsule_New(chunk, CHUNK, chunk_free);
    if (capsule != NULL) return capsule;
    PyBuffer_Release(&chunk->buffer);
    ints_drop(&chunk->offsets);
    PyMem_Free(chunk);
    return NULL;
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

/* The number of good records of [first, stop) before the first bad one; of those, the first and what `most` leaves. */
static Py_ssize_t count_good(const Chunk *chunk, Py_ssize_t first, Py_ssize_t stop, int64_t most) {
    const int64_t *offsets = chunk->offsets.values;
    Py_ssize_t i = first;
    for (; i < stop; i++) {
        if (i > first && offsets[i + 1] > most && offsets[i + 1] - most > offsets[first]) break;
        if (!is_framed_record(&chunk->buffer, offsets[i], offsets[i + 1], 1)) break;
    }
    return i - first;
}

PyDoc_STRVAR(take_doc, "take(chunk, first, stop, most)\n--\n\n"
                       "Adds the records [first, stop) of a chunk, and returns how many: only those before the first\n"
                       "damaged one, and no more than the first where they have more than so many bytes together.");

static PyObject *py_take(RecordBlock *self, PyObject *arguments) {
    PyObject *capsule;
    Py_ssize_t first, stop, most, good;
    if (!PyArg_ParseTuple(arguments, "Onnn:take", &capsule, &first, &stop, &most)) return NULL;
    const Chunk *chunk = PyCapsule_GetPointer(capsule, CHUNK);
    if (chunk == NULL) return NULL;
    const int64_t *offsets = chunk->offsets.values;
    if (first < 0 || stop < first || stop >= chunk->offsets.n || most < 0)
        return PyErr_Format(PyExc_ValueError, "[%zd, %zd) of a chunk of %zd records, at most %zd bytes", first, stop,
                            chunk->offsets.n - 1, most);
    if (offsets[stop] >= LARGE && offsets[stop] - LARGE >= offsets[first]) {
        Py_BEGIN_ALLOW_THREADS
        good = count_good(chunk, first, stop, most);
        Py_END_ALLOW_THREADS
    } else {
        good = count_good(chunk, first, stop, most);
    }
    if (make_room(self, good) < 0) return NULL;
    const uint8_t *data = chunk->buffer.buf;
    for (Py_ssize_t i = first; i < first + good; i++)
        add(self, (Span){data + offsets[i] + HEADER, data + offsets[i + 1] - FOOTER}, capsule);
    return PyLong_FromSsize_t(good);
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

PyDoc_STRVAR(type_doc, "Records, as a sequence of bytes that are made when they are asked for; a slice is such a block.");

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
