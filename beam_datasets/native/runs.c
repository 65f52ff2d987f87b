/* Runs: records of a file in a row, of which a block reads a chunk when it gets there; all without the GIL.
 *
 * What cannot be read, or is not as it should be, is not told: whoever asked (beam_datasets/reading/runs.py,
 * small_runs.py) reads it again then. The layouts are those of beam_datasets/formats/index.py and tfrecord.py.
 */
#include "chunk.h"

#ifndef _WIN32
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define REST "beam_datasets.rest"
#define DIRECTORY "beam_datasets.directory"
#define SUFFIX ".index"
#define MOST_NAME 4096   /* bytes, with the suffix */
#define LEAST (64 << 10) /* bytes of an index that is small in any case */
#define MAX_RANGES 256   /* that are read into one chunk */
#define MAX_SPAN (1 << 14) /* records from the first to the last of a chunk: each takes 8 bytes, also if left out */

/* What is left of a run: records of a shard up to one before `stop`. */
typedef struct {
    PyObject *owner;        /* keeps the descriptor open */
    int descriptor;         /* of the shard; where it has a name, of its directory */
    PyObject *path;         /* of the shard, as bytes; NULL where it is open anyway */
    const char *name;       /* what is in them */
    Py_ssize_t records;     /* that a shard with a name is to have */
    uint8_t *index;         /* of a shard with a name; of malloc(), NULL before it was read */
    dev_t device;           /* and the inode: which file that was */
    ino_t inode;
    Py_buffer view;         /* where the offsets of others are */
    const uint8_t *offsets; /* u64: where each record of the shard begins, and the last one ends */
    Py_ssize_t first, stop, chunk_bytes;
} Rest;

/* Records [first, stop) of a shard that are read in one piece. */
typedef struct {
    int64_t first, stop;
    uint64_t start, size; /* in the file */
} Range;

static void rest_drop(Rest *rest) {
    Py_XDECREF(rest->owner);
    Py_XDECREF(rest->path);
    PyBuffer_Release(&rest->view);
    free(rest->index);
    PyMem_Free(rest);
}

static void rest_free(PyObject *capsule) { rest_drop(PyCapsule_GetPointer(capsule, REST)); }

/* Returns a chunk without records, which is followed by the run; NULL with an exception, and the run is dropped. */
static PyObject *chunk_before(Rest *rest) {
    Py_ssize_t first = rest->first;
    PyObject *capsule = PyCapsule_New(rest, REST, rest_free);
    if (capsule == NULL) {
        rest_drop(rest);
        return NULL;
    }
    int64_t *none = calloc(1, sizeof *none);
    if (none != NULL) return chunk_own(none, 0, first, capsule);
    Py_DECREF(capsule);
    return PyErr_NoMemory();
}

/* Whether it is a run of a shard of n records; else there is an exception. */
static int is_run(const Rest *rest, Py_ssize_t n) {
    if (rest->first >= 0 && rest->first < rest->stop && rest->stop <= n && rest->chunk_bytes > 0) return 1;
    PyErr_Format(PyExc_ValueError, "[%zd, %zd) of %zd records in chunks of %zd bytes", rest->first, rest->stop, n,
                 rest->chunk_bytes);
    return 0;
}

/* --------------------------------------------------------------------------------------------------------- opening */

/* Reads the header and the offsets of a shard's index; NULL where they are not good, or more than a chunk. */
static uint8_t *index_read(const Rest *rest, const char *shard, uint64_t *shard_size) {
    char name[MOST_NAME];
    struct stat found;
    size_t length = strlen(shard);
    Py_ssize_t wanted = index_size(rest->records);
    if (length > sizeof name - sizeof SUFFIX || wanted > (rest->chunk_bytes > LEAST ? rest->chunk_bytes : LEAST))
        return NULL;
    memcpy(name, shard, length);
    memcpy(name + length, SUFFIX, sizeof SUFFIX);
    int descriptor = file_open(rest->descriptor, name, &found);
    if (descriptor < 0) return NULL;
    uint8_t *index = malloc((size_t)wanted);
    int good = index != NULL && read(descriptor, index, (size_t)wanted) == wanted &&
               index_is_good(index, (uint64_t)found.st_size, (uint64_t)rest->records, shard_size);
    close(descriptor);
    if (good) return index;
    free(index);
    return NULL;
}

