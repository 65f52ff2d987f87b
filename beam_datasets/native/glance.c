/* A whole shard and its index at one glance: whether everything in both is good, which is what they nearly always are.
 *
 * The layouts are those of beam_datasets/formats/tfrecord.py and index.py. Anything out of the ordinary, damaged or
 * not, is refused without a word: whoever asked (beam_datasets/reading/glancing.py) then looks closer.
 */
#include "native.h"

#define OVERHEAD 16
#define HEADER 40
#define KEY 16
enum { HAS_KEYS = 1, ORDERED = 2 };

typedef struct {
    const uint8_t *data;
    uint64_t size;
} Bytes;

typedef struct {
    uint64_t records, first; /* how many, and how many bytes the first has */
    const uint8_t *offsets; /* NULL where there is no index */
    const uint8_t *keys;    /* NULL where it has none */
    uint32_t flags, crc, index_crc;
} Seen;

static uint32_t crc_of(const uint8_t *data, uint64_t size) { return crc32c_extend(0, data, (size_t)size); }

/* Whether an index is good by itself, with keys that ascend or without keys. */
static int is_index(Bytes index, Seen *seen) {
    if (index.size < HEADER + 8 || memcmp(index.data, "BDINDEX\1", 8) != 0) return 0;
    if (crc_of(index.data, HEADER - 4) != u32_at(index.data + HEADER - 4)) return 0;
    uint64_t n = u64_at(index.data + 8), room = index.size - HEADER - 8;
    seen->flags = u32_at(index.data + 24);
    if (seen->flags != 0 && seen->flags != HAS_KEYS && seen->flags != (HAS_KEYS | ORDERED)) return 0;
    uint64_t width = seen->flags & HAS_KEYS ? 8 + KEY : 8;
    if (n != room / width || room % width != 0) return 0;
    seen->records = n;
    seen->offsets = index.data + HEADER;
    const uint8_t *keys = seen->offsets + 8 * (n + 1);
    if (crc_of(seen->offsets, 8 * (n + 1)) != u32_at(index.data + 28)) return 0;
    if (crc_of(keys, (uint64_t)(index.data + index.size - keys)) != u32_at(index.data + 32)) return 0;
    if (u64_at(index.data + 16) != u64_at(seen->offsets + 8 * n)) return 0;
    if (!(seen->flags & HAS_KEYS)) return 1;
    seen->keys = keys;
    for (uint64_t i = 1; i < n; i++)
        if (memcmp(keys + KEY * (i - 1), keys + KEY * i, KEY) >= 0) return 0;
    return 1;
}

/* Whether a shard is one good record after the other, each where the index says, where there is one. */
static int is_shard(Bytes shard, Seen *seen) {
    uint64_t place = 0, n = 0;
    for (; place < shard.size; n++) {
        const uint8_t *record = shard.data + place;
        if (seen->offsets != NULL && (n == seen->records || u64_at(seen->offsets + 8 * n) != place)) return 0;
        if (shard.size - place < OVERHEAD) return 0;
        uint64_t length = u64_at(record);
        if (length > shard.size - place - OVERHEAD || !is_record(record, (size_t)length + OVERHEAD, 1)) return 0;
        if (n == 0) seen->first = length;
        place += length + OVERHEAD;
    }
    if (seen->offsets != NULL && (n != seen->records || u64_at(seen->offsets + 8 * n) != place)) return 0;
    seen->records = n;
    return n > 0;
}

static int is_good(Bytes shard, Bytes index, Seen *seen) {
    if (index.data != NULL && !is_index(index, seen)) return 0;
    if (!is_shard(shard, seen)) return 0;
    seen->crc = crc_of(shard.data, shard.size);
    seen->index_crc = index.data == NULL ? 0 : crc_of(index.data, index.size);
    return 1;
}

static PyObject *facts(const Seen *seen) {
    const char *keys = (const char *)seen->keys; /* "y#" makes None of NULL */
    const char *last = keys == NULL ? NULL : keys + KEY * (seen->records - 1);
    return Py_BuildValue("KIIiKy#y#", (unsigned long long)seen->records, (unsigned int)seen->crc,
                         (unsigned int)seen->index_crc, (int)seen->flags, (unsigned long long)seen->first,
                         keys, (Py_ssize_t)KEY, last, (Py_ssize_t)KEY);
}

PyDoc_STRVAR(glance_doc, "glance(shard, index)\n--\n\n"
                         "Returns (number of records, CRC-32C of the shard, that of the index, its flags, bytes of\n"
                         "the first record, first key, last key) of a whole file and its index, None for none, where\n"
                         "all in both is good and agrees; else None. Keys are None where there are none.");

static PyObject *glance(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *file, *indexed;
    Py_buffer shard, index = {0};
    if (!PyArg_ParseTuple(arguments, "OO:glance", &file, &indexed) || bytes_get(file, &shard) < 0) return NULL;
    if (indexed != Py_None && bytes_get(indexed, &index) < 0) {
        PyBuffer_Release(&shard);
        return NULL;
    }
    Seen seen = {0};
    Bytes records = {shard.buf, (uint64_t)shard.len};
    Bytes places = {indexed == Py_None ? NULL : index.len ? index.buf : (const void *)"", (uint64_t)index.len};
    int good;
    if (shard.len >= LARGE) {
        Py_BEGIN_ALLOW_THREADS
        good = is_good(records, places, &seen);
        Py_END_ALLOW_THREADS
    } else {
        good = is_good(records, places, &seen);
    }
    PyObject *result = NULL;
    if (good)
        result = facts(&seen);
    else
        Py_INCREF(result = Py_None);
    PyBuffer_Release(&shard);
    if (indexed != Py_None) PyBuffer_Release(&index);
    return result;
}

PyMethodDef glance_methods[] = {
    {"glance", glance, METH_VARARGS, glance_doc},
    {NULL, NULL, 0, NULL},
};
