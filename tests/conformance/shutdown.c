/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of ending and beginning again: nothing stays behind, and several backends live side by
 * side, as several contexts of one process open them.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "slots.h"

/* A backend of its own, opened beside the one of the group. */
static conform_result second(conform_env *env, conform_slots *s) {
    memset(s, 0, sizeof *s);
    s->path = env->slots->path;
    s->index = env->slots->index;
    TRY(conform_slots_load(env, s) ? CONFORM_PASS : CONFORM_FAIL);
    return conform_slots_open(env, s) ? CONFORM_PASS : CONFORM_FAIL;
}

/* Work of every kind, on another backend than the group's. */
static conform_result work_inside(conform_env *env) {
    unsigned char data[5000], got[5000];
    void *stream, *event;
    uint64_t handle;
    TRY(slot_stream(env, &stream));
    TRY(slot_event(env, 0, &event));
    TRY(slot_memory(env, sizeof data, &handle));
    conform_pattern(data, sizeof data, 6);
    TRY(slot_write(env, stream, handle, 0, data, sizeof data));
    SLOT(API->event_record(event, stream, ERR));
    SLOT(API->event_sync(event, ERR));
    TRY(slot_read(env, stream, handle, 0, got, sizeof got));
    return slot_same_bytes(env, got, data, sizeof data, "in a backend opened later");
}

static conform_result work_on(conform_env *env, conform_slots *s) {
    conform_slots *own = env->slots;
    env->slots = s;
    conform_result result = work_inside(env);
    conform_slots_release(s);
    env->slots = own;
    return result;
}

static conform_result opens_again(conform_env *env) {
    for (int i = 0; i < 3; i++) {
        conform_slots s;
        TRY(second(env, &s));
        conform_result result = work_on(env, &s);
        conform_slots_close(&s);
        TRY(result);
    }
    return CONFORM_PASS;
}

static conform_result closes_one_of_two(conform_env *env) {
    conform_slots a, b;
    TRY(second(env, &a));
    conform_result result = second(env, &b);
    if (result == CONFORM_PASS) {
        result = work_on(env, &b);
        conform_slots_close(&a);
        if (result == CONFORM_PASS) result = work_on(env, &b);
        conform_slots_close(&b);
    } else {
        conform_slots_close(&a);
    }
    TRY(result);
    return work_inside(env); /* the first one of all */
}

static uint32_t entries(const char *folder) {
    DIR *dir = opendir(folder);
    uint32_t count = 0;
    while (dir != NULL && readdir(dir) != NULL) count++;
    if (dir != NULL) (void)closedir(dir);
    return count;
}

/* What a backend keeps for good it keeps once: rounds after the first few leave nothing more. */
static conform_result leaves_nothing(conform_env *env) {
    enum { WARM = 3, ROUNDS = 8 };
    uint32_t threads = 0, files = 0;
    long blocks = 0, kept = 0;
    for (int i = 0; i < WARM + ROUNDS; i++) {
        conform_slots s;
        TRY(second(env, &s));
        conform_result result = work_on(env, &s);
        conform_slots_close(&s);
        TRY(result);
        kept += atomic_load(&s.given->blocks);
        if (i != WARM - 1) continue;
        threads = entries("/proc/self/task");
        files = entries("/proc/self/fd");
        blocks = kept;
    }
    const uint32_t threads_after = entries("/proc/self/task"),
                   files_after = entries("/proc/self/fd");
    CHECK(threads_after < threads + ROUNDS,
          "%u threads before %d rounds of open and close, %u after", threads, ROUNDS,
          threads_after);
    CHECK(files_after < files + ROUNDS,
          "%u descriptors before %d rounds of open and close, %u after", files, ROUNDS,
          files_after);
    CHECK(kept - blocks < ROUNDS,
          "%ld blocks of host memory are left by %d rounds of open and close", kept - blocks,
          ROUNDS);
    return CONFORM_PASS;
}

static conform_result compare_process(conform_env *env, const slot_process *before,
                                      const slot_process *after) {
    CHECK(strcmp(before->folder, after->folder) == 0, "the working directory is %s now, not %s",
          after->folder, before->folder);
    CHECK(before->mask == after->mask, "the umask is %03o now, not %03o", (unsigned)after->mask,
          (unsigned)before->mask);
    /* A compiler inside a driver may handle what nobody did; it must not hide or replace anything.
     */
    for (int i = 1; i < SLOT_SIGNALS; i++) {
        const bool same = before->handlers[i] == after->handlers[i];
        CHECK(same || (before->handlers[i] == SIG_DFL && after->handlers[i] != SIG_IGN),
              "signal %d (%s) is handled otherwise now, or ignored", i, strsignal(i));
    }
    CHECK(before->child || !after->child, "a child process is left");
    return CONFORM_PASS;
}

/* Opens, works and closes with standard output going to a file; how many bytes came there. */
static conform_result work_silently(conform_env *env, off_t *out_bytes) {
    conform_slots s;
    FILE *file = tmpfile();
    (void)fflush(stdout);
    const int kept = dup(1);
    CHECK(file != NULL && kept >= 0 && dup2(fileno(file), 1) == 1, "standard output: %s",
          strerror(errno));
    conform_result result = second(env, &s);
    if (result == CONFORM_PASS) {
        result = work_on(env, &s);
        conform_slots_close(&s);
    }
    (void)fflush(stdout);
    *out_bytes = lseek(1, 0, SEEK_END);
    (void)dup2(kept, 1);
    (void)close(kept);
    (void)fclose(file);
    return result;
}

static conform_result leaves_the_process_alone(conform_env *env) {
    slot_process now;
    off_t printed = 0;
    TRY(work_silently(env, &printed));
    slot_process_look(&now);
    TRY(compare_process(env, &slot_process_before, &now));
    CHECK(printed == 0, "it prints %lld bytes to standard output; messages go to host->log",
          (long long)printed);
    return CONFORM_PASS;
}

const conform_case conform_shutdown_cases[] = {
    CASE("shutdown/again", opens_again, "shutdown"),
    CASE("shutdown/side_by_side", closes_one_of_two, "shutdown"),
    CASE("shutdown/leaves", leaves_nothing, "shutdown"),
    CASE("shutdown/process", leaves_the_process_alone, "shutdown"),
};
CASES_END(conform_shutdown);
