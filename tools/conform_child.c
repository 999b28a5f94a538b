/* SPDX-License-Identifier: Apache-2.0
 *
 * See conform_child.h.
 */
#include "conform_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int conform_child_start(conform_child *child, void (*body)(void *data, int fd), void *data) {
    int ends[2];
    memset(child, 0, sizeof *child);
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    (void)fflush(NULL);
    child->pid = fork();
    if (child->pid < 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return -1;
    }
    if (child->pid == 0) {
        (void)setpgid(0, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(STDERR_FILENO,
                   STDOUT_FILENO); /* what the plugin prints is no part of the report */
        (void)close(ends[0]);
        body(data, ends[1]);
        exit(0); /* with what the plugin left to run then */
    }
    (void)setpgid(child->pid, child->pid);
    (void)close(ends[1]);
    child->fd = ends[0];
    return 0;
}

void conform_child_send(int fd, int what, int32_t value, int32_t result, const char *text) {
    conform_message m;
    memset(&m, 0, sizeof m);
    m.what = what;
    m.value = value;
    m.result = result;
    (void)snprintf(m.text, sizeof m.text, "%s", text);
    const char *at = (const char *)&m;
    for (size_t left = sizeof m; left > 0;) {
        const ssize_t n = write(fd, at, left);
        if (n < 0 && errno != EINTR) _exit(3); /* nobody listens any more */
        if (n <= 0) continue;
        at += n;
        left -= (size_t)n;
    }
}

static const char *signal_name(int number) {
    switch (number) {
        case SIGSEGV:
            return "SIGSEGV";
        case SIGABRT:
            return "SIGABRT";
        case SIGBUS:
            return "SIGBUS";
        case SIGFPE:
            return "SIGFPE";
        case SIGILL:
            return "SIGILL";
        case SIGKILL:
            return "SIGKILL";
        case SIGTRAP:
            return "SIGTRAP";
        default:
            return strsignal(number);
    }
}

static void reap(conform_child *child) {
    int status = 0;
    if (child->pid <= 0) return;
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) continue;
    (void)kill(-child->pid, SIGKILL); /* what it started and left behind */
    (void)close(child->fd);
    child->pid = 0;
    if (child->end[0] != '\0') return;
    child->clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (WIFSIGNALED(status))
        (void)snprintf(child->end, sizeof child->end, "crashed (%s)",
                       signal_name(WTERMSIG(status)));
    else
        (void)snprintf(child->end, sizeof child->end, "ended the process (exit status %d)",
                       WEXITSTATUS(status));
}

int conform_child_read(conform_child *child, int timeout_s, conform_message *out) {
    char *at = (char *)out;
    const int64_t until = now_ms() + (int64_t)timeout_s * 1000;
    for (size_t left = sizeof *out; left > 0;) {
        struct pollfd p = {.fd = child->fd, .events = POLLIN};
        const int64_t rest = until - now_ms();
        const int ready = rest > 0 ? poll(&p, 1, (int)rest) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready == 0) {
            (void)snprintf(child->end, sizeof child->end, "timed out after %d s", timeout_s);
            (void)kill(-child->pid, SIGKILL);
            (void)kill(child->pid, SIGKILL);
            reap(child);
            return -1;
        }
        const ssize_t n = read(child->fd, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            reap(child);
            return 0;
        }
        at += n;
        left -= (size_t)n;
    }
    return 1;
}
