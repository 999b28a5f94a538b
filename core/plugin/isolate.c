/* SPDX-License-Identifier: Apache-2.0
 *
 * Probing in another process: dhow-probe loads and asks the plugin and prints six lines. Whatever
 * the plugin does there - crash, exit, hang - becomes a state here.
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
#include <time.h>
#include <unistd.h>

#include "base/size.h"
#include "base/text.h"
#include "plugin/elf_check.h"
#include "plugin/plugin.h"

extern char **environ;

enum { PROBE_SECONDS = 5, ANSWER_BYTES = 2048, ANSWER_LINES = 6 };
static const char k_first_line[] = "dhow-probe 1";

void dhowi_plugin_print_answer(const dhowi_plugin *plugin, int fd) {
    char answer[ANSWER_BYTES];
    dhowi_text text = DHOWI_TEXT(answer);
    dhowi_text_add(&text, "%s\n%d\n%s\n%s\n%s\n%s\n", k_first_line, plugin->state, plugin->backend,
                   plugin->version, plugin->reason, plugin->hint);
    for (size_t done = 0; done < text.length;) {
        ssize_t n = write(fd, answer + done, text.length - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        done += (size_t)n;
    }
}

static int64_t now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool is_whole(const char *answer, size_t length) {
    size_t lines = 0;
    for (size_t i = 0; i < length; i++) lines += answer[i] == '\n';
    return lines >= ANSWER_LINES;
}

/* Reads the whole answer, or until end of file or the deadline; false at the deadline. Not always
 * until end of file: a process that the plugin left behind may keep the pipe open. */
static bool read_answer(int fd, int64_t deadline, char *answer, size_t capacity) {
    size_t length = 0;
    for (;;) {
        int64_t left = deadline - now_ms();
        if (left <= 0) return false;
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        int ready = poll(&wanted, 1, (int)left);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return false;
        char rest[256];
        bool full = length + 1 == capacity;
        ssize_t n =
            read(fd, full ? rest : answer + length, full ? sizeof rest : capacity - 1 - length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        if (!full) length += (size_t)n;
        if (is_whole(answer, length)) break;
    }
    answer[length] = '\0';
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

static pid_t spawn(const char *program, const char *path, int *out_fd) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    if (posix_spawn_file_actions_init(&actions) == 0) {
        char *const argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)path, NULL};
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

/* Takes the next line off *rest. */
static const char *next_line(char **rest) {
    char *line = *rest, *end = strchr(line, '\n');
    if (end == NULL) return NULL;
    *end = '\0';
    *rest = end + 1;
    return line;
}

static bool take_answer(dhowi_plugin *plugin, char *answer) {
    const char *lines[ANSWER_LINES];
    for (size_t i = 0; i < DHOWI_COUNT(lines); i++) {
        lines[i] = next_line(&answer);
        if (lines[i] == NULL) return false;
    }
    int64_t state;
    if (strcmp(lines[0], k_first_line) != 0 ||
        !dhowi_parse_i64(lines[1], strlen(lines[1]), 0, DHOW_PLUGIN_TIMED_OUT, &state)) {
        return false;
    }
    (void)dhowi_copy_text(plugin->backend, sizeof plugin->backend, lines[2]);
    (void)dhowi_copy_text(plugin->version, sizeof plugin->version, lines[3]);
    dhowi_plugin_say(plugin, (dhow_plugin_state)state, lines[5], "%s", lines[4]);
    return true;
}

void dhowi_plugin_probe_isolated(dhowi_plugin *plugin, const char *probe_program,
                                 const dhow_host *host) {
    char answer[ANSWER_BYTES] = "";
    int fd = -1, exit_status = 0;
    pid_t pid = spawn(probe_program, plugin->path, &fd);
    if (pid < 0) {
        host->log(host->user, DHOW_LOG_WARN,
                  "dhow-probe cannot be started; plugins are probed inside this process");
        dhowi_plugin_load(plugin);
        if (plugin->state == DHOW_PLUGIN_READY) dhowi_plugin_probe(plugin, host);
        return;
    }
    int64_t deadline = now_ms() + PROBE_SECONDS * 1000;
    bool answered = read_answer(fd, deadline, answer, sizeof answer);
    (void)close(fd);
    bool ended = reap(pid, answered ? deadline : 0, &exit_status);
    if (!answered || !ended) {
        dhowi_plugin_say(plugin, DHOW_PLUGIN_TIMED_OUT,
                         "the plugin or its driver hangs; remove it or mend it",
                         "no answer within %d seconds", PROBE_SECONDS);
    } else if (WIFSIGNALED(exit_status)) {
        dhowi_plugin_say(plugin, DHOW_PLUGIN_CRASHED,
                         "the plugin or its driver is broken; remove it or mend it",
                         "died of signal %d (%s) while it was loaded and probed",
                         WTERMSIG(exit_status), strsignal(WTERMSIG(exit_status)));
    } else if (!take_answer(plugin, answer)) {
        dhowi_plugin_say(
            plugin, DHOW_PLUGIN_CRASHED, "a plugin must not end its process; remove it or mend it",
            "ended its process with status %d instead of answering", WEXITSTATUS(exit_status));
    } else if (plugin->state == DHOW_PLUGIN_READY) {
        dhowi_plugin_load(plugin);
    }
}
