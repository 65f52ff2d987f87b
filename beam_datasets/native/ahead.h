/* Tasks that threads of this module do ahead of the readers that need them. The threads never need the GIL. */
#ifndef BEAM_DATASETS_AHEAD_H
#define BEAM_DATASETS_AHEAD_H

/* One piece of work; the first member of a struct with what it needs. The memory is the caller's, from ahead_submit()
 * until ahead_take(). */
typedef struct Task {
    void (*work)(struct Task *task); /* calls nothing of Python */
    struct Task *before, *after;     /* in the queue */
    int state;
} Task;

/* Whether tasks that are submitted may be done by a thread. */
int ahead_is_on(void);

/* Queues a task, without waiting; `work` is set. Needs no GIL. */
void ahead_submit(Task *task);

/* Takes a task back: one that has begun is waited for. Returns whether it was done; else the caller does it, if it is
 * to be done. To be called once for each submitted task; without the GIL where that may take long. */
int ahead_take(Task *task);

/* For work that may end early: whether its result is waited for. Needs no GIL. */
int ahead_is_wanted(const Task *task);

#endif
