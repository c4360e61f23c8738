/* A disk whose power may fail at any time, as a library to be preloaded (LD_PRELOAD) into Python,
 * the JVM and all else: it notes what of PREFIX would be there then. tests/crash/power.py makes that.
 *
 * POWER=PREFIX:NOTES: a file's bytes are those of its last fsync (NOTES/<identity>), a folder's
 * names those of its last fsync (NOTES/<identity>.names), less those that were removed since: that
 * a file is gone may reach the disk at any time, that it is there only by fsync. An identity is the
 * inode and its time of birth, as inodes come again; behind that of a folder's folder there is a /.
 * Who reads or writes notes holds NOTES/lock: of two threads that sync one folder, the one that
 * listed it first must not be the last to note it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char prefix[4096], notes[4096];
static size_t length;
#define TRUE_CALL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void)
{
    const char *said = getenv("POWER");
    if (said && sscanf(said, "%4095[^:]:%4095s", prefix, notes) == 2) length = strlen(prefix);
}

static int below(const char *path)
{
    return length && !strncmp(path, prefix, length) && (!path[length] || path[length] == '/');
}

/* The file's identity, below NOTES, with an ending. */
static int noted(int at, const char *path, const char *ending, char *out, size_t size)
{
    struct statx found;
    int flags = AT_SYMLINK_NOFOLLOW | (path[0] ? 0 : AT_EMPTY_PATH);
    if (statx(at, path, flags, STATX_INO | STATX_BTIME, &found)) return -1;
    snprintf(out, size, "%s/%llu-%lld-%u%s", notes, (unsigned long long)found.stx_ino,
             (long long)found.stx_btime.tv_sec, found.stx_btime.tv_nsec, ending);
    return 0;
}

static void copy_bytes(int fd, const char *to)
{
    char data[65536], part[8300];
    ssize_t got;
    off_t at = 0;
    snprintf(part, sizeof part, "%s.%d.part", to, gettid());
    int out = TRUE_CALL(open)(part, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    int in = TRUE_CALL(open)(self, O_RDONLY); /* fd may be write-only */
    while (in >= 0 && (got = pread(in, data, sizeof data, at)) > 0) {
        if (write(out, data, got) != got) abort();
        at += got;
    }
    close(in);
    close(out);
    TRUE_CALL(rename)(part, to);
}

static void copy_names(int fd, const char *to)
{
    char part[8300], line[8300];
    snprintf(part, sizeof part, "%s.%d.part", to, gettid());
    FILE *out = fopen(part, "w");
    DIR *dir = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY));
    struct dirent *one;
    while (dir && (one = readdir(dir))) {
        if (!strcmp(one->d_name, ".") || !strcmp(one->d_name, "..")) continue;
        if (noted(fd, one->d_name, "", line, sizeof line)) continue;
        fprintf(out, "%s%s %s\n", strrchr(line, '/') + 1, one->d_type == DT_DIR ? "/" : "",
                one->d_name);
    }
    if (dir) closedir(dir);
    fclose(out);
    TRUE_CALL(rename)(part, to);
}

/* To be closed by the caller, which lets the notes go. */
static int lock_notes(void)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/lock", notes);
    int fd = TRUE_CALL(open)(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) abort();
    while (flock(fd, LOCK_EX))
        if (errno != EINTR) abort();
    return fd;
}

static void synced(int fd)
{
    char self[64], path[4096], to[8200];
    struct stat found;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    ssize_t size = length ? readlink(self, path, sizeof path - 1) : -1;
    if (size < 0) return;
    path[size] = 0;
    if ((!below(path) && strncmp(prefix, path, size)) || fstat(fd, &found)) return;
    int folder = S_ISDIR(found.st_mode);
    if (noted(fd, "", folder ? ".names" : "", to, sizeof to)) return;
    int lock = lock_notes();
    if (folder) copy_names(fd, to);
    else copy_bytes(fd, to);
    close(lock);
}

int fsync(int fd)
{
    int done = TRUE_CALL(fsync)(fd);
    if (!done) synced(fd);
    return done;
}
int fdatasync(int fd)
{
    int done = TRUE_CALL(fdatasync)(fd);
    if (!done) synced(fd);
    return done;
}

/* Notes that a name is gone from its folder. */
static void removed(int at, const char *path)
{
    char folder[4096], whole[4200], to[8200], line[4200];
    if (!length) return;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    int fd = openat(at, folder[0] ? folder : "/", O_RDONLY | O_DIRECTORY);
    snprintf(line, sizeof line, "/proc/self/fd/%d", fd);
    ssize_t size = fd < 0 ? -1 : readlink(line, whole, 4095);
    if (size >= 0) {
        whole[size] = 0;
        if (below(whole) && !noted(fd, "", ".names", to, sizeof to)) {
            int lock = lock_notes();
            int out = TRUE_CALL(open)(to, O_WRONLY | O_APPEND); /* none: it is not durable */
            int n = snprintf(line, sizeof line, "- %s\n", name);
            if (out >= 0 && write(out, line, n) != n) abort();
            close(out);
            close(lock);
        }
    }
    if (fd >= 0) close(fd);
}

int unlink(const char *path)
{
    int done = TRUE_CALL(unlink)(path);
    if (!done) removed(AT_FDCWD, path);
    return done;
}
int rmdir(const char *path)
{
    int done = TRUE_CALL(rmdir)(path);
    if (!done) removed(AT_FDCWD, path);
    return done;
}
int unlinkat(int at, const char *path, int flags)
{
    int done = TRUE_CALL(unlinkat)(at, path, flags);
    if (!done) removed(at, path);
    return done;
}
int remove(const char *path)
{
    int done = TRUE_CALL(remove)(path);
    if (!done) removed(AT_FDCWD, path);
    return done;
}
