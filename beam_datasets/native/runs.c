/* Prefetch: tasks for other threads, so that a second core reads while the first one decodes.
 *
 * A reader never waits for a task that no thread has begun: it takes the task out of the queue and does it. A task that
 * a reader waits for may stop early and leave the rest to the reader. If a thread gets no processor time within a task,
 * no tasks are queued for a while. The lock is held for a few instructions at a time. The threads are stopped before a
 * fork and started again by the next task, in both processes: no task is lost half done, and Python counts one thread.
 * They end with the process.
 */
#include "native.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_THREADS 16
#define SHORT_WAIT 50000  /* nanoseconds; to sleep and be woken takes longer than most waits */
#define LONG_WAIT 1000000 /* nanoseconds */
#define PAUSE 100         /* long waits; so these cost 1% at most */

enum { TAKEN, QUEUED, RUNNING, WANTED, DONE }; /* a task's states */

static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and the states of tasks */
static pthread_cond_t came = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static Task queue = {NULL, &queue, &queue, TAKEN}; /* a ring; the next one is the oldest */
static pthread_t threads[MAX_THREADS];
static int max_threads, num_threads, is_stopping;
static int64_t paused_until; /* nanoseconds of the clock */

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void unlink_task(Task *task) {
    task->before->after = task->after;
    task->after->before = task->before;
}

/* Keeps this thread from preempting others when it wakes: a switch costs more than reading ahead gains. With a lower
   priority, a reader would wait for a chunk that this thread has begun while other work has the cores. */
static void yield_when_woken(void) {
#ifdef __linux__
    sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
#endif
}

static void *serve(void *nothing) {
    yield_when_woken();
    pthread_mutex_lock(&lock);
    while (!is_stopping) {
        Task *task = queue.after;
        if (task == &queue) {
            pthread_cond_wait(&came, &lock);
            continue;
        }
        unlink_task(task);
        task->state = RUNNING;
        pthread_mutex_unlock(&lock);
        task->work(task);
        pthread_mutex_lock(&lock);
        __atomic_store_n(&task->state, DONE, __ATOMIC_RELAXED); /* wait_for() may look at it */
        pthread_cond_broadcast(&ended);
    }
    pthread_mutex_unlock(&lock);
    return nothing;
}

static void before_fork(void) {
    pthread_mutex_lock(&forking);
    pthread_mutex_lock(&lock);
    is_stopping = 1;
    pthread_cond_broadcast(&came);
    pthread_mutex_unlock(&lock);
    while (num_threads) pthread_join(threads[--num_threads], NULL);
    pthread_mutex_lock(&lock);
}

static void after_fork(void) {
    is_stopping = 0;
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&forking);
}

static void begin_forked(void) {
    pthread_cond_init(&came, NULL); /* the threads that waited are not in this process */
    pthread_cond_init(&ended, NULL);
    after_fork();
}

