/* Runs of many small shards read in one call: each index looked at, each run read, all without the GIL.
 *
 * What is not as it should be, or is not small, is left out and nothing is said of why: whoever asked
 * (beam_datasets/reading/small_runs.py) has it read by itself then. The layouts are those of
 * beam_datasets/formats/index.py and tfrecord.py.
 */
#include "chunk.h"

#ifndef _WIN32
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define SUFFIX ".index"
#define MOST_NAME 4096          /* bytes, with the suffix */
#define MOST_INDEX (64 << 10)   /* bytes of an index without its keys */
#define MOST_BYTES (256 << 10)  /* of a run */
#define MOST_TOGETHER (1 << 20) /* bytes after which no other run is read */

/* Records [first, stop) of a shard that is to have so many. */
typedef struct {
    PyObject *owner;  /* of the name */
    const char *name; /* of the shard, in the directory */
    int64_t records, first, stop;
    int64_t *memory; /* where they were put, see chunk_own(); NULL where they were not read */
} Run;

/* Reads the header and the offsets of a shard's index; whether they are good. */
static int read_offsets(int directory, const Run *run, uint8_t *index, uint64_t *shard_size) {
    char name[MOST_NAME];
    Py_ssize_t size, wanted = index_size(run->records);
    size_t length = strlen(run->name);
    if (length > sizeof name - sizeof SUFFIX || wanted > MOST_INDEX) return 0;
    memcpy(name, run->name, length);
    memcpy(name + length, SUFFIX, sizeof SUFFIX);
    int descriptor = file_open(directory, name, &size);
    if (descriptor < 0) return 0;
    ssize_t got = read(descriptor, index, (size_t)wanted);
    close(descriptor);
    return got == wanted && index_is_good(index, (uint64_t)size, (uint64_t)run->records, shard_size);
}

/* Takes the records from where the offsets say they are; what is wrong with their data is told when they are used. */
static void take_records(int descriptor, Run *run, const uint8_t *offsets) {
    uint64_t n = (uint64_t)(run->stop - run->first);
    offsets += 8 * run->first;
    if (u64_at(offsets + 8 * n) - u64_at(offsets) <= MOST_BYTES) run->memory = records_get(descriptor, offsets, n);
}

static void read_run(int directory, Run *run) {
    uint8_t index[MOST_INDEX];
    uint64_t shard_size;
    Py_ssize_t size;
    if (run->first < 0 || run->first >= run->stop || run->stop > run->records) return;
    if (!read_offsets(directory, run, index, &shard_size)) return;
    int descriptor = file_open(directory, run->name, &size);
    if (descriptor < 0) return;
    if ((uint64_t)size == shard_size) take_records(descriptor, run, index + INDEX_HEADER);
    close(descriptor);
}

static void read_all(const char *path, Run *runs, Py_ssize_t n) {
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return;
    int64_t together = 0;
    for (Py_ssize_t i = 0; i < n && together < MOST_TOGETHER; i++) {
        read_run(directory, runs + i);
        if (runs[i].memory != NULL) together += runs[i].memory[runs[i].stop - runs[i].first];
    }
    close(directory);
}

static void runs_drop(Run *runs, Py_ssize_t n) {
    for (Py_ssize_t i = 0; runs != NULL && i < n; i++) {
        Py_XDECREF(runs[i].owner);
        free(runs[i].memory);
    }
    PyMem_Free(runs);
}

/* Returns the runs that are asked for, not read yet; NULL with an exception. */
static Run *runs_get(PyObject *names, PyObject *numbers, Py_ssize_t n) {
    Ints ints;
    if (ints_get(numbers, &ints, "records, firsts and stops") < 0) return NULL;
    Run *runs = PyMem_Calloc((size_t)n + 1, sizeof *runs);
    if (runs == NULL) PyErr_NoMemory();
    else if (ints.n != 3 * n) PyErr_Format(PyExc_ValueError, "%zd numbers for %zd names, not 3 for each", ints.n, n);
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
        runs[i].records = ints.values[i];
        runs[i].first = ints.values[n + i];
        runs[i].stop = ints.values[2 * n + i];
        if (PyUnicode_FSConverter(PyList_GetItem(names, i), &runs[i].owner))
            runs[i].name = PyBytes_AsString(runs[i].owner);
    }
    ints_drop(&ints);
    if (!PyErr_Occurred()) return runs;
    runs_drop(runs, n);
    return NULL;
}

/* Returns a list of chunks, None for each run that was not read. */
static PyObject *chunks_of(Run *runs, Py_ssize_t n) {
    PyObject *chunks = PyList_New(n);
    for (Py_ssize_t i = 0; chunks != NULL && i < n; i++) {
        Run *run = runs + i;
        int64_t *memory = run->memory;
        run->memory = NULL; /* it is the chunk's, also where none can be made */
        PyObject *chunk = memory == NULL ? Py_NewRef(Py_None)
                                         : chunk_own(memory, run->stop - run->first, run->first);
        if (chunk == NULL || PyList_SetItem(chunks, i, chunk) < 0) Py_CLEAR(chunks);
    }
    return chunks;
}

PyDoc_STRVAR(read_runs_doc, "read_runs(directory, names, numbers, /)\n--\n\n"
                            "Reads runs of small shards of a directory, and checks them against the shards' indexes.\n"
                            "Numbers are how many records each shard has, then the first record of each run, then the\n"
                            "record behind its last. Returns for each run a chunk of it, see chunk(); None where it\n"
                            "is not small, or anything is wrong but the records' data.");

static PyObject *read_runs(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *path, *names, *numbers, *chunks = NULL;
    if (!PyArg_ParseTuple(arguments, "O&O!O:read_runs", PyUnicode_FSConverter, &path, &PyList_Type, &names, &numbers))
        return NULL;
    Py_ssize_t n = PyList_Size(names);
    Run *runs = runs_get(names, numbers, n);
    if (runs != NULL) {
        const char *directory = PyBytes_AsString(path);
        Py_BEGIN_ALLOW_THREADS
        read_all(directory, runs, n);
        Py_END_ALLOW_THREADS
        chunks = chunks_of(runs, n);
        runs_drop(runs, n);
    }
    Py_DECREF(path);
    return chunks;
}

#endif

PyMethodDef runs_methods[] = {
#ifndef _WIN32
    {"read_runs", read_runs, METH_VARARGS, read_runs_doc},
#endif
    {NULL, NULL, 0, NULL},
};
