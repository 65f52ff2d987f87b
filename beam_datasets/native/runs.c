/* Runs: records of a file in a row, of which a block reads a chunk when it gets there; all without the GIL.
 *
 * What cannot be read, or is not as it should be, is not told: whoever asked (beam_datasets/reading/runs.py,
 * small_runs.py) reads it again then. The layouts are those of beam_datasets/formats/index.py and tfrecord.py.
 */
#include "chunk.h"
#include "ahead.h"

#ifndef _WIN32
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define REST "beam_datasets.rest"
#define DIRECTORY "beam_datasets.directory"
#define SUFFIX ".index"
#define MOST_NAME 4096   /* bytes, with the suffix */
#define LEAST (64 << 10) /* bytes of an index that is small in any case */

/* What is left of a run: records of a shard up to one before `stop`. */
typedef struct {
    Job job;                /* which loads the next chunk */
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
    int ahead;              /* whether to load chunks ahead, the third at the earliest: many look at the first alone */
    int has_begun;
} Rest;

/* What was loaded ahead. */
typedef struct {
    Rest rest; /* as it is then; nothing in it is its own but the index, where it was opened for the first time */
    int opens;
    int64_t *memory;
    Py_ssize_t stop;
} Loaded;

static void loaded_drop(Loaded *loaded) {
    if (loaded == NULL) return;
    if (loaded->opens) free(loaded->rest.index);
    free(loaded->memory);
    free(loaded);
}

