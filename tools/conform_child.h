/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that runs a plugin's code and reports, so that what the plugin does to it is told and
 * survived.
 */
#ifndef TOOLS_CONFORM_CHILD_H_
#define TOOLS_CONFORM_CHILD_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    MESSAGE_READY = 1, /* text: of the device; value: the number of devices */
    MESSAGE_REFUSED,   /* text: why nothing can be run */
    MESSAGE_START,     /* value: of the case */
    MESSAGE_DONE,      /* value: of the case; result, text */
    MESSAGE_END        /* all cases have run and everything is taken down */
};

typedef struct conform_message {
    int32_t what;
    int32_t value, result;
    char text[1400];
} conform_message;

typedef struct conform_child {
    pid_t pid;
    int fd;
    bool clean;   /* it ended of itself, with exit status 0 */
    char end[80]; /* how it ended: "crashed (SIGSEGV)" */
} conform_child;

/* Runs body(data, fd) in a new process, which sends messages to fd. 0, or -1 with errno. */
int conform_child_start(conform_child *child, void (*body)(void *data, int fd), void *data);
void conform_child_send(int fd, int what, int32_t value, int32_t result, const char *text);
/* 1 with a message; 0 when the process has ended, -1 when it took too long and was killed:
 * child->end says so. */
int conform_child_read(conform_child *child, int timeout_s, conform_message *out);
#endif /* TOOLS_CONFORM_CHILD_H_ */
