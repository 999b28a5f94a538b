/* SPDX-License-Identifier: Apache-2.0
 *
 * See process.h.
 */
#include "process.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

_Noreturn static void become(const process *p) {
    for (int i = 0; p->env[i] != NULL; i++) (void)putenv((char *)(uintptr_t)p->env[i]);
    (void)execvp(p->args[0], (char *const *)(uintptr_t)p->args);
    _exit(127);
}

static int read_line(const process *p, char *line, size_t capacity) {
    size_t length = 0;
    while (length + 1 < capacity && read(p->from, line + length, 1) == 1) {
        if (line[length] == '\n') {
            line[length] = '\0';
            return 1;
        }
        length++;
    }
    return 0;
}

/* Sends a command and waits for the answer. */
static int ask(const process *p, const char *command, char *line, size_t capacity) {
    return write(p->to, command, strlen(command)) == (ssize_t)strlen(command) &&
           read_line(p, line, capacity);
}

int process_start(process *p) {
    int in[2], out[2];
    char line[160];
    (void)signal(SIGPIPE, SIG_IGN);
    p->pid = -1;
    p->best = INFINITY;
    if (p->args[0] == NULL) return 0;
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) exit(1);
    p->pid = fork();
    if (p->pid == 0) {
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        become(p);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    p->to = in[1];
    p->from = out[0];
    if (p->pid > 0 && ask(p, "run 1\n", line, sizeof line) &&
        ask(p, "version\n", p->version, sizeof p->version))
        return 1;
    process_end(p);
    return 0;
}

/* What the kernel calls the high water mark; 0 where it tells none. */
static double peak_of(pid_t pid) {
    char path[40], line[160];
    double kib = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f != NULL && kib <= 0 && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) kib = strtod(line + 6, NULL);
    }
    if (f != NULL) (void)fclose(f);
    return 1024 * kib;
}

void process_end(process *p) {
    if (p->pid <= 0) return;
    p->peak = peak_of(p->pid);
    (void)close(p->to);
    (void)close(p->from);
    (void)waitpid(p->pid, NULL, 0);
    p->pid = -1;
}

static void failed(const process *p) {
    (void)fprintf(stderr, "dhow-bench: %s gave no answer\n", p->name);
    exit(1);
}

double process_run(process *p, unsigned count) {
    char command[40], line[160];
    (void)snprintf(command, sizeof command, "run %u\n", count);
    if (!ask(p, command, line, sizeof line)) failed(p);
    double seconds = strtod(line, NULL);
    if (seconds < p->best) p->best = seconds;
    return seconds;
}

float *process_outputs(process *p, size_t *count) {
    char path[] = "/tmp/dhow-bench-XXXXXX", command[60], line[160];
    int file = mkstemp(path);
    if (file < 0) exit(1);
    (void)snprintf(command, sizeof command, "save %s\n", path);
    if (!ask(p, command, line, sizeof line)) failed(p);
    off_t bytes = lseek(file, 0, SEEK_END);
    float *values = malloc((size_t)bytes + 1);
    if (values == NULL || pread(file, values, (size_t)bytes, 0) != bytes) exit(1);
    (void)close(file);
    (void)unlink(path);
    *count = (size_t)bytes / sizeof *values;
    return values;
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double process_whole(const process *p) {
    int code;
    double start = now();
    pid_t child = fork();
    if (child == 0) become(p);
    if (child < 0 || waitpid(child, &code, 0) != child || code != 0) return -1;
    return now() - start;
}
