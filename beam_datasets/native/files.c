/* Local files opened with one call instead of several: storage/local.py does the same, and says what is wrong. */
#include "native.h"

#ifndef _WIN32
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens a file to read; returns its descriptor, or -1 if it cannot be opened or is not a regular file. */
static int file_open(const char *path, struct stat *found) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* else a FIFO waits for a writer */
    if (descriptor < 0) return -1;
    if (fstat(descriptor, found) == 0 && S_ISREG(found->st_mode) && found->st_size <= PY_SSIZE_T_MAX) return descriptor;
    close(descriptor);
    return -1;
}

PyDoc_STRVAR(open_reader_doc, "open_reader(path, /)\n--\n\n"
                              "Opens a file; returns its descriptor and its size in bytes. None where that fails.");

static PyObject *open_reader(PyObject *Py_UNUSED(module), PyObject *path) {
    PyObject *name;
    if (!PyUnicode_FSConverter(path, &name)) return NULL;
    struct stat found;
    int descriptor;
    const char *text = PyBytes_AsString(name);
    Py_BEGIN_ALLOW_THREADS
    descriptor = file_open(text, &found);
    Py_END_ALLOW_THREADS
    Py_DECREF(name);
    if (descriptor < 0) Py_RETURN_NONE;
    PyObject *result = Py_BuildValue("in", descriptor, (Py_ssize_t)found.st_size);
    if (result == NULL) close(descriptor);
    return result;
}

/* Reads a file of at most `capacity` bytes; returns how many it has, or -1. */
static Py_ssize_t read_file(const char *path, char *data, Py_ssize_t capacity) {
    struct stat found;
    Py_ssize_t got = -1;
    int descriptor = file_open(path, &found);
    if (descriptor < 0) return -1;
    if (found.st_size <= capacity) got = read(descriptor, data, (size_t)found.st_size);
    close(descriptor);
    return got == found.st_size ? got : -1;
}

PyDoc_STRVAR(read_small_doc, "read_small(path, /)\n--\n\n"
                             "Returns the whole of a file; None where it has more than 64 KiB, or cannot be read.");

static PyObject *read_small(PyObject *Py_UNUSED(module), PyObject *path) {
    PyObject *name;
    if (!PyUnicode_FSConverter(path, &name)) return NULL;
    char data[64 << 10];
    Py_ssize_t size;
    const char *text = PyBytes_AsString(name);
    Py_BEGIN_ALLOW_THREADS
    size = read_file(text, data, sizeof data);
    Py_END_ALLOW_THREADS
    Py_DECREF(name);
    if (size < 0) Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(data, size);
}

#endif

PyMethodDef files_methods[] = {
#ifndef _WIN32
    {"open_reader", open_reader, METH_O, open_reader_doc},
    {"read_small", read_small, METH_O, read_small_doc},
#endif
    {NULL, NULL, 0, NULL},
};