/* Opens a shard for the first time; its descriptor, or -1 where it is not as its index says. */
static int open_first(Rest *rest, const char *name) {
    uint64_t shard_size;
    struct stat found;
    uint8_t *index = index_read(rest, name, &shard_size);
    int descriptor = index == NULL ? -1 : file_open(rest->descriptor, name, &found);
    if (descriptor >= 0 && (uint64_t)found.st_size == shard_size) {
        rest->index = index;
        rest->offsets = index + INDEX_HEADER;
        rest->device = found.st_dev;
        rest->inode = found.st_ino;
        return descriptor;
    }
    if (descriptor >= 0) close(descriptor);
    free(index);
    return -1;
}

/* Opens it again; -1 where it is another one now. */
static int open_again(const Rest *rest, const char *name) {
    struct stat found;
    int descriptor = file_open(rest->descriptor, name, &found);
    if (descriptor < 0 || (found.st_dev == rest->device && found.st_ino == rest->inode)) return descriptor;
    close(descriptor);
    return -1;
}

/* --------------------------------------------------------------------------------------------------------- reading */

static const uint8_t *at_offset(const Rest *rest, Py_ssize_t record) { return rest->offsets + 8 * (size_t)record; }

static uint64_t offset_of(const Rest *rest, Py_ssize_t record) { return u64_at(at_offset(rest, record)); }

static uint64_t size_of(const Rest *rest, Py_ssize_t first, Py_ssize_t stop) {
    return offset_of(rest, stop) - offset_of(rest, first);
}

/* Returns the ranges of a run that the visits from `at` on take, in ascending order, as far as they fit into a chunk or
 * more. Sets whether there are others. */
static Py_ssize_t ranges_wanted(const Rest *rest, const Visits *visits, Py_ssize_t at, Range *ranges, int *more) {
    const int64_t *runs = visits->runs.buf, *firsts = visits->firsts.buf, *counts = visits->counts.buf;
    Py_ssize_t n = 0, end = visits->runs.len / 8;
    uint64_t bytes = 0;
    int64_t run = runs[at];
    *more = 0;
    for (; at < end; at++) {
        int64_t first = firsts[at], count = counts[at];
        if (runs[at] != run || count <= 0) continue;
        Range *last = ranges + n - 1;
        int is_next = n && first == last->stop;
        *more = 1;
        if (first < 0 || first >= rest->stop || (n && first < last->stop) || (n == MAX_RANGES && !is_next)) return n;
        if (bytes > 2 * (uint64_t)rest->chunk_bytes) return n;
        int64_t stop = count > rest->stop - first ? rest->stop : first + count;
        if (n && stop - ranges[0].first > MAX_SPAN && !is_next) return n;
        if (is_next)
            last->stop = stop;
        else
            ranges[n++] = (Range){.first = first, .stop = stop};
        *more = 0;
        if (stop == rest->stop) return n;
        if (rest->offsets != NULL) bytes += size_of(rest, (Py_ssize_t)first, (Py_ssize_t)stop);
    }
    return n;
}

/* Returns the record behind the last one of [first, stop) that fits into so many bytes; a little more, if none is left
 * by that. */
static Py_ssize_t end_of(const Rest *rest, Py_ssize_t first, Py_ssize_t stop, uint64_t most) {
    if (size_of(rest, first, stop) <= most + most / 4) return stop;
    Py_ssize_t end = first, step = 1; /* the last one does not fit */
    for (; step < stop - end && size_of(rest, first, end + step) <= most; step *= 2) end += step;
    for (; step > 0; step /= 2)
        if (step < stop - end && size_of(rest, first, end + step) <= most) end += step;
    return end;
}

/* Cuts the ranges to a chunk, and sets where they are in the file. Returns how many are left, at least one. */
static Py_ssize_t ranges_fit(const Rest *rest, Range *ranges, Py_ssize_t n, uint64_t *bytes) {
    uint64_t most = (uint64_t)rest->chunk_bytes;
    *bytes = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        Range *range = ranges + i;
        Py_ssize_t first = (Py_ssize_t)range->first, stop = (Py_ssize_t)range->stop;
        Py_ssize_t end = *bytes < most ? end_of(rest, first, stop, most - *bytes) : first;
        if (end == first && i) return i;
        if (end == first) end++;
        range->stop = end;
        range->start = offset_of(rest, first);
        range->size = size_of(rest, first, end);
        if (range->start > INT64_MAX || range->size > PY_SSIZE_T_MAX / 2) return i;
        *bytes += range->size;
        if (end < stop) return i + 1;
    }
    return n;
}

