/* Storage that fails, as a library to be preloaded (LD_PRELOAD) into Python, the JVM and all else.
 *
 * FAULTY_STORAGE=PREFIX:N:SEED: of the calls that change something below PREFIX about every N-th
 * meets a fault: it fails (EIO), times out (ETIMEDOUT, after a while), or does its work and then
 * says EIO, as when the answer is lost. A line for each goes to PREFIX.faults.
 *
 * faulty_storage_plan(CALL, PART, KIND): the next CALL (read: an open to read, create, write, fsync,
 * rename, link) on a path that holds PART meets that fault, once. faulty_storage_met(): how often.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILES 65536
enum { NONE, FAIL, TIMEOUT, LAND };

static char prefix[4096];
static size_t length;
static unsigned every;
static atomic_uint dice;
static atomic_char ours[FILES], aimed_at[FILES];
static char planned_call[16], planned_part[256];
static atomic_int planned_kind, planned_met;
#define TRUE_CALL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void)
{
    const char *said = getenv("FAULTY_STORAGE");
    unsigned seed = 0;
    if (said && sscanf(said, "%4095[^:]:%u:%u", prefix, &every, &seed) == 3) length = strlen(prefix);
    atomic_store(&dice, seed * 7919u + (unsigned)getpid());
}

static int below(const char *path)
{
    /* Spark's own checkpoint is Spark's business. */
    return length && path && !strncmp(path, prefix, length) && !strstr(path, "/_repl/checkpoint");
}

static int fault(const char *call, const char *path)
{
    unsigned roll = atomic_fetch_add(&dice, 1) * 2654435761u;
    int kind;
    if (every == 0 || (roll >> 8) % every) return NONE;
    kind = FAIL + (roll >> 5) % 3;
    char line[8192], place[4200];
    int n = snprintf(line, sizeof line, "%s %d %s\n", call, kind, path);
    snprintf(place, sizeof place, "%s.faults", prefix);
    int fd = TRUE_CALL(open)(place, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd >= 0 && TRUE_CALL(write)(fd, line, n) > 0) close(fd);
    if (kind == TIMEOUT) nanosleep(&(struct timespec){0, 50 * 1000 * 1000}, NULL);
    return kind;
}

void faulty_storage_plan(const char *call, const char *part, int kind)
{
    snprintf(planned_call, sizeof planned_call, "%s", call);
    snprintf(planned_part, sizeof planned_part, "%s", part);
    atomic_store(&planned_kind, kind);
}

int faulty_storage_met(void) { return atomic_exchange(&planned_met, 0); }

static int aims_at(const char *path)
{
    return atomic_load(&planned_kind) != NONE && path && strstr(path, planned_part) != NULL;
}

static int planned(const char *call, int aimed)
{
    if (!aimed || strcmp(call, planned_call)) return NONE;
    int kind = atomic_exchange(&planned_kind, NONE);
    if (kind != NONE) atomic_fetch_add(&planned_met, 1);
    return kind;
}

static int failed(int kind)
{
    errno = kind == TIMEOUT ? ETIMEDOUT : EIO;
    return -1;
}

/* A call that publishes a name: may land although it says that it failed. */
#define PUBLISHING(name, path, arguments)                  \
    int kind = planned(#name[0] == 'r' ? "rename" : "link", aims_at(path)); \
    if (kind == NONE && below(path)) kind = fault(#name, path); \
    if (kind == FAIL || kind == TIMEOUT) return failed(kind); \
    int done = TRUE_CALL(name) arguments;                  \
    return kind == LAND && done == 0 ? failed(kind) : done;

int rename(const char *from, const char *to) { PUBLISHING(rename, to, (from, to)) }
int renameat(int a, const char *from, int b, const char *to)
{
    PUBLISHING(renameat, to, (a, from, b, to))
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    PUBLISHING(renameat2, to, (a, from, b, to, flags))
}
int link(const char *from, const char *to) { PUBLISHING(link, to, (from, to)) }
int linkat(int a, const char *from, int b, const char *to, int flags)
{
    PUBLISHING(linkat, to, (a, from, b, to, flags))
}

#define OPENING(name, arguments)                                              \
    mode_t mode = 0;                                                          \
    if (flags & (O_CREAT | O_TMPFILE)) {                                      \
        va_list more;                                                         \
        va_start(more, flags);                                                \
        mode = va_arg(more, mode_t);                                          \
        va_end(more);                                                         \
    }                                                                         \
    int writes = (flags & O_CREAT) && below(path), aimed = aims_at(path);     \
    int kind = planned(flags & O_CREAT ? "create" : "read", aimed);           \
    if (kind == NONE && writes) kind = fault(#name, path);                    \
    if (kind == FAIL || kind == TIMEOUT) return failed(kind);                 \
    int fd = TRUE_CALL(name) arguments;                                       \
    if (fd >= 0 && fd < FILES) {                                              \
        atomic_store(&ours[fd], writes);                                      \
        atomic_store(&aimed_at[fd], aimed);                                   \
    }                                                                         \
    return fd;

int open(const char *path, int flags, ...) { OPENING(open, (path, flags, mode)) }
int open64(const char *path, int flags, ...) { OPENING(open64, (path, flags, mode)) }
int openat(int at, const char *path, int flags, ...) { OPENING(openat, (at, path, flags, mode)) }
int openat64(int at, const char *path, int flags, ...)
{
    OPENING(openat64, (at, path, flags, mode))
}

ssize_t write(int fd, const void *data, size_t size)
{
    int known = fd >= 0 && fd < FILES;
    int kind = planned("write", known && atomic_load(&aimed_at[fd]));
    if (kind == NONE && known && atomic_load(&ours[fd])) kind = fault("write", "");
    if (kind == FAIL || kind == TIMEOUT) return failed(kind);
    ssize_t done = TRUE_CALL(write)(fd, data, size);
    return kind == LAND ? failed(kind) : done;
}

int fsync(int fd)
{
    int known = fd >= 0 && fd < FILES;
    int kind = planned("fsync", known && atomic_load(&aimed_at[fd]));
    if (kind == NONE && known && atomic_load(&ours[fd])) kind = fault("fsync", "");
    int done = TRUE_CALL(fsync)(fd);
    return kind == NONE ? done : failed(kind);
}
