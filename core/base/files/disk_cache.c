/* SPDX-License-Identifier: Apache-2.0
 *
 * See disk_cache.h. A file is a header, the key and the blob; its name is a hash of the key.
 */
#include "base/files/disk_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/memory/alloc.h"
#include "base/text/text.h"

typedef struct entry_header {
    char magic[8];
    uint64_t key_bytes, blob_bytes, checksum;
} entry_header;

static const char k_magic[8] = {'d', 'h', 'o', 'w', 'c', 'a', '0', '1'};

dhow_status dhowi_disk_cache_init(dhowi_disk_cache *cache, const char *folder,
                                  const dhowi_log *log) {
    cache->folder[0] = '\0';
    cache->homeless = false;
    cache->log = log;
    atomic_init(&cache->warned, false);
    if (folder != NULL) {
        if (strcmp(folder, "off") == 0) return DHOW_OK;
        if (folder[0] != '/') {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "DHOW_CACHE_DIR: '%.200s' is no absolute path; use one, or 'off'",
                              folder);
        }
        if (dhowi_copy_text(cache->folder, sizeof cache->folder, folder)) return DHOW_OK;
        cache->folder[0] = '\0';
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "DHOW_CACHE_DIR: '%.200s...' is longer than %zu",
                          folder, sizeof cache->folder - 1);
    }
    const char *base = dhowi_env("XDG_CACHE_HOME"), *home = dhowi_env("HOME");
    dhowi_text text = DHOWI_TEXT(cache->folder);
    if (base != NULL && base[0] == '/') {
        dhowi_text_add(&text, "%s/dhow", base);
    } else if (home != NULL && home[0] == '/') {
        dhowi_text_add(&text, "%s/.cache/dhow", home);
    } else {
        cache->homeless = true;
    }
    if (text.length + 1 >= text.capacity) cache->folder[0] = '\0'; /* cut: another folder */
    return DHOW_OK;
}

static void warn_once(dhowi_disk_cache *cache, const char *what) {
    if (atomic_exchange(&cache->warned, true)) return;
    dhowi_log_line(cache->log, DHOW_LOG_WARN,
                   "kernel cache: %s: %s; going on without (set DHOW_CACHE_DIR to another folder, "
                   "or to 'off')",
                   cache->folder, what);
}

static bool make_folder(const char *folder) {
    char path[sizeof((dhowi_disk_cache *)0)->folder];
    if (!dhowi_copy_text(path, sizeof path, folder)) return false;
    for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* The folder must be ours: kernels are code. */
static bool folder_is_ours(dhowi_disk_cache *cache) {
    struct stat info;
    if (stat(cache->folder, &info) != 0) return false;
    return S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 022) == 0;
}

static void entry_path(const dhowi_disk_cache *cache, const char *key, char *path,
                       size_t capacity) {
    size_t bytes = strlen(key);
    dhowi_text text = {path, capacity, 0};
    dhowi_text_add(&text, "%s/%016" PRIx64 "%016" PRIx64, cache->folder,
                   dhowi_hash(DHOWI_HASH_SEED, key, bytes),
                   dhowi_hash(~DHOWI_HASH_SEED, key, bytes));
}

static dhow_status read_entry(int fd, const char *path, uint64_t bytes, const char *key,
                              void **out_blob, uint64_t *out_bytes) {
    size_t key_bytes = strlen(key);
    entry_header header;
    if (bytes < sizeof header + key_bytes) return DHOW_CORRUPT;
    DHOWI_TRY(dhowi_file_read(fd, path, 0, &header, sizeof header));
    if (memcmp(header.magic, k_magic, sizeof k_magic) != 0 || header.key_bytes != key_bytes ||
        header.blob_bytes != bytes - sizeof header - key_bytes) {
        return DHOW_CORRUPT;
    }
    char *data = dhowi_alloc((size_t)(bytes - sizeof header));
    if (data == NULL) return dhowi_fail_memory("kernel cache");
    dhow_status status =
        dhowi_file_read(fd, path, sizeof header, data, (size_t)(bytes - sizeof header));
    if (status == DHOW_OK &&
        (memcmp(data, key, key_bytes) != 0 ||
         dhowi_hash(DHOWI_HASH_SEED, data, (size_t)(bytes - sizeof header)) != header.checksum)) {
        status = DHOW_CORRUPT;
    }
    if (status != DHOW_OK) {
        dhowi_free(data);
        return status;
    }
    memmove(data, data + key_bytes, (size_t)header.blob_bytes);
    *out_blob = data;
    *out_bytes = header.blob_bytes;
    return DHOW_OK;
}

dhow_status dhowi_disk_cache_load(dhowi_disk_cache *cache, const char *key, void **out_blob,
                                  uint64_t *out_bytes) {
    *out_blob = NULL;
    *out_bytes = 0;
    if (cache->folder[0] == '\0' || !folder_is_ours(cache)) return DHOW_NOT_FOUND;
    char path[sizeof cache->folder + 64];
    entry_path(cache, key, path, sizeof path);
    int fd;
    uint64_t bytes;
    if (dhowi_file_open(path, &fd, &bytes) != DHOW_OK) return DHOW_NOT_FOUND;
    dhow_status status = read_entry(fd, path, bytes, key, out_blob, out_bytes);
    if (status == DHOW_OK) (void)futimens(fd, NULL); /* its time is that of the last use */
    (void)close(fd);
    if (status == DHOW_OK || status == DHOW_OUT_OF_MEMORY) return status;
    dhowi_log_line(cache->log, DHOW_LOG_INFO, "kernel cache: %s is damaged; building anew", path);
    (void)unlink(path);
    return DHOW_NOT_FOUND;
}