/* Starts a thread, with all signals left to the others. */
static void start_thread(void) {
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before)) return;
    num_threads += !pthread_create(threads + num_threads, NULL, serve, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int ahead_is_on(void) {
    if (__atomic_load_n(&max_threads, __ATOMIC_RELAXED) == 0) return 0;
    int64_t until = __atomic_load_n(&paused_until, __ATOMIC_RELAXED);
    return until == 0 || now() >= until;
}

int ahead_is_wanted(const Task *task) { return __atomic_load_n(&task->state, __ATOMIC_RELAXED) == WANTED; }

/* Waits for a task that has begun. If that takes long, other work has the cores: tasks are not queued for a while. */
static void wait_for(Task *task) {
    int64_t start = now(), end = start;
    __atomic_store_n(&task->state, WANTED, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    while (ahead_is_wanted(task) && end - start < SHORT_WAIT) end = now();
    pthread_mutex_lock(&lock);
    while (task->state == WANTED) pthread_cond_wait(&ended, &lock);
    end = now();
    if (end - start > LONG_WAIT) __atomic_store_n(&paused_until, end + PAUSE * (end - start), __ATOMIC_RELAXED);
}

void ahead_submit(Task *task) {
    pthread_mutex_lock(&lock);
    if (num_threads < max_threads && !is_stopping) start_thread();
    task->state = num_threads ? QUEUED : TAKEN;
    if (num_threads) {
        task->after = &queue;
        task->before = queue.before;
        task->before->after = queue.before = task;
        pthread_cond_signal(&came);
    }
    pthread_mutex_unlock(&lock);
}

int ahead_take(Task *task) {
    pthread_mutex_lock(&lock);
    if (task->state == RUNNING) wait_for(task);
    int is_done = task->state == DONE;
    if (task->state == QUEUED) unlink_task(task);
    task->state = TAKEN;
    pthread_mutex_unlock(&lock);
    return is_done;
}

PyDoc_STRVAR(set_threads_doc, "set_threads(n, /)\n--\n\n"
                              "Sets how many threads may read ahead in this process, 0 at first; returns the old\n"
                              "number. Threads that run already continue.");

static PyObject *set_threads(PyObject *Py_UNUSED(module), PyObject *number) {
    long n = PyLong_AsLong(number);
    if (n == -1 && PyErr_Occurred()) return NULL;
    static int is_registered; /* before the first lock; forks of Python hold the GIL too */
    if (!is_registered) is_registered = !pthread_atfork(before_fork, after_fork, begin_forked);
    int wanted = n < 0 || !is_registered ? 0 : n > MAX_THREADS ? MAX_THREADS : (int)n;
    return PyLong_FromLong(__atomic_exchange_n(&max_threads, wanted, __ATOMIC_RELAXED));
}

/* Runs: consecutive records of an open file, which a block reads a chunk at a time, without the GIL.
 *
 * A chunk that cannot be read is NULL without an exception: the caller (reading/records/run_reader.py) reads it again
 * and reports the error. The layouts are those of beam_datasets/formats/index.py and tfrecord.py.
 */
#define RUN_CURSOR "beam_datasets.run_cursor"
#define MAX_RANGES 256     /* that are read into one chunk */
#define MAX_SPAN (1 << 14) /* records from the first to the last of a chunk: each takes 8 bytes, also if left out */
#define MAX_PATH 4096

/* The rest of a run that has not been read yet: records of a shard before `stop`. */
typedef struct {
    PyObject *owner;        /* keeps the descriptor open */
    int descriptor;         /* of the shard, if it is one file */
    PyObject *pieces;       /* bytes: the path of the files with its pieces, up to "-<number>"; or NULL */
    const char *prefix;     /* the same */
    Py_ssize_t piece_bytes; /* size of each file but the last */
    int piece;              /* descriptor of the piece that was read last, -1 at first */
    uint64_t number;        /* of that piece */
    Py_buffer view;         /* of the offsets */
    Py_ssize_t first, stop, chunk_bytes;
    struct Load *ahead; /* the next chunk, if a thread may be reading it */
} RunCursor;

/* Records [first, stop) of a shard that are read in one piece. */
typedef struct {
    int64_t first, stop;
    uint64_t start, size; /* in the file */
} Range;

/* A chunk as it is read. */
typedef struct Load {
    Task task;
    RunCursor *cursor; /* one of its loads reads at a time */
    int64_t *memory;  /* for chunk_own() */
    Py_ssize_t num_checked; /* of its records, see Chunk; -1 if the chunk cannot be read */
    int more;         /* whether others of the run follow */
    Py_ssize_t n;
    Range ranges[];
} Load;

static void load_drop(Load *load) {
    if (load != NULL) free(load->memory);
    free(load);
}

static void cursor_drop(RunCursor *cursor) {
    if (cursor->ahead != NULL) {
        Py_BEGIN_ALLOW_THREADS /* it may be read just now, from a slow disk */
        ahead_take(&cursor->ahead->task);
        Py_END_ALLOW_THREADS
        load_drop(cursor->ahead);
    }
    Py_XDECREF(cursor->owner);
    Py_XDECREF(cursor->pieces);
    if (cursor->piece >= 0) close(cursor->piece);
    PyBuffer_Release(&cursor->view);
    PyMem_Free(cursor);
}

static void cursor_free(PyObject *capsule) { cursor_drop(PyCapsule_GetPointer(capsule, RUN_CURSOR)); }

/* The offset of a record, or the end of the last one. */
static uint64_t offset_of(const RunCursor *cursor, Py_ssize_t record) {
    return u64_at((const uint8_t *)cursor->view.buf + 8 * (size_t)record);
}

static uint64_t size_of(const RunCursor *cursor, Py_ssize_t first, Py_ssize_t stop) {
    return offset_of(cursor, stop) - offset_of(cursor, first);
}

/* Sets the ranges of a run that the visits from `at` on read, ascending and without records before `begin`, up to a
 * chunk or a little more; sets `more` if others follow. Returns the number of ranges. */
static Py_ssize_t ranges_wanted(const RunCursor *cursor, const Visits *visits, Py_ssize_t at, int64_t begin,
                                Range *ranges, int *more) {
    const int64_t *runs = visits->runs.buf, *firsts = visits->firsts.buf, *counts = visits->counts.buf;
    Py_ssize_t n = 0, end = visits->runs.len / 8;
    uint64_t bytes = 0;
    int64_t run = runs[at];
    *more = 0;
    for (; at < end; at++) {
        int64_t first = firsts[at], count = counts[at];
        if (runs[at] != run || count <= 0) continue;
        if (first < begin) {
            if (first < 0 || count <= begin - first) continue;
            count -= begin - first;
            first = begin;
        }
        Range *last = ranges + n - 1;
        int is_next = n && first == last->stop;
        *more = 1;
        if (first < 0 || first >= cursor->stop || (n && first < last->stop) || (n == MAX_RANGES && !is_next)) return n;
        if (bytes > 2 * (uint64_t)cursor->chunk_bytes) return n;
        int64_t stop = count > cursor->stop - first ? cursor->stop : first + count;
        if (n && stop - ranges[0].first > MAX_SPAN && !is_next) return n;
        if (is_next)
            last->stop = stop;
        else
            ranges[n++] = (Range){.first = first, .stop = stop};
        *more = 0;
        if (stop == cursor->stop) return n;
        bytes += size_of(cursor, (Py_ssize_t)first, (Py_ssize_t)stop);
    }
    return n;
}

/* Returns the end of the records of [first, stop) that fit into `most` bytes; up to a quarter more if they are all. */
static Py_ssize_t end_of(const RunCursor *cursor, Py_ssize_t first, Py_ssize_t stop, uint64_t most) {
    if (size_of(cursor, first, stop) <= most + most / 4) return stop;
    Py_ssize_t end = first, step = 1; /* the last one does not fit */
    for (; step < stop - end && size_of(cursor, first, end + step) <= most; step *= 2) end += step;
    for (; step > 0; step /= 2)
        if (step < stop - end && size_of(cursor, first, end + step) <= most) end += step;
    return end;
}

/* Shortens the ranges to a chunk, and sets their offsets in the file. Returns their number, at least one. */
static Py_ssize_t ranges_fit(const RunCursor *cursor, Range *ranges, Py_ssize_t n, uint64_t *bytes) {
    uint64_t most = (uint64_t)cursor->chunk_bytes;
    *bytes = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        Range *range = ranges + i;
        Py_ssize_t first = (Py_ssize_t)range->first, stop = (Py_ssize_t)range->stop;
        Py_ssize_t end = *bytes < most ? end_of(cursor, first, stop, most - *bytes) : first;
        if (end == first && i) return i;
        if (end == first) end++;
        range->stop = end;
        range->start = offset_of(cursor, first);
        range->size = size_of(cursor, first, end);
        if (range->start > INT64_MAX || range->size > MAX_RECORD) return i;
        *bytes += range->size;
        if (end < stop) return i + 1;
    }
    return n;
}

/* Plans the next chunk: the records that the visits from `at` on take from `begin` on. NULL if that is not possible. */
static Load *load_plan(RunCursor *cursor, const Visits *visits, Py_ssize_t at, int64_t begin) {
    Range ranges[MAX_RANGES];
    uint64_t bytes;
    int more;
    Py_ssize_t n = ranges_wanted(cursor, visits, at, begin, ranges, &more);
    if (n == 0) return NULL;
    int64_t last = ranges[n - 1].stop;
    n = ranges_fit(cursor, ranges, n, &bytes);
    if (n == 0) return NULL;
    int64_t records = ranges[n - 1].stop - ranges[0].first;
    if (bytes > PY_SSIZE_T_MAX / 2 || records > PY_SSIZE_T_MAX / 32) return NULL;
    Load *load = malloc(sizeof *load + (size_t)n * sizeof *ranges);
    if (load == NULL) return NULL;
    *load = (Load){.cursor = cursor, .more = more || ranges[n - 1].stop < last, .n = n};
    memcpy(load->ranges, ranges, (size_t)n * sizeof *ranges);
    load->memory = malloc((size_t)(8 * (uint64_t)(records + 1) + bytes));
    if (load->memory != NULL) return load;
    free(load);
    return NULL;
}

/* The number of the record behind the last one of a chunk. */
static int64_t load_stop(const Load *load) { return load->ranges[load->n - 1].stop; }

/* Returns the open file of a piece of `size` bytes, after updating its time of use when it opens it; -1 if it is
 * another piece or incomplete. */
static int piece_open(RunCursor *cursor, uint64_t number, uint64_t size) {
    if (cursor->piece >= 0 && cursor->number == number) return cursor->piece;
    if (cursor->piece >= 0) close(cursor->piece);
    cursor->piece = -1;
    char path[MAX_PATH];
    uint8_t end[8]; /* CRCs of the name, and of name and content */
    int length = snprintf(path, sizeof path, "%s-%llu", cursor->prefix, (unsigned long long)number);
    if (length < 0 || length >= (int)sizeof path) return -1;
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    uint32_t crc = crc32c_extend(0, (const uint8_t *)name, strlen(name));
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    if (pread(file, end, sizeof end, (off_t)size) == (ssize_t)sizeof end && u32_at(end) == crc) {
        futimens(file, NULL); /* a disk that cannot be written may be read */
        cursor->number = number;
        return cursor->piece = file;
    }
    close(file);
    return -1;
}

/* Reads bytes of the shard from its pieces; 0 if any is missing. */
static int pieces_read(RunCursor *cursor, uint8_t *data, uint64_t start, uint64_t size) {
    uint64_t most = (uint64_t)cursor->piece_bytes, shard_size = offset_of(cursor, cursor->view.len / 8 - 1);
    if (start > shard_size || size > shard_size - start) return 0;
    while (size) {
        uint64_t number = start / most, at = start % most, piece = shard_size - (start - at);
        if (piece > most) piece = most;
        size_t n = (size_t)(size < piece - at ? size : piece - at);
        int file = piece_open(cursor, number, piece);
        if (file < 0) return 0;
        if (pread(file, data, n, (off_t)at) != (ssize_t)n) return 0;
        data += n;
        start += n;
        size -= n;
    }
    return 1;
}

static int range_read(RunCursor *cursor, uint8_t *data, const Range *range) {
    if (cursor->pieces != NULL) return pieces_read(cursor, data, range->start, range->size);
    return pread(cursor->descriptor, data, (size_t)range->size, (off_t)range->start) == (ssize_t)range->size;
}

/* Reads a chunk without checking it. */
static void load_read(Load *load) {
    RunCursor *cursor = load->cursor;
    int64_t *memory = load->memory, first = load->ranges[0].first, records = load_stop(load) - first;
    uint8_t *data = (uint8_t *)(memory + records + 1);
    int64_t at = 0, record = first;
    load->num_checked = -1;
    for (const Range *range = load->ranges; range < load->ranges + load->n; range++) {
        for (; record < range->first; record++) memory[record - first] = at;
        for (; record < range->stop; record++)
            memory[record - first] = at + (int64_t)(offset_of(cursor, (Py_ssize_t)record) - range->start);
        if (!range_read(cursor, data + at, range)) return;
        at += (int64_t)range->size; /* not by the offsets again: a mapped index may have changed */
    }
    memory[records] = at;
    load->num_checked = 0;
}

/* The work of a Task: reads a chunk, and checks records until a reader waits for it. */
static void load_ahead(Task *task) {
    Load *load = (Load *)task;
    load_read(load);
    if (load->num_checked < 0) return;
    int64_t records = load_stop(load) - load->ranges[0].first;
    Chunk chunk = {.offsets = {load->memory, (Py_ssize_t)records + 1}};
    chunk.buffer.buf = load->memory + records + 1;
    chunk.buffer.len = (Py_ssize_t)load->memory[records];
    while (!ahead_is_wanted(task) && chunk_check(&chunk)) continue;
    load->num_checked = chunk.num_checked;
}

/* Returns the next chunk, which begins with record `first`: the one that was read ahead, or one that is read now.
 * NULL if that fails. */
static Load *load_next(RunCursor *cursor, const Visits *visits, Py_ssize_t at, int64_t first) {
    Load *load = cursor->ahead;
    cursor->ahead = NULL;
    int is_read = load != NULL && ahead_take(&load->task);
    if (load != NULL && load->ranges[0].first != first) { /* what was to come next has changed */
        load_drop(load);
        load = NULL;
    }
    if (load == NULL) {
        load = load_plan(cursor, visits, at, 0);
        is_read = 0;
    }
    if (load != NULL && !is_read) load_read(load);
    if (load == NULL || load->num_checked >= 0) return load;
    load_drop(load);
    return NULL;
}

PyObject *chunk_read(PyObject *capsule, const Visits *visits, Py_ssize_t at) {
    RunCursor *cursor = PyCapsule_GetPointer(capsule, RUN_CURSOR);
    if (cursor == NULL) return NULL;
    Load *load;
    Py_BEGIN_ALLOW_THREADS
    load = load_next(cursor, visits, at, ((const int64_t *)visits->firsts.buf)[at]);
    if (load != NULL && load->more && ahead_is_on()) {
        cursor->ahead = load_plan(cursor, visits, at, load_stop(load));
        if (cursor->ahead != NULL) {
            cursor->ahead->task.work = load_ahead;
            ahead_submit(&cursor->ahead->task);
        }
    }
    Py_END_ALLOW_THREADS
    if (load == NULL) return NULL;
    Py_ssize_t first = (Py_ssize_t)load->ranges[0].first, stop = (Py_ssize_t)load_stop(load);
    PyObject *chunk = chunk_own(load->memory, stop - first, first, load->more ? Py_NewRef(capsule) : NULL);
    if (chunk != NULL) chunk_get(chunk)->num_checked = load->num_checked;
    free(load);
    return chunk;
}

PyDoc_STRVAR(run_doc, "run(owner, descriptor, offsets, first, stop, chunk_bytes, pieces=b'', piece_bytes=0, /)\n--\n\n"
                      "Returns an empty chunk, see chunk(), that is followed by records [first, stop) of a file:\n"
                      "RecordBlock.take() reads about `chunk_bytes` of them at a time as its visits need them, and\n"
                      "drops the chunk after the last of them. `owner` keeps the file open. `offsets`, uint64, are\n"
                      "the start of each record of the file and the end of the last one. take() ends at a chunk that\n"
                      "cannot be read, and drops it.\n\n"
                      "If `piece_bytes` is not 0, the bytes are read from the files of this size that\n"
                      "storage/caching.py wrote, whose paths are `pieces`, '-' and a number.");

static PyObject *py_run(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *offsets;
    RunCursor *cursor = PyMem_Calloc(1, sizeof *cursor);
    if (cursor == NULL) return PyErr_NoMemory();
    cursor->piece = -1;
    PyObject *pieces = NULL;
    int good = PyArg_ParseTuple(arguments, "OiOnnn|Sn:run", &cursor->owner, &cursor->descriptor, &offsets,
                                &cursor->first, &cursor->stop, &cursor->chunk_bytes, &pieces, &cursor->piece_bytes);
    Py_XINCREF(cursor->owner);
    if (good && cursor->piece_bytes > 0 && pieces != NULL) {
        cursor->pieces = Py_NewRef(pieces);
        cursor->prefix = PyBytes_AsString(pieces);
    }
    good = good && bytes_get(offsets, &cursor->view) == 0;
    if (good) {
        Py_ssize_t n = cursor->view.len / 8 - 1;
        good = cursor->first >= 0 && cursor->first < cursor->stop && cursor->stop <= n && cursor->chunk_bytes > 0;
        if (!good)
            PyErr_Format(PyExc_ValueError, "[%zd, %zd) of %zd records in chunks of %zd bytes", cursor->first,
                         cursor->stop, n, cursor->chunk_bytes);
    }
    PyObject *capsule = good ? PyCapsule_New(cursor, RUN_CURSOR, cursor_free) : NULL;
    if (capsule == NULL) {
        cursor_drop(cursor);
        return NULL;
    }
    keep_memory();
    int64_t *none = calloc(1, sizeof *none);
    if (none != NULL) return chunk_own(none, 0, cursor->first, capsule);
    Py_DECREF(capsule);
    return PyErr_NoMemory();
}

PyMethodDef runs_methods[] = {
    {"set_threads", set_threads, METH_O, set_threads_doc},
    {"run", py_run, METH_VARARGS, run_doc},
    {NULL, NULL, 0, NULL},
};
