/* A quota on the files below a directory, for a process that preloads this library, and its children: writes fail with
 * EDQUOT once they exceed a number of bytes. Nothing is given back when files are deleted.
 *
 * Environment: QUOTA_DIR, the directory; QUOTA_COUNT, a file of 8 bytes with the number of bytes that are left. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

static const char *directory;
static _Atomic long *num_left;

__attribute__((constructor)) static void start(void) {
    const char *count = getenv("QUOTA_COUNT");
    directory = getenv("QUOTA_DIR");
    int file = count ? open(count, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) {
        directory = NULL;
        return;
    }
    num_left = mmap(NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
}

static int is_limited(int file) {
    char link[64], path[PATH_MAX];
    if (!directory) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    return length > 0 && !strncmp(path, directory, strlen(directory) < (size_t)length ? strlen(directory) : length + 1);
}

static int exceeds(int file, size_t size) {
    if (!is_limited(file) || atomic_fetch_sub(num_left, (long)size) >= (long)size) return 0;
    atomic_fetch_add(num_left, (long)size);
    errno = EDQUOT;
    return 1;
}

#define ORIGINAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *data, size_t size) {
    return exceeds(file, size) ? -1 : ORIGINAL(write)(file, data, size);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
    return exceeds(file, size) ? -1 : ORIGINAL(pwrite64)(file, data, size, offset);
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t size) { /* callers write instead */
    if (!is_limited(to)) return ORIGINAL(sendfile64)(to, from, offset, size);
    errno = EINVAL;
    return -1;
}

ssize_t copy_file_range(int from, off64_t *start, int to, off64_t *target, size_t size, unsigned flags) {
    if (!is_limited(to)) return ORIGINAL(copy_file_range)(from, start, to, target, size, flags);
    errno = ENOSYS;
    return -1;
}