/* ---- the limit ---- */

enum { HASH_DIGITS = 32, STALE_SECONDS = 24 * 60 * 60 };

typedef struct old_entry {
    char name[HASH_DIGITS + 1];
    struct timespec used;
    uint64_t bytes;
} old_entry;

typedef struct listing {
    old_entry *entries;
    size_t count, capacity;
    uint64_t bytes;
} listing;

static int by_use(const void *a, const void *b) {
    const old_entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool add_entry(listing *l, const char *name, const struct stat *info) {
    if (l->count == l->capacity) {
        size_t capacity = l->capacity > 0 ? 2 * l->capacity : 64;
        old_entry *larger = dhowi_realloc_array(l->entries, capacity, sizeof *larger);
        if (larger == NULL) return false;
        l->entries = larger;
        l->capacity = capacity;
    }
    old_entry *e = &l->entries[l->count++];
    (void)dhowi_copy_text(e->name, sizeof e->name, name);
    e->used = info->st_mtim;
    e->bytes = (uint64_t)info->st_size;
    l->bytes += e->bytes;
    return true;
}

/* Lists the entries, and removes the temporary files of writers that were killed. Whatever else
 * lies in the folder is not ours. False when memory is exhausted. */
static bool list_entries(DIR *folder, listing *l) {
    const time_t now = time(NULL);
    for (const struct dirent *e; (e = readdir(folder)) != NULL;) {
        struct stat info;
        const size_t length = strlen(e->d_name), digits = strspn(e->d_name, "0123456789abcdef");
        if (digits != HASH_DIGITS ||
            fstatat(dirfd(folder), e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(info.st_mode))
            continue;
        if (length == HASH_DIGITS) {
            if (!add_entry(l, e->d_name, &info)) return false;
        } else if (e->d_name[HASH_DIGITS] == '.' && strcmp(e->d_name + length - 4, ".tmp") == 0 &&
                   info.st_mtim.tv_sec < now - STALE_SECONDS) {
            (void)unlinkat(dirfd(folder), e->d_name, 0);
        }
    }
    return true;
}

/* Keeps the entry that was just stored, whatever its size. Another process may do the same at the
 * same time: who reads an entry has it open, and one that is gone is built anew. */
static void trim(const dhowi_disk_cache *cache, const char *stored) {
    DIR *folder = opendir(cache->folder);
    listing l = {0};
    if (folder != NULL && list_entries(folder, &l) && l.bytes > DHOWI_DISK_CACHE_BYTES) {
        qsort(l.entries, l.count, sizeof *l.entries, by_use);
        for (size_t i = 0; i < l.count && l.bytes > DHOWI_DISK_CACHE_BYTES; i++) {
            const old_entry *e = &l.entries[i];
            if (strcmp(e->name, stored) == 0 || unlinkat(dirfd(folder), e->name, 0) != 0) continue;
            l.bytes -= e->bytes;
        }
    }
    dhowi_free(l.entries);
    if (folder != NULL) (void)closedir(folder);
}

dhow_status dhowi_disk_cache_store(dhowi_disk_cache *cache, const char *key, const void *blob,
                                   uint64_t bytes) {
    if (cache->homeless && !atomic_exchange(&cache->warned, true))
        dhowi_log_line(cache->log, DHOW_LOG_WARN,
                       "kernel cache: there is no HOME, so each process compiles its kernels anew "
                       "(set DHOW_CACHE_DIR to a folder, or to 'off')");
    if (cache->folder[0] == '\0') return DHOW_OK;
    struct stat info;
    const char *obstacle = NULL;
    if (!make_folder(cache->folder)) {
        obstacle = strerror(errno);
    } else if (stat(cache->folder, &info) == 0 && !S_ISDIR(info.st_mode)) {
        obstacle = "a file is in its place";
    }
    if (obstacle != NULL || !folder_is_ours(cache)) {
        char what[128] = "others may write to it";
        if (obstacle != NULL) (void)snprintf(what, sizeof what, "it cannot be made: %s", obstacle);
        warn_once(cache, what);
        return DHOW_IO_ERROR;
    }
    char path[sizeof cache->folder + 64];
    entry_path(cache, key, path, sizeof path);
    entry_header header = {.key_bytes = strlen(key), .blob_bytes = bytes};
    memcpy(header.magic, k_magic, sizeof k_magic);
    header.checksum =
        dhowi_hash(dhowi_hash(DHOWI_HASH_SEED, key, strlen(key)), blob, (size_t)bytes);
    const dhowi_file_part parts[] = {
        {&header, sizeof header}, {key, strlen(key)}, {blob, (size_t)bytes}};
    dhow_status status = dhowi_file_write(path, parts, 3);
    if (status == DHOW_OK) {
        trim(cache, strrchr(path, '/') + 1);
    } else {
        warn_once(cache, dhow_last_error());
    }
    return status;
}
