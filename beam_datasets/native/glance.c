/* A whole shard and its index at one glance: whether everything in both is good, which is what they nearly always are.
 *
 * The layouts are those of beam_datasets/formats/tfrecord.py and index.py. Anything out of the ordinary, damaged or
 * not, is refused without a word: whoever asked (beam_datasets/reading/glancing.py) then looks closer.
 */
#include "native.h"
#include <stdlib.h>

#ifndef _WIN32
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#endif

#define OVERHEAD 16
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
    if (index.size < INDEX_HEADER + 8 || memcmp(index.data, "BDINDEX\1", 8) != 0) return 0;
    if (crc_of(index.data, INDEX_HEADER - 4) != u32_at(index.data + INDEX_HEADER - 4)) return 0;
    uint64_t n = u64_at(index.data + 8), room = index.size - INDEX_HEADER - 8;
    seen->flags = u32_at(index.data + 24);
    if (seen->flags != 0 && seen->flags != HAS_KEYS && seen->flags != (HAS_KEYS | ORDERED)) return 0;
    uint64_t width = seen->flags & HAS_KEYS ? 8 + KEY : 8;
    if (n != room / width || room % width != 0) return 0;
    seen->records = n;
    seen->offsets = index.data + INDEX_HEADER;
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

/* ------------------------------------------------------------------------------------------------ many small files */

#ifndef _WIN32

#define FIRSTS (1 << 20) /* bytes of first records from which on a call ends */

/* What is told of a shard, all zeros where it is refused; GLANCED in beam_datasets/reading/glancing.py. */
typedef struct {
    uint64_t records, size, first; /* how many, bytes of the file, bytes of the first record */
    uint32_t crc, index_crc, flags;
    uint32_t state; /* one more than it has indexes */
    uint8_t first_key[KEY], last_key[KEY];
} Row;

_Static_assert(sizeof(Row) == 72, "GLANCED says so");

/* Memory that grows, for one file after the other. */
typedef struct {
    uint8_t *data;
    size_t size, room;
} Room;

/* Makes room for n bytes more; 0, or -1. Needs no GIL. */
static int extend(Room *room, size_t n) {
    if (n <= room->room - room->size) return 0;
    size_t wanted = (room->size + n) * 2;
    uint8_t *data = realloc(room->data, wanted);
    if (data == NULL) return -1;
    room->data = data;
    room->room = wanted;
    return 0;
}

enum { UNREADABLE = -1, MISSING = 0, READ = 1 };

/* Reads a file of at most so many bytes behind what the room holds. */
static int read_at(int directory, const char *name, uint64_t most, Room *room) {
    struct stat found;
    errno = 0; /* which stays so for what is no file */
    int file = file_open(directory, name, &found), result = UNREADABLE;
    if (file < 0) return errno == ENOENT ? MISSING : UNREADABLE;
    Py_ssize_t size = (Py_ssize_t)found.st_size;
    if ((uint64_t)size <= most && extend(room, (size_t)size + 1) == 0 &&
        read(file, room->data + room->size, (size_t)size) == size) {
        room->size += (size_t)size;
        result = READ;
    }
    close(file);
    return result;
}

/* What a call works on. */
typedef struct {
    int directory;
    const char *names, *end, *suffix; /* names with a zero between them; what an index has behind its shard's */
    uint64_t most;
    double seconds;
    Row *rows;
    Room files, firsts;
} Files;

/* Looks at one shard, and keeps its first record; -1 where there is no memory for that, else 0. */
static int look_at(Files *files, const char *name, Row *row) {
    char index_name[4096];
    int length = snprintf(index_name, sizeof index_name, "%s%s", name, files->suffix);
    if (length < 0 || (size_t)length >= sizeof index_name) return 0;
    Room *room = &files->files;
    room->size = 0;
    if (read_at(files->directory, name, files->most, room) != READ || room->size == 0) return 0;
    size_t size = room->size;
    int indexed = read_at(files->directory, index_name, 2 * files->most, room);
    if (indexed == UNREADABLE) return 0;
    Seen seen = {0};
    Bytes index = {indexed == READ ? room->data + size : NULL, room->size - size};
    if (!is_good((Bytes){room->data, size}, index, &seen)) return 0;
    if (extend(&files->firsts, (size_t)seen.first) < 0) return -1;
    if (seen.first) memcpy(files->firsts.data + files->firsts.size, room->data + OVERHEAD - 4, (size_t)seen.first);
    files->firsts.size += (size_t)seen.first;
    uint32_t state = 1 + (indexed == READ);
    *row = (Row){seen.records, size, seen.first, seen.crc, seen.index_crc, seen.flags, state, {0}, {0}};
    if (seen.keys == NULL) return 0;
    memcpy(row->first_key, seen.keys, KEY);
    memcpy(row->last_key, seen.keys + KEY * (seen.records - 1), KEY);
    return 0;
}

