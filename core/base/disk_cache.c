/* SPDX-License-Identifier: Apache-2.0
 *
 * See disk_cache.h. A file is a header, the key and the blob; its name is a hash of the key.
 */
#include "base/disk_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

typedef struct entry_header {
    char magic[8];
    uint64_t key_bytes, blob_bytes, checksum;
} entry_header;

static const char k_magic[8] = {'d', 'h', 'o', 'w', 'c', 'a', '0', '1'};

dhow_status dhowi_disk_cache_init(dhowi_disk_cache *cache, const char *folder,
                                  const dhowi_log *log) {
    cache->folder[0] = '\0';
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
    (void)close(fd);
    if (status == DHOW_OK || status == DHOW_OUT_OF_MEMORY) return status;
    dhowi_log_line(cache->log, DHOW_LOG_INFO, "kernel cache: %s is damaged; building anew", path);
    (void)unlink(path);
    return DHOW_NOT_FOUND;
}

dhow_status dhowi_disk_cache_store(dhowi_disk_cache *cache, const char *key, const void *blob,
                                   uint64_t bytes) {
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
    if (status != DHOW_OK) warn_once(cache, dhow_last_error());
    return status;
}
