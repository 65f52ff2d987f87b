/* Work done ahead, by a thread that all of the process share. */
#ifndef BEAM_DATASETS_AHEAD_H
#define BEAM_DATASETS_AHEAD_H

#include <stddef.h>

struct Batch;

/* What can be done ahead. The memory is the caller's, who may not let go of it before ahead_take(). */
typedef struct Job {
    struct Batch *batch; /* NULL where nobody does it ahead */
    size_t place;        /* in the batch */
    int state;
    void *result;
    size_t size;
} Job;

/* Does a job in another thread, from which Python cannot be called, without changing it. Returns the result, and sets
 * how many bytes it takes. In a process that is forked meanwhile it is lost, and what the job has open stays so. */
typedef void *(*Work)(const Job *job, size_t *size);

/* Has n jobs done in their order, until results that are not taken have `most` bytes, and again when half of these are
 * taken. Where that is not possible none is done. */
void ahead_begin(Job *const *jobs, size_t n, size_t most, Work work);

/* Returns the result of a job, and waits for it where it is being done; NULL where it was not begun, and will not be.
 * Sets whether that took long: then nothing else of its batch is begun. To be called by one thread at a time, without
 * the GIL. */
void *ahead_take(Job *job, int *waited);

#endif
