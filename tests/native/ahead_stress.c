/* Many threads have jobs done ahead and take them, in any order, while these are quick or slow. sanitize.sh builds it
 * with ThreadSanitizer; it ends with 1 where a result is not that of its job. */
#include "ahead.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define BATCHES 150
#define MOST 40

/* Begins with its job, as a run of a file does. */
typedef struct {
    Job job;
    size_t number;
    unsigned microseconds;
} Square;

static void *square(const Job *job, size_t *size) {
    const Square *self = (const Square *)job;
    size_t *result = malloc(sizeof *result);
    if (self->microseconds) usleep(self->microseconds);
    *size = sizeof *result;
    if (result != NULL) *result = self->number * self->number;
    return result;
}

static size_t num_done[THREADS];

static int is_right(Square *self, size_t thread) {
    int waited;
    size_t *result = ahead_take(&self->job, &waited);
    int right = result == NULL || *result == self->number * self->number;
    num_done[thread] += result != NULL;
    free(result);
    memset(self, 255, sizeof *self); /* it is the caller's again */
    return right;
}

static void *run(void *argument) {
    size_t thread = (size_t)argument, good = 0, wanted = 0;
    unsigned seed = (unsigned)thread + 1;
    for (int batch = 0; batch < BATCHES; batch++) {
        size_t n = (size_t)rand_r(&seed) % MOST + 1, most = (size_t)rand_r(&seed) % 5 * sizeof(size_t);
        unsigned slowness = batch % 3 ? 0 : 200;
        Square *squares = calloc(n, sizeof *squares);
        Job *jobs[MOST];
        if (squares == NULL) abort();
        for (size_t i = 0; i < n; i++) {
            squares[i].number = (size_t)rand_r(&seed);
            squares[i].microseconds = slowness ? (unsigned)rand_r(&seed) % slowness : 0;
            jobs[i] = &squares[i].job;
        }
        ahead_begin(jobs, n, most, square);
        size_t first = batch % 2 ? (size_t)rand_r(&seed) % n : 0;
        for (size_t i = 0; i < n; i++) {
            if (rand_r(&seed) % 4 == 0) usleep(100);
            good += (size_t)is_right(&squares[(first + i) % n], thread);
        }
        wanted += n;
        free(squares);
    }
    return (void *)(wanted - good);
}

int main(void) {
    pthread_t threads[THREADS];
    size_t wrong = 0, done = 0;
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)i)) abort();
    for (size_t i = 0; i < THREADS; i++) {
        void *found;
        pthread_join(threads[i], &found);
        wrong += (size_t)found;
        done += num_done[i];
    }
    printf("%zu jobs were done ahead, %zu results are wrong\n", done, wrong);
    return wrong > 0 || done == 0;
}
