/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX Runtime as one of the processes that dhow-bench compares, through its C interface:
 *
 *     dhow-bench-onnxruntime LIBRARY FOLDER THREADS   serves FOLDER/model.onnx with in0.npy ...
 *     dhow-bench-onnxruntime LIBRARY FOLDER           loads, runs once, ends
 *
 * PyPI's package holds the library but no header. Its interface is a table of functions that only
 * grows, so the few that are needed are named by their place.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve.h"

enum { MOST = 32, API_VERSION = 1, LOG_ERRORS = 3, ARENA = 1, DEFAULT_MEMORY = 0 };

/* X(place in the table, name, arguments); all return a status, NULL for success */
#define FUNCTIONS(X)                                                                              \
    X(3, create_env, (int level, const char *name, void **out))                                   \
    X(7, create_session, (void *env, const char *path, const void *options, void **out))          \
    X(9, run,                                                                                     \
      (void *session, const void *options, const char *const *names, const void *const *inputs,   \
       size_t input_count, const char *const *output_names, size_t output_count, void **outputs)) \
    X(10, create_options, (void **out))                                                           \
    X(24, set_threads, (void *options, int threads))                                              \
    X(30, input_count, (const void *session, size_t *out))                                        \
    X(31, output_count, (const void *session, size_t *out))                                       \
    X(36, input_name, (const void *session, size_t i, void *allocator, char **out))               \
    X(37, output_name, (const void *session, size_t i, void *allocator, char **out))              \
    X(49, tensor_of,                                                                              \
      (const void *memory, void *data, size_t bytes, const int64_t *shape, size_t rank, int type, \
       void **out))                                                                               \
    X(51, data_of, (void *value, void **out))                                                     \
    X(60, type_of, (const void *info, int *out))                                                  \
    X(64, count_of, (const void *info, size_t *out))                                              \
    X(65, info_of, (const void *value, void **out))                                               \
    X(69, cpu_memory, (int allocator, int kind, void **out))                                      \
    X(78, allocator, (void **out))

#define MEMBER(place, name, arguments) void *(*name)arguments;
static struct {
    FUNCTIONS(MEMBER)
    const char *(*message)(const void *status);
    const char *(*version)(void);
    void (*release_value)(void *value);
} api;

typedef struct api_base {
    const void *const *(*get)(uint32_t version);
    const char *(*version)(void);
} api_base;

static void check(void *status, const char *what) {
    if (status != NULL) serve_fail(what, api.message(status));
}
#define OK(call) check(api.call, #call)

static void open_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) serve_fail(path, dlerror());
    const api_base *(*get)(void);
    void *symbol = dlsym(library, "OrtGetApiBase");
    if (symbol == NULL) serve_fail(path, "it has no OrtGetApiBase");
    memcpy(&get, &symbol, sizeof symbol);
    api.version = get()->version;
    const void *const *table = get()->get(API_VERSION);
    if (table == NULL) serve_fail(path, "it does not know version 1 of its interface");
#define TAKE(place, name, arguments) memcpy(&api.name, &table[place], sizeof api.name);
    FUNCTIONS(TAKE)
    memcpy(&api.message, &table[2], sizeof api.message);
    memcpy(&api.release_value, &table[96], sizeof api.release_value);
}

typedef struct session {
    void *session, *inputs[MOST], *outputs[MOST];
    char *input_names[MOST], *output_names[MOST];
    size_t input_count, output_count;
    int shared[MOST]; /* an output that is an input, a cache */
} session;

static int type_of(const char *text) {
    static const struct {
        const char *text;
        int type;
    } names[] = {{"f4", 1}, {"u1", 2}, {"i1", 3},  {"i4", 6},
                 {"i8", 7}, {"b1", 9}, {"f2", 10}, {"f8", 11}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].text, text) == 0) return names[i].type;
    }
    serve_fail("input of type", text);
}

static void run(void *data) {
    session *s = data;
    for (size_t i = 0; i < s->output_count; i++) {
        if (s->shared[i]) continue;
        if (s->outputs[i] != NULL) api.release_value(s->outputs[i]);
        s->outputs[i] = NULL;
    }
    OK(run(s->session, NULL, (const char *const *)s->input_names, (const void *const *)s->inputs,
           s->input_count, (const char *const *)s->output_names, s->output_count, s->outputs));
}

static const void *output(void *data, uint32_t i, size_t *bytes) {
    session *s = data;
    void *info, *values;
    int type;
    if (i >= s->output_count) return NULL;
    OK(info_of(s->outputs[i], &info));
    OK(type_of(info, &type));
    OK(count_of(info, bytes));
    OK(data_of(s->outputs[i], &values));
    *bytes = type == 1 ? *bytes * 4 : 0;
    return values;
}

static void open_session(const char *folder, const char *threads, session *s) {
    void *env, *options, *allocator, *memory;
    char path[512];
    serve_input in;
    serve_path(folder, path, sizeof path);
    OK(create_env(LOG_ERRORS, "bench", &env));
    OK(create_options(&options));
    if (threads != NULL) OK(set_threads(options, (int)strtol(threads, NULL, 10)));
    OK(create_session(env, path, options, &s->session));
    OK(allocator(&allocator));
    OK(cpu_memory(ARENA, DEFAULT_MEMORY, &memory));
    OK(input_count(s->session, &s->input_count));
    OK(output_count(s->session, &s->output_count));
    if (s->input_count > MOST || s->output_count > MOST)
        serve_fail(path, "it has too many inputs or outputs");
    for (size_t i = 0; i < s->input_count; i++) {
        OK(input_name(s->session, i, allocator, &s->input_names[i]));
        if (!serve_read(folder, (uint32_t)i, &in)) serve_fail(path, "an input is missing");
        OK(tensor_of(memory, in.data, in.bytes, in.shape, (size_t)in.rank, type_of(in.dtype),
                     &s->inputs[i]));
    }
    for (size_t i = 0; i < s->output_count; i++) {
        OK(output_name(s->session, i, allocator, &s->output_names[i]));
        for (size_t k = 0; k < s->input_count; k++) {
            if (!serve_is_one_memory(s->input_names[k], s->output_names[i])) continue;
            s->shared[i] = 1;
            s->outputs[i] = s->inputs[k];
        }
    }
}

int main(int argc, char **argv) {
    session s = {0};
    if (argc != 3 && argc != 4) serve_fail(argv[0], "LIBRARY FOLDER [THREADS]");
    open_library(argv[1]);
    open_session(argv[2], argc > 3 ? argv[3] : NULL, &s);
    run(&s);
    if (argc == 3) return 0;
    const serve_work work = {run, output, &s, api.version()};
    return serve(&work);
}
