/* Work done ahead: one thread of the process does what others will need, so that another core does it meanwhile.
 *
 * It never needs the GIL, so that no Python thread has to wait for it, and it ends with the process.
 */
#ifndef _WIN32
#define _GNU_SOURCE /* SCHED_BATCH */
#include "ahead.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define STACK (256 << 10)
#define NICE 10        /* more than others */
#define SPIN_NS 100000 /* to sleep and be woken takes longer than most jobs */
#define LONG_NS 1000000

#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() ((void)0)
#endif

enum { COMING, DOING, DONE };

typedef struct Batch {
    struct Batch *next; /* in the queue */
    int queued;
    Work work;
    Job **jobs; /* NULL in place of those that were taken */
    size_t n, left; /* how many; how many are not taken */
    size_t at;      /* the next one to do */
    size_t ready;   /* bytes of results that are not taken */
    size_t most;
} Batch;

/* All that follows, and what is in batches and jobs, is changed under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static Batch *queue; /* those that have something to do */
static Job *doing;
static int has_thread, sleeps, num_waiting; /* for what it is doing */

/* ------------------------------------------------------------------------------------------------------- the queue */

static void queue_push(Batch *batch) {
    Batch **end = &queue;
    while (*end != NULL) end = &(*end)->next;
    *end = batch;
    batch->next = NULL;
    batch->queued = 1;
    if (sleeps) pthread_cond_signal(&came);
}

static void queue_remove(Batch *batch) {
    Batch **place = &queue;
    while (*place != NULL && *place != batch) place = &(*place)->next;
    if (*place != NULL) *place = batch->next; /* a forked process has forgotten it */
    batch->queued = 0;
}

static Job *queue_next(void) {
    while (queue != NULL) {
        Batch *batch = queue;
        while (batch->ready < batch->most && batch->at < batch->n) {
            Job *job = batch->jobs[batch->at++];
            if (job != NULL) return job;
        }
        queue_remove(batch);
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------ the thread */

static void finish(Job *job, void *result, size_t size) {
    job->result = result;
    job->size = size;
    job->batch->ready += size;
    doing = NULL;
    __atomic_store_n(&job->state, DONE, __ATOMIC_RELAXED);
    if (num_waiting) pthread_cond_broadcast(&ended);
}

/* Leaves the core to others, but gets some of it: with SCHED_IDLE who waits for a job may wait for a second. */
static void step_back(void) {
#ifdef __linux__ /* where this is for the thread alone */
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
    sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
#endif
}

static void *serve(void *nothing) {
    step_back();
    pthread_mutex_lock(&lock);
    for (;;) {
        while ((doing = queue_next()) == NULL) {
            sleeps = 1;
            pthread_cond_wait(&came, &lock);
            sleeps = 0;
        }
        Job *job = doing;
        Work work = job->batch->work;
        size_t size = 0;
        __atomic_store_n(&job->state, DOING, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&lock);
        void *result = work(job, &size);
        pthread_mutex_lock(&lock);
        finish(job, result, size);
    }
    return nothing;
}

/* Starts it, with all signals left to the others. */
static void start_thread(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes)) return;
    sigfillset(&all);
    if (!pthread_attr_setstacksize(&attributes, STACK) &&
        !pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) &&
        !pthread_sigmask(SIG_SETMASK, &all, &before)) {
        has_thread = !pthread_create(&thread, &attributes, serve, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
}

/* --------------------------------------------------------------------------------------------------------- forking */

static void before_fork(void) { pthread_mutex_lock(&lock); }

static void after_fork(void) { pthread_mutex_unlock(&lock); }

/* In the new process there is no such thread: what it was doing is not done, and the rest is left to who needs it. */
static void begin_forked(void) {
    if (doing != NULL) doing->state = COMING;
    doing = NULL;
    queue = NULL;
    has_thread = sleeps = num_waiting = 0;
    pthread_cond_init(&came, NULL); /* somebody may have waited, who is not here */
    pthread_cond_init(&ended, NULL);
    pthread_mutex_unlock(&lock);
}

static int forks_well(void) {
    static int registered;
    if (!registered) registered = !pthread_atfork(before_fork, after_fork, begin_forked);
    return registered;
}

/* ------------------------------------------------------------------------------------------------------- the others */

static Batch *batch_new(Job *const *jobs, size_t n, size_t most, Work work) {
    Batch *batch = calloc(1, sizeof *batch);
    Job **copies = malloc(n * sizeof *copies);
    if (batch == NULL || copies == NULL) {
        free(batch);
        free(copies);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        copies[i] = jobs[i];
        *jobs[i] = (Job){.batch = batch, .place = i, .state = COMING};
    }
    batch->work = work;
    batch->jobs = copies;
    batch->n = batch->left = n;
    batch->most = most;
    return batch;
}

static void batch_drop(Batch *batch) {
    if (batch->queued) queue_remove(batch);
    free(batch->jobs);
    free(batch);
}

void ahead_begin(Job *const *jobs, size_t n, size_t most, Work work) {
    if (n == 0 || most == 0) return;
    pthread_mutex_lock(&lock);
    if (!has_thread && forks_well()) start_thread();
    Batch *batch = has_thread ? batch_new(jobs, n, most, work) : NULL;
    if (batch != NULL) queue_push(batch);
    pthread_mutex_unlock(&lock);
}

static int is_being_done(const Job *job) { return __atomic_load_n(&job->state, __ATOMIC_RELAXED) == DOING; }

static int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void spin(const Job *job, int64_t start) {
    while (nanoseconds() - start < SPIN_NS)
        for (int i = 0; i < 16; i++, PAUSE())
            if (!is_being_done(job)) return;
}

void *ahead_take(Job *job, int *waited) {
    Batch *batch = job->batch;
    *waited = 0;
    if (batch == NULL) return NULL;
    int64_t start = is_being_done(job) ? nanoseconds() : 0;
    if (start) spin(job, start);
    pthread_mutex_lock(&lock);
    num_waiting++;
    while (job->state == DOING) pthread_cond_wait(&ended, &lock);
    num_waiting--;
    if (start && nanoseconds() - start > LONG_NS) { /* the core is needed by others, or the disk is slow */
        *waited = 1;
        batch->at = batch->n;
    }
    void *result = job->result;
    batch->ready -= job->size;
    batch->jobs[job->place] = NULL;
    *job = (Job){0};
    if (--batch->left == 0)
        batch_drop(batch);
    else if (!batch->queued && batch->at < batch->n && batch->ready <= batch->most / 2)
        queue_push(batch);
    pthread_mutex_unlock(&lock);
    return result;
}

#endif
