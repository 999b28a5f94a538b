/* SPDX-License-Identifier: Apache-2.0
 *
 * Probing in another process: dhow-probe loads and asks the plugin and says what became of it and
 * which devices it has. Whatever the plugin does there - crash, exit, hang - becomes a state here.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/text/text.h"
#include "base/threads/clock.h"
#include "plugin/elf_check.h"
#include "plugin/plugin.h"

extern char **environ;

enum {
    PROBE_SECONDS = 5,
    TEXT_BYTES = 2048,
    ANSWER_LINES = 7,
    MAX_DEVICES = 1024,
    MAX_COMPONENTS = 64,
    ANSWER_BYTES = TEXT_BYTES + MAX_DEVICES * (int)sizeof(dhow_device_desc) +
                   MAX_COMPONENTS * (int)sizeof(dhow_component)
};
static const char k_first_line[] = "dhow-probe 2";

/* ---- the side that answers ---- */

static bool write_all(int fd, const void *data, size_t bytes) {
    for (const char *p = data; bytes > 0;) {
        ssize_t n = write(fd, p, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        p += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* Lines of text, the last with how many devices and components follow as they are. */
void dhowi_plugin_print_answer(dhowi_plugin *plugin, int fd) {
    char answer[TEXT_BYTES];
    dhowi_text text = DHOWI_TEXT(answer);
    if (plugin->self != NULL) dhowi_plugin_list_components(plugin);
    dhowi_text_add(&text, "%s\n%d\n%s\n%s\n%s\n%s\n%u %u\n", k_first_line, plugin->state,
                   plugin->backend, plugin->version, plugin->reason, plugin->hint,
                   plugin->device_count, plugin->component_count);
    bool ok = write_all(fd, answer, text.length);
    for (uint32_t i = 0; i < plugin->device_count && ok; i++) {
        dhow_device_desc desc;
        dhowi_plugin_describe(plugin, i, &desc);
        ok = write_all(fd, &desc, sizeof desc);
    }
    if (ok)
        (void)write_all(fd, plugin->components,
                        plugin->component_count * sizeof *plugin->components);
}

/* ---- the side that asks ---- */

static int64_t now_ms(void) { return dhowi_nanoseconds() / 1000000; }

/* The lines of an answer, as far as they have come. */
typedef struct answer_head {
    const char *line[ANSWER_LINES];
    size_t length[ANSWER_LINES];
    size_t bytes; /* of all lines */
    int64_t devices, components;
} answer_head;

static bool read_head(const char *answer, size_t length, answer_head *out) {
    const char *at = answer, *end = answer + length;
    for (int i = 0; i < ANSWER_LINES; i++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) return false;
        out->line[i] = at;
        out->length[i] = (size_t)(stop - at);
        at = stop + 1;
    }
    out->bytes = (size_t)(at - answer);
    const char *counts = out->line[ANSWER_LINES - 1];
    const char *blank = memchr(counts, ' ', out->length[ANSWER_LINES - 1]);
    out->devices = out->components = 0;
    return blank == NULL ||
           (dhowi_parse_i64(counts, (size_t)(blank - counts), 0, MAX_DEVICES, &out->devices) &&
            dhowi_parse_i64(blank + 1, (size_t)(at - 2 - blank), 0, MAX_COMPONENTS,
                            &out->components));
}

static size_t answer_bytes(const answer_head *head) {
    return head->bytes + (size_t)head->devices * sizeof(dhow_device_desc) +
           (size_t)head->components * sizeof(dhow_component);
}

static bool is_whole(const char *answer, size_t length) {
    answer_head head;
    return read_head(answer, length, &head) && length >= answer_bytes(&head);
}

/* Reads the whole answer, or until end of file or the deadline; false at the deadline. Not always
 * until end of file: a process that the plugin left behind may keep the pipe open. */
static bool read_answer(int fd, int64_t deadline, char *answer, size_t capacity,
                        size_t *out_length) {
    size_t length = 0;
    for (;;) {
        int64_t left = deadline - now_ms();
        if (left <= 0) return false;
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        int ready = poll(&wanted, 1, (int)left);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return false;
        char rest[256];
        bool full = length == capacity;
        ssize_t n = read(fd, full ? rest : answer + length, full ? sizeof rest : capacity - length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        if (!full) length += (size_t)n;
        if (is_whole(answer, length)) break;
    }
    *out_length = length;
    return true;
}

/* Waits for the process, which has closed its end of the pipe; kills it at the deadline. */
static bool reap(pid_t pid, int64_t deadline, int *out_status) {
    for (;;) {
        pid_t done = waitpid(pid, out_status, WNOHANG);
        if (done == pid) return true;
        if (done < 0 && errno != EINTR) { /* someone else took it: the host ignores SIGCHLD */
            *out_status = 0;
            return true;
        }
        if (now_ms() >= deadline) break;
        (void)usleep(200);
    }
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, out_status, 0) < 0 && errno == EINTR) {
    }
    return false;
}

static pid_t spawn(const char *program, const char *path, const char *threads, int *out_fd) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    if (posix_spawn_file_actions_init(&actions) == 0) {
        char *const argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)path,
                              (char *)(uintptr_t)threads, NULL};
        /* Descriptor 3 carries the answer; what the plugin prints goes nowhere. The pipe's end is
         * moved first: in a host that has closed its standard descriptors it may be one of them. */
        if (posix_spawn_file_actions_adddup2(&actions, ends[1], 3) != 0 ||
            posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) != 0 ||
            posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) != 0 ||
            posix_spawn(&pid, program, &actions, NULL, argv, environ) != 0) {
            pid = -1;
        }
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
    } else {
        *out_fd = ends[0];
    }
    return pid;
}