/* Reads n ranges of a file into memory for chunk_own(). */
static int64_t *ranges_get(const Rest *rest, int descriptor, const Range *ranges, Py_ssize_t n, uint64_t bytes) {
    int64_t first = ranges[0].first, records = ranges[n - 1].stop - first;
    if (bytes > PY_SSIZE_T_MAX / 2 || records > PY_SSIZE_T_MAX / 32) return NULL;
    int64_t *memory = malloc((size_t)(8 * (uint64_t)(records + 1) + bytes));
    if (memory == NULL) return NULL;
    uint8_t *data = (uint8_t *)(memory + records + 1);
    int64_t at = 0, record = first;
    for (const Range *range = ranges; range < ranges + n; range++) {
        for (; record < range->first; record++) memory[record - first] = at;
        for (; record < range->stop; record++)
            memory[record - first] = at + (int64_t)(offset_of(rest, (Py_ssize_t)record) - range->start);
        if (pread(descriptor, data + at, (size_t)range->size, (off_t)range->start) != (ssize_t)range->size) {
            free(memory);
            return NULL;
        }
        at += (int64_t)range->size; /* as it was asked for: offsets in a mapped file may have changed */
    }
    memory[records] = at;
    return memory;
}

/* Reads the chunk of the first of the ranges, which are cut to it. A shard with a name is closed again, so that no
 * number of runs takes descriptors. NULL where it cannot be read. */
static int64_t *chunk_load(Rest *rest, Range *ranges, Py_ssize_t *n) {
    const char *name = rest->name;
    int descriptor = name == NULL ? rest->descriptor : rest->index ? open_again(rest, name) : open_first(rest, name);
    if (descriptor < 0) return NULL;
    uint64_t bytes;
    *n = ranges_fit(rest, ranges, *n, &bytes);
    int64_t *memory = *n ? ranges_get(rest, descriptor, ranges, *n, bytes) : NULL;
    if (name != NULL) close(descriptor);
    return memory;
}

PyObject *chunk_read(PyObject *capsule, const Visits *visits, Py_ssize_t at) {
    Rest *rest = PyCapsule_GetPointer(capsule, REST);
    Range ranges[MAX_RANGES];
    int more;
    Py_ssize_t n = rest == NULL ? 0 : ranges_wanted(rest, visits, at, ranges, &more);
    if (n == 0) return NULL;
    Py_ssize_t left = n;
    int64_t *memory, last = ranges[n - 1].stop;
    Py_BEGIN_ALLOW_THREADS
    memory = chunk_load(rest, ranges, &left);
    Py_END_ALLOW_THREADS
    if (memory == NULL) return NULL;
    int64_t first = ranges[0].first, stop = ranges[left - 1].stop;
    more |= stop < last;
    return chunk_own(memory, (Py_ssize_t)(stop - first), (Py_ssize_t)first, more ? Py_NewRef(capsule) : NULL);
}

/* ------------------------------------------------------------------------------------------------------- functions */

PyDoc_STRVAR(run_doc, "run(owner, descriptor, offsets, first, stop, chunk_bytes, /)\n--\n\n"
                      "Returns a chunk, see chunk(), without records, which is followed by records [first, stop) of a\n"
                      "file: RecordBlock.take() reads about so many bytes at a time of those that its visits take,\n"
                      "when it gets there, and drops the chunk behind the last of them. The owner keeps the file\n"
                      "open; offsets, uint64, say where each record of the file begins and the last one ends. Where\n"
                      "they cannot be read, take() ends there and drops the chunk.");

static PyObject *py_run(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *offsets;
    Rest *rest = PyMem_Calloc(1, sizeof *rest);
    if (rest == NULL) return PyErr_NoMemory();
    int good = PyArg_ParseTuple(arguments, "OiOnnn:run", &rest->owner, &rest->descriptor, &offsets, &rest->first,
                                &rest->stop, &rest->chunk_bytes);
    Py_XINCREF(rest->owner);
    if (good && bytes_get(offsets, &rest->view) == 0) {
        Py_ssize_t n = rest->view.len / 8 - 1;
        rest->offsets = rest->view.buf;
        if (is_run(rest, n)) return chunk_before(rest);
    }
    rest_drop(rest);
    return NULL;
}

static void directory_free(PyObject *capsule) {
    close((int)((intptr_t)PyCapsule_GetPointer(capsule, DIRECTORY) - 1));
}

