/* Tasks done ahead, so that a second core reads while the first one decodes.
 *
 * Nobody waits for a thread that has not begun a task: who needs the result takes the task out of the queue and does
 * it himself; work that is waited for may end early, and leave him the rest. A thread that gets no processor time
 * within a task is given no others for a while. The lock is held for a few instructions at a time. The threads are
 * stopped before a fork and started again by the next task, in both processes: no thread is lost with a task half
 * done, and Python counts one thread. They end with the process.
 */
#include "native.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#define MAX_THREADS 16
#define SHORT_WAIT 50000  /* nanoseconds; to sleep and be woken takes longer than most waits */
#define LONG_WAIT 1000000 /* nanoseconds */
#define PAUSE 100         /* long waits; so these cost 1% at most */

enum { TAKEN, QUEUED, RUNNING, WANTED, DONE }; /* a task's states */

static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows, and of tasks' states */
static pthread_cond_t came = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static Task queue = {NULL, &queue, &queue, TAKEN}; /* a ring; after it comes the oldest */
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

/* Lets the system not interrupt others when this thread wakes: switching costs more than reading ahead gains. A lower
   priority would let a reader wait for a chunk that this thread has begun while other work has the cores. */
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
    pthread_cond_init(&came, NULL); /* who waited is not in this process */
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

/* Waits for a task that has begun. If that takes long, others use the processor: nothing is done ahead for a while. */
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
                              "Sets how many threads at most read ahead in this process, 0 at first; returns how many\n"
                              "it was before. Those that run already go on.");

static PyObject *set_threads(PyObject *Py_UNUSED(module), PyObject *number) {
    long n = PyLong_AsLong(number);
    if (n == -1 && PyErr_Occurred()) return NULL;
    static int is_registered; /* before the first lock; forks of Python hold the GIL too */
    if (!is_registered) is_registered = !pthread_atfork(before_fork, after_fork, begin_forked);
    int wanted = n < 0 || !is_registered ? 0 : n > MAX_THREADS ? MAX_THREADS : (int)n;
    return PyLong_FromLong(__atomic_exchange_n(&max_threads, wanted, __ATOMIC_RELAXED));
}

PyMethodDef ahead_methods[] = {
    {"set_threads", set_threads, METH_O, set_threads_doc},
    {NULL, NULL, 0, NULL},
};