static void rest_drop(Rest *rest) {
    if (rest->job.batch != NULL) {
        int waited;
        Py_BEGIN_ALLOW_THREADS /* it may be read just now, from a slow disk */
        loaded_drop(ahead_take(&rest->job, &waited));
        Py_END_ALLOW_THREADS
    }
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

/* Reads n records of a file into memory for chunk_own(); u64 say where each begins and the last one ends. */
static int64_t *records_get(int descriptor, const uint8_t *offsets, uint64_t n) {
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

/* Reads the chunk that begins with a record, and sets where it ends; NULL where that fails. Needs no GIL: nobody else
 * has the run. A shard with a name is closed again, so that no number of runs takes descriptors. */
static int64_t *chunk_load(Rest *rest, Py_ssize_t first, Py_ssize_t *stop) {
    const char *name = rest->name;
    int descriptor = name == NULL ? rest->descriptor : rest->index ? open_again(rest, name) : open_first(rest, name);
    if (descriptor < 0) return NULL;
    *stop = end_of(rest, first);
    int64_t *memory = records_get(descriptor, at_offset(rest, first), (uint64_t)(*stop - first));
    if (name != NULL) close(descriptor);
    return memory;
}

/* Does a job: loads the next chunk of a run. */
static void *load_ahead(const Job *job, size_t *size) {
    Loaded *loaded = malloc(sizeof *loaded);
    if (loaded == NULL) return NULL;
    Rest *rest = &loaded->rest;
    *rest = *(const Rest *)job; /* a Rest begins with its job */
    loaded->opens = rest->index == NULL;
    loaded->memory = chunk_load(rest, rest->first, &loaded->stop);
    *size = sizeof *loaded + (loaded->opens && rest->index ? (size_t)index_size(rest->records) : 0);
    if (loaded->memory == NULL) return loaded;
    Py_ssize_t n = loaded->stop - rest->first;
    *size += (size_t)(loaded->memory[n] + 8 * (n + 1));
    return loaded;
}

/* Returns what chunk_load() would, of a chunk that was loaded ahead; NULL where it was not, or has not the record. */
static int64_t *chunk_loaded(Rest *rest, Py_ssize_t *first, Py_ssize_t *stop) {
    int waited;
    Loaded *loaded = ahead_take(&rest->job, &waited);
    int64_t *memory = NULL;
    if (waited) rest->ahead = 0;
    if (loaded != NULL && loaded->memory != NULL && *first < loaded->stop && *first >= rest->first) {
        rest->index = loaded->rest.index;
        rest->offsets = loaded->rest.offsets;
        rest->device = loaded->rest.device;
        rest->inode = loaded->rest.inode;
        memory = loaded->memory;
        *first = rest->first;
        *stop = loaded->stop;
        loaded->opens = 0;
        loaded->memory = NULL;
    }
    loaded_drop(loaded);
    return memory;
}

/* Has the chunk that begins with a record loaded ahead. */
static void next_ahead(Rest *rest, Py_ssize_t first) {
    Job *job = &rest->job;
    int has_begun = rest->has_begun;
    rest->first = first;
    rest->has_begun = 1;
    if (rest->ahead && has_begun && first < rest->stop) ahead_begin(&job, 1, 1, load_ahead);
}

PyObject *chunk_read(PyObject *capsule, Py_ssize_t first) {
    Rest *rest = PyCapsule_GetPointer(capsule, REST);
    if (rest == NULL || first < 0 || first >= rest->stop) return NULL;
    int64_t *memory;
    Py_ssize_t stop;
    int again = first != rest->first; /* as in another epoch, or behind what was passed over */
    Py_BEGIN_ALLOW_THREADS
    memory = chunk_loaded(rest, &first, &stop); /* until then the thread may look at what is left */
    if (again) rest->has_begun = 0;
    if (memory == NULL) memory = chunk_load(rest, first, &stop);
    if (memory != NULL) next_ahead(rest, stop);
    Py_END_ALLOW_THREADS
    if (memory == NULL) return NULL;
    return chunk_own(memory, stop - first, first, stop < rest->stop ? Py_NewRef(capsule) : NULL);
}

/* ------------------------------------------------------------------------------------------------------- functions */

PyDoc_STRVAR(run_doc, "run(owner, descriptor, offsets, first, stop, chunk_bytes, ahead=0, /)\n--\n\n"
                      "Returns a chunk, see chunk(), without records, which is followed by records [first, stop) of a\n"
                      "file: RecordBlock.take() reads about so many bytes of them at a time, when it gets there. The\n"
                      "owner keeps the file open; offsets, uint64, say where each record of the file begins and the\n"
                      "last one ends. Where they cannot be read, take() ends there and drops the chunk. With `ahead`,\n"
                      "a thread reads the third chunk and the others before they are needed.");

static PyObject *py_run(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *offsets;
    Rest *rest = PyMem_Calloc(1, sizeof *rest);
    if (rest == NULL) return PyErr_NoMemory();
    int good = PyArg_ParseTuple(arguments, "OiOnnn|i:run", &rest->owner, &rest->descriptor, &offsets, &rest->first,
                                &rest->stop, &rest->chunk_bytes, &rest->ahead);
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

/* Has runs read ahead that were made just now, some bytes at most. */
static void read_ahead(PyObject *chunks, Py_ssize_t most) {
    Py_ssize_t n = PyList_Size(chunks);
    Job **jobs = most > 0 ? malloc((size_t)(n + 1) * sizeof *jobs) : NULL;
    if (jobs == NULL) return;
    for (Py_ssize_t i = 0; i < n; i++) {
        Rest *rest = PyCapsule_GetPointer(chunk_get(PyList_GetItem(chunks, i))->rest, REST);
        rest->ahead = 1;
        jobs[i] = &rest->job;
    }
    Py_BEGIN_ALLOW_THREADS
    ahead_begin(jobs, (size_t)n, (size_t)most, load_ahead);
    Py_END_ALLOW_THREADS
    free(jobs);
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
             "runs(directory, names, numbers, chunk_bytes, ahead=0, /)\n--\n\n"
             "Returns for each shard of a directory(), by name, a chunk as run() does. take() opens the shard when it\n"
             "gets there, and checks it against its index. Numbers are how many records each shard has, then the\n"
             "first record of each run, then the record behind its last. Where a shard cannot be read, is not as its\n"
             "index says, or has one larger than a chunk, take() ends there and drops the chunk. Between chunks it is\n"
             "closed. With `ahead`, a thread reads the first chunks before they are needed, in the order of names,\n"
             "until those that are not taken have so many bytes, and other chunks as run() says.");

static PyObject *py_runs(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *directory, *names, *numbers, *chunks = NULL;
    Py_ssize_t chunk_bytes, ahead = 0;
    Ints ints;
    if (!PyArg_ParseTuple(arguments, "OO!On|n:runs", &directory, &PyList_Type, &names, &numbers, &chunk_bytes, &ahead))
        return NULL;
    names = PyList_AsTuple(names); /* which code that a name runs cannot change */
    if (names == NULL) return NULL;
    if (ints_get(numbers, &ints, "records, firsts and stops") == 0) {
        chunks = chunks_coming(directory, names, &ints, chunk_bytes);
        ints_drop(&ints);
    }
    if (chunks != NULL) read_ahead(chunks, ahead);
    Py_DECREF(names);
    return chunks;
}

#else

PyObject *chunk_read(PyObject *Py_UNUSED(capsule), Py_ssize_t Py_UNUSED(first)) { return NULL; }

#endif

PyMethodDef runs_methods[] = {
#ifndef _WIN32
    {"run", py_run, METH_VARARGS, run_doc},
    {"directory", py_directory, METH_O, directory_doc},
    {"runs", py_runs, METH_VARARGS, runs_doc},
#endif
    {NULL, NULL, 0, NULL},
};