PyDoc_STRVAR(directory_doc, "directory(path, /)\n--\n\n"
                            "Opens a directory; returns what runs() finds shards in, or None where that fails.");

static PyObject *py_directory(PyObject *Py_UNUSED(module), PyObject *path) {
    PyObject *name;
    if (!PyUnicode_FSConverter(path, &name)) return NULL;
    const char *text = PyBytes_AsString(name);
    int descriptor;
    Py_BEGIN_ALLOW_THREADS
    descriptor = open(text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    Py_END_ALLOW_THREADS
    Py_DECREF(name);
    if (descriptor < 0) Py_RETURN_NONE;
    PyObject *capsule = PyCapsule_New((void *)((intptr_t)descriptor + 1), DIRECTORY, directory_free);
    if (capsule == NULL) close(descriptor);
    return capsule;
}

/* Returns the chunk before a run of a shard that is not open; NULL with an exception. */
static PyObject *chunk_coming(PyObject *directory, PyObject *name, const int64_t *numbers, Py_ssize_t n,
                              Py_ssize_t chunk_bytes) {
    Rest *rest = PyMem_Calloc(1, sizeof *rest);
    if (rest == NULL) return PyErr_NoMemory();
    rest->owner = Py_NewRef(directory);
    rest->descriptor = (int)((intptr_t)PyCapsule_GetPointer(directory, DIRECTORY) - 1);
    rest->records = (Py_ssize_t)numbers[0];
    rest->first = (Py_ssize_t)numbers[n];
    rest->stop = (Py_ssize_t)numbers[2 * n];
    rest->chunk_bytes = chunk_bytes;
    int good = rest->descriptor >= 0 && is_run(rest, rest->records) && PyUnicode_FSConverter(name, &rest->path);
    if (good) {
        rest->name = PyBytes_AsString(rest->path);
        return chunk_before(rest);
    }
    rest_drop(rest);
    return NULL;
}

static PyObject *chunks_coming(PyObject *directory, PyObject *names, const Ints *numbers, Py_ssize_t chunk_bytes) {
    Py_ssize_t n = PyTuple_Size(names);
    if (numbers->n != 3 * n)
        return PyErr_Format(PyExc_ValueError, "%zd numbers for %zd names, not 3 for each", numbers->n, n);
    PyObject *chunks = PyList_New(n);
    for (Py_ssize_t i = 0; chunks != NULL && i < n; i++) {
        PyObject *chunk = chunk_coming(directory, PyTuple_GetItem(names, i), numbers->values + i, n, chunk_bytes);
        if (chunk == NULL || PyList_SetItem(chunks, i, chunk) < 0) Py_CLEAR(chunks);
    }
    return chunks;
}

PyDoc_STRVAR(runs_doc,
             "runs(directory, names, numbers, chunk_bytes, /)\n--\n\n"
             "Returns for each shard of a directory(), by name, a chunk as run() does. take() opens the shard when it\n"
             "gets there, and checks it against its index. Numbers are how many records each shard has, then the\n"
             "first record of each run, then the record behind its last. Where a shard cannot be read, is not as its\n"
             "index says, or has one larger than a chunk, take() ends there and drops the chunk. Between chunks it is\n"
             "closed.");

static PyObject *py_runs(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *directory, *names, *numbers, *chunks = NULL;
    Py_ssize_t chunk_bytes;
    Ints ints;
    if (!PyArg_ParseTuple(arguments, "OO!On:runs", &directory, &PyList_Type, &names, &numbers, &chunk_bytes))
        return NULL;
    names = PyList_AsTuple(names); /* which code that a name runs cannot change */
    if (names == NULL) return NULL;
    if (ints_get(numbers, &ints, "records, firsts and stops") == 0) {
        chunks = chunks_coming(directory, names, &ints, chunk_bytes);
        ints_drop(&ints);
    }
    Py_DECREF(names);
    return chunks;
}

#else

PyObject *chunk_read(PyObject *Py_UNUSED(rest), const Visits *Py_UNUSED(visits), Py_ssize_t Py_UNUSED(at)) {
    return NULL;
}

#endif

PyMethodDef runs_methods[] = {
#ifndef _WIN32
    {"run", py_run, METH_VARARGS, run_doc},
    {"directory", py_directory, METH_O, directory_doc},
    {"runs", py_runs, METH_VARARGS, runs_doc},
#endif
    {NULL, NULL, 0, NULL},
};