static double now(void) {
    struct timespec time;
    return clock_gettime(CLOCK_MONOTONIC, &time) == 0 ? (double)time.tv_sec + 1e-9 * (double)time.tv_nsec : 0;
}

/* Looks at one shard after the other; returns at how many, or -1 where there is no memory. */
static Py_ssize_t look_at_all(Files *files) {
    double end = now() + files->seconds;
    Py_ssize_t n = 0;
    for (const char *name = files->names; name < files->end; name += strlen(name) + 1) {
        memset(files->rows + n, 0, sizeof *files->rows);
        if (look_at(files, name, files->rows + n) < 0) return -1;
        n++;
        if (files->firsts.size >= FIRSTS || now() >= end) break;
    }
    return n;
}

/* Returns the number of shards, and the first records of the good ones. */
static PyObject *looked(const Files *files, Py_ssize_t n) {
    PyObject *firsts = PyList_New(0);
    const char *at = (const char *)files->firsts.data;
    for (Py_ssize_t i = 0; firsts != NULL && i < n; i++) {
        if (!files->rows[i].state) continue;
        PyObject *first = PyBytes_FromStringAndSize(at, (Py_ssize_t)files->rows[i].first);
        if (first == NULL || PyList_Append(firsts, first) < 0) Py_CLEAR(firsts);
        Py_XDECREF(first);
        at += files->rows[i].first;
    }
    return firsts == NULL ? NULL : Py_BuildValue("nN", n, firsts);
}

/* Whether there is a row for each name. */
static int has_rows(const Files *files, const Py_buffer *rows) {
    Py_ssize_t n = 0;
    for (const char *name = files->names; name < files->end; name += strlen(name) + 1) n++;
    return rows->len == n * (Py_ssize_t)sizeof(Row) && (uintptr_t)rows->buf % sizeof(uint64_t) == 0;
}

static PyObject *look(Files *files, PyObject *directory, const Py_buffer *rows) {
    const char *path = PyBytes_AsString(directory);
    Py_ssize_t n;
    if (!has_rows(files, rows)) {
        PyErr_SetString(PyExc_ValueError, "rows must have a row for each name.");
        return NULL;
    }
    files->rows = rows->buf;
    Py_BEGIN_ALLOW_THREADS
    files->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    n = look_at_all(files); /* where there is no directory, all are refused */
    if (files->directory >= 0) close(files->directory);
    Py_END_ALLOW_THREADS
    PyObject *result = n < 0 ? PyErr_NoMemory() : looked(files, n);
    free(files->files.data);
    free(files->firsts.data);
    return result;
}

PyDoc_STRVAR(glance_files_doc,
             "glance_files(directory, names, suffix, most, seconds, rows)\n--\n\n"
             "Looks at shards and their indexes as glance() does, having read them; into rows goes what was seen.\n\n"
             "Names are bytes with a zero between them, the suffix is what the name of an index has besides. What has\n"
             "more than so many bytes is refused, and what cannot be read. Returns how many shards were looked\n"
             "at (one at least, until time is up or many bytes are held) and the first records of the good ones.");

static PyObject *glance_files(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *directory = NULL, *names, *out;
    Py_ssize_t most, length;
    Files files = {0};
    Py_buffer rows;
    if (!PyArg_ParseTuple(arguments, "O&OsndO:glance_files", PyUnicode_FSConverter, &directory, &names, &files.suffix,
                          &most, &files.seconds, &out)) {
        return NULL;
    }
    PyObject *result = NULL;
    char *text;
    if (PyBytes_AsStringAndSize(names, &text, &length) == 0 &&
        PyObject_GetBuffer(out, &rows, PyBUF_SIMPLE | PyBUF_WRITABLE) == 0) {
        files.names = text;
        files.end = text + length;
        files.most = most > 0 ? (uint64_t)most : 0;
        result = look(&files, directory, &rows);
        PyBuffer_Release(&rows);
    }
    Py_DECREF(directory);
    return result;
}

#endif

PyMethodDef glance_methods[] = {
    {"glance", glance, METH_VARARGS, glance_doc},
#ifndef _WIN32
    {"glance_files", glance_files, METH_VARARGS, glance_files_doc},
#endif
    {NULL, NULL, 0, NULL},
};