static void take_line(const answer_head *head, int i, char *out, size_t capacity) {
    const size_t length = DHOWI_MIN(head->length[i], capacity - 1);
    memcpy(out, head->line[i], length);
    out[length] = '\0';
}

static bool take_answer(dhowi_plugin *plugin, const char *answer, size_t length) {
    answer_head head;
    int64_t state;
    char reason[sizeof plugin->reason], hint[sizeof plugin->hint];
    if (!read_head(answer, length, &head) || length < answer_bytes(&head) ||
        head.length[0] != strlen(k_first_line) ||
        memcmp(head.line[0], k_first_line, head.length[0]) != 0 ||
        !dhowi_parse_i64(head.line[1], head.length[1], 0, DHOW_PLUGIN_TIMED_OUT, &state))
        return false;
    take_line(&head, 2, plugin->backend, sizeof plugin->backend);
    take_line(&head, 3, plugin->version, sizeof plugin->version);
    take_line(&head, 4, reason, sizeof reason);
    take_line(&head, 5, hint, sizeof hint);
    dhowi_plugin_set_state(plugin, (dhow_plugin_state)state, hint, "%s", reason);
    if (state != DHOW_PLUGIN_READY || head.devices == 0) return true;
    plugin->descs = dhowi_alloc_array((size_t)head.devices, sizeof *plugin->descs);
    plugin->components = dhowi_alloc_array((size_t)head.components, sizeof *plugin->components);
    if (plugin->descs == NULL || (plugin->components == NULL && head.components > 0)) {
        dhowi_plugin_close(plugin); /* it is opened and asked here instead */
        return true;
    }
    const char *at = answer + head.bytes;
    memcpy(plugin->descs, at, (size_t)head.devices * sizeof *plugin->descs);
    at += (size_t)head.devices * sizeof *plugin->descs;
    if (head.components > 0)
        memcpy(plugin->components, at, (size_t)head.components * sizeof *plugin->components);
    plugin->device_count = (uint32_t)head.devices;
    plugin->component_count = (uint32_t)head.components;
    plugin->components_listed = true;
    return true;
}

void dhowi_plugin_probe_isolated(dhowi_plugin *plugin, const char *probe_program,
                                 const dhow_host *host) {
    char *answer = dhowi_alloc(ANSWER_BYTES), threads[16];
    int fd = -1, exit_status = 0;
    size_t length = 0;
    (void)snprintf(threads, sizeof threads, "%u", host->cpu_threads);
    pid_t pid = answer != NULL ? spawn(probe_program, plugin->path, threads, &fd) : -1;
    if (pid < 0) {
        char text[600];
        dhowi_free(answer);
        (void)snprintf(text, sizeof text,
                       "%.400s cannot be started, install it; %.100s is probed inside this process",
                       probe_program, plugin->backend);
        host->log(host->user, DHOW_LOG_WARN, text);
        dhowi_plugin_load(plugin);
        if (plugin->state == DHOW_PLUGIN_READY) dhowi_plugin_probe(plugin, host);
        return;
    }
    int64_t deadline = now_ms() + PROBE_SECONDS * 1000;
    bool answered = read_answer(fd, deadline, answer, ANSWER_BYTES, &length);
    (void)close(fd);
    bool ended = reap(pid, answered ? deadline : 0, &exit_status);
    if (!answered || !ended) {
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_TIMED_OUT,
                               "the plugin or its driver hangs; remove or reinstall it",
                               "no answer within %d seconds", PROBE_SECONDS);
    } else if (WIFSIGNALED(exit_status)) {
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_CRASHED,
                               "the plugin or its driver is broken; remove or reinstall it",
                               "died of signal %d (%s) while it was loaded and probed",
                               WTERMSIG(exit_status), strsignal(WTERMSIG(exit_status)));
    } else if (!take_answer(plugin, answer, length)) {
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_CRASHED,
                               "a plugin must not end its process; remove or reinstall it",
                               "ended its process with status %d instead of answering",
                               WEXITSTATUS(exit_status));
    } else if (plugin->state == DHOW_PLUGIN_READY) {
        dhowi_plugin_load(plugin);
    }
    dhowi_free(answer);
}
