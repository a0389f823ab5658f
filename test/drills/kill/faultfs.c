/*
 * A file layer that remembers what a power failure would lose. Loaded into the server with LD_PRELOAD, it passes every call on and
 * keeps, in a journal outside the data folder, the old content of each range that is written and each entry that is created or
 * renamed, until the file (or the folder) is synced. power-loss.mjs then takes back everything that was not: the folder looks as
 * if writes that were never synced had never reached the disk.
 *
 * FAULTFS_ROOT: only files below it are watched. FAULTFS_LOG: the journal. FAULTFS_LIE: syncing is reported and not done, as some
 * disks do; with it the drill must fail, which shows that it can.
 * Records: one line "<kind> <offset> <length> <old file size> <path>[\t<second path>]\n" and, for W, length raw bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_FD 65536
#define REAL(name) ({ if (!real_##name) real_##name = dlsym(RTLD_NEXT, #name); real_##name; })

static char *paths[MAX_FD];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int journal = -1;
static const char *root;
static size_t root_length;
static int lie;

static int (*real_open)(const char *, int, ...);
static int (*real_close)(int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static int (*real_ftruncate)(int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_rename)(const char *, const char *);

__attribute__((constructor)) static void start(void) {
  root = getenv("FAULTFS_ROOT");
  const char *log = getenv("FAULTFS_LOG");
  if (root == NULL || log == NULL) return;
  root_length = strlen(root);
  lie = getenv("FAULTFS_LIE") != NULL;
  journal = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int watched(const char *path) {
  return journal >= 0 && path != NULL && strncmp(path, root, root_length) == 0;
}

static void record(char kind, off_t offset, size_t length, off_t size, const char *path, const char *second, const void *data) {
  char line[2 * PATH_MAX + 128];
  int n = snprintf(line, sizeof line, "%c %lld %zu %lld %s%s%s\n", kind, (long long)offset, length, (long long)size, path,
                   second ? "\t" : "", second ? second : "");
  struct iovec parts[2] = {{line, (size_t)n}, {(void *)data, length}};
  REAL(writev)(journal, parts, data != NULL && length > 0 ? 2 : 1); /* one call: a kill leaves a whole record or none */
}

/* Keeps what is about to be overwritten. */
static void before_write(int fd, off_t offset, size_t length) {
  if (fd < 0 || fd >= MAX_FD || paths[fd] == NULL || length == 0) return;
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return;
  size_t kept = 0;
  char *old = NULL;
  if (offset < info.st_size) {
    kept = (size_t)(info.st_size - offset) < length ? (size_t)(info.st_size - offset) : length;
    int reader = REAL(open)(paths[fd], O_RDONLY | O_CLOEXEC);
    old = malloc(kept);
    ssize_t got = reader >= 0 ? pread(reader, old, kept, offset) : -1;
    if (reader >= 0) REAL(close)(reader);
    if (got != (ssize_t)kept) kept = got > 0 ? (size_t)got : 0;
  }
  pthread_mutex_lock(&lock);
  record('W', offset, kept, info.st_size, paths[fd], NULL, old);
  pthread_mutex_unlock(&lock);
  free(old);
}

static int opened(int fd, const char *path, int created) {
  if (fd < 0 || fd >= MAX_FD) return fd;
  pthread_mutex_lock(&lock);
  free(paths[fd]);
  paths[fd] = watched(path) ? strdup(path) : NULL;
  if (paths[fd] != NULL && created) record('C', 0, 0, 0, path, NULL, NULL);
  pthread_mutex_unlock(&lock);
  return fd;
}

int open(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  int fresh = (flags & O_CREAT) && access(path, F_OK) != 0;
  return opened(REAL(open)(path, flags, mode), path, fresh);
}

int open64(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return open(path, flags, mode);
}

int close(int fd) {
  if (fd >= 0 && fd < MAX_FD) {
    pthread_mutex_lock(&lock);
    free(paths[fd]);
    paths[fd] = NULL;
    pthread_mutex_unlock(&lock);
  }
  return REAL(close)(fd);
}

ssize_t write(int fd, const void *data, size_t length) {
  if (fd >= 0 && fd < MAX_FD && paths[fd] != NULL) before_write(fd, lseek(fd, 0, SEEK_CUR), length);
  return REAL(write)(fd, data, length);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
  before_write(fd, offset, length);
  return REAL(pwrite)(fd, data, length, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) { return pwrite(fd, data, length, offset); }

static size_t total(const struct iovec *parts, int count) {
  size_t sum = 0;
  for (int i = 0; i < count; i++) sum += parts[i].iov_len;
  return sum;
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
  if (fd >= 0 && fd < MAX_FD && paths[fd] != NULL) before_write(fd, lseek(fd, 0, SEEK_CUR), total(parts, count));
  return REAL(writev)(fd, parts, count);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
  before_write(fd, offset, total(parts, count));
  return REAL(pwritev)(fd, parts, count, offset);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) { return pwritev(fd, parts, count, offset); }

int ftruncate(int fd, off_t length) {
  struct stat info;
  if (fd >= 0 && fd < MAX_FD && paths[fd] != NULL && fstat(fd, &info) == 0) {
    before_write(fd, length, length < info.st_size ? (size_t)(info.st_size - length) : 1);
  }
  return REAL(ftruncate)(fd, length);
}
int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

static int synced(int fd, int result) {
  if (result == 0 && !lie && fd >= 0 && fd < MAX_FD && paths[fd] != NULL) {
    struct stat info;
    int folder = fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
    pthread_mutex_lock(&lock);
    record(folder ? 'D' : 'S', 0, 0, 0, paths[fd], NULL, NULL);
    pthread_mutex_unlock(&lock);
  }
  return result;
}
int fsync(int fd) { return synced(fd, REAL(fsync)(fd)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)(fd)); }

int rename(const char *from, const char *to) {
  int result = REAL(rename)(from, to);
  if (result == 0 && watched(to)) {
    pthread_mutex_lock(&lock);
    record('R', 0, 0, 0, from, to, NULL);
    pthread_mutex_unlock(&lock);
  }
  return result;
}
