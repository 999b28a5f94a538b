/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a training: a file of CSV or of JSON lines, and a line on stderr that follows it.
 */
#include "train/log/log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/text/text.h"
#include "base/threads/clock.h"

static const char k_columns[] =
    "step,epoch,samples,seconds,samples_per_second,loss,learning_rate,gradient_norm,memory_bytes\n";
static const double k_seconds_a_line = 0.1, k_seconds_a_printed_line = 1; /* of the progress */

struct dhowi_training_log {
    dhow_trainer_log options; /* path: `name` */
    dhowi_log *messages;
    char *name;
    FILE *file; /* NULL: none */
    bool json, terminal, progress, shown_any;
    int error; /* errno of the first row that was lost */
    double began, row_at, shown_at;
    int64_t samples, pending; /* of all steps, and since the last row */
    uint64_t since;           /* steps */
    dhowi_curve curve;
};

/* ---- opening and closing ---- */

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

/* A file that is there goes on, if it is a log. */
static dhow_status begin_file(dhowi_training_log *l, const char *function) {
    char first[sizeof k_columns] = "";
    l->file = fopen(l->name, "a+e");
    if (l->file == NULL)
        return dhowi_fail(errno == ENOENT ? DHOW_NOT_FOUND : DHOW_IO_ERROR, "%s: %s: %s", function,
                          l->name, strerror(errno));
    rewind(l->file);
    const size_t length = fread(first, 1, sizeof first - 1, l->file);
    if (ferror(l->file))
        return dhowi_fail(DHOW_IO_ERROR, "%s: %s: %s", function, l->name, strerror(errno));
    if (length > 0 && (l->json ? first[0] != '{' : strcmp(first, k_columns) != 0))
        return dhowi_fail(DHOW_CORRUPT,
                          "%s: %s holds something else than the log of a trainer; choose another "
                          "file",
                          function, l->name);
    (void)fseek(l->file, 0, SEEK_END);
    if (length == 0 && !l->json && (fputs(k_columns, l->file) < 0 || fflush(l->file) != 0))
        return dhowi_fail(DHOW_IO_ERROR, "%s: %s: %s", function, l->name, strerror(errno));
    return DHOW_OK;
}

static dhow_status take_options(dhowi_training_log *l, const char *function) {
    const dhow_trainer_log *o = &l->options;
    if ((int)o->progress < DHOW_PROGRESS_TERMINAL || (int)o->progress > DHOW_PROGRESS_NEVER)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: progress is %d, none of DHOW_PROGRESS_...",
                          function, (int)o->progress);
    l->terminal = isatty(STDERR_FILENO) == 1;
    l->progress = o->progress == DHOW_PROGRESS_ALWAYS ||
                  (o->progress == DHOW_PROGRESS_TERMINAL && l->terminal);
    if (l->options.every == 0) l->options.every = 1;
    if (o->path == NULL) return DHOW_OK;
    l->json = ends_with(o->path, ".jsonl");
    if (!l->json && !ends_with(o->path, ".csv"))
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: the path '%s' ends in neither .csv nor .jsonl", function, o->path);
    l->name = dhowi_strdup(o->path);
    if (l->name == NULL) return dhowi_fail_memory(function);
    return begin_file(l, function);
}

dhow_status dhowi_training_log_open(const dhow_trainer_log *options, const char *function,
                                    dhowi_log *messages, dhowi_training_log **out) {
    dhowi_training_log *l = dhowi_alloc(sizeof *l);
    if (l == NULL) return dhowi_fail_memory(function);
    l->options = *options;
    l->messages = messages;
    l->began = l->row_at = dhowi_seconds();
    dhow_status status = take_options(l, function);
    l->options.path = NULL; /* the caller's */
    if (status == DHOW_OK) {
        *out = l;
        return DHOW_OK;
    }
    if (l->file != NULL) (void)fclose(l->file);
    dhowi_free(l->name);
    dhowi_free(l);
    return status;
}

dhow_status dhowi_training_log_close(dhowi_training_log *l) {
    if (l == NULL) return DHOW_OK;
    if (l->shown_any && l->terminal) (void)fputc('\n', stderr);
    if (l->file != NULL && fclose(l->file) != 0 && l->error == 0) l->error = errno;
    dhow_status status = DHOW_OK;
    if (l->error != 0)
        status = dhowi_fail(DHOW_IO_ERROR, "%s: rows are missing: %s", l->name, strerror(l->error));
    dhowi_free(l->name);
    dhowi_free(l);
    return status;
}

const dhowi_curve *dhowi_training_log_curve(const dhowi_training_log *l) { return &l->curve; }

/* ---- rows ---- */

static void put_number(char *text, size_t capacity, double value, bool json) {
    if (isfinite(value))
        snprintf(text, capacity, "%.9g", value);
    else
        snprintf(text, capacity, "%s",
                 json           ? "null"
                 : isnan(value) ? "nan"
                 : value > 0    ? "inf"
                                : "-inf");
}

static int write_row(const dhowi_training_log *l, const dhowi_training_row *r, double seconds,
                     double rate) {
    char loss[32], norm[32] = "", epoch[24] = "";
    put_number(loss, sizeof loss, r->loss, l->json);
    if (l->options.gradient_norm != 0 || l->json)
        put_number(norm, sizeof norm, r->gradient_norm, l->json);
    if (r->epoch >= 0)
        snprintf(epoch, sizeof epoch, "%" PRId64, r->epoch);
    else if (l->json)
        snprintf(epoch, sizeof epoch, "null");
    return fprintf(l->file,
                   l->json ? "{\"step\": %" PRIu64 ", \"epoch\": %s, \"samples\": %" PRId64
                             ", \"seconds\": %.3f, \"samples_per_second\": %.6g, \"loss\": %s, "
                             "\"learning_rate\": %.9g, \"gradient_norm\": %s, \"memory_bytes\": "
                             "%" PRIu64 "}\n"
                           : "%" PRIu64 ",%s,%" PRId64 ",%.3f,%.6g,%s,%.9g,%s,%" PRIu64 "\n",
                   r->step, epoch, l->samples, seconds, rate, loss, r->learning_rate, norm,
                   r->memory_bytes);
}

static void put_row(dhowi_training_log *l, const dhowi_training_row *r, double seconds,
                    double rate) {
    if (l->file == NULL || l->error != 0) return;
    errno = 0;
    if (write_row(l, r, seconds, rate) >= 0 && fflush(l->file) == 0) return;
    l->error = errno != 0 ? errno : EIO;
    dhowi_log_line(l->messages, DHOW_LOG_WARN, "%s: %s; the training goes on without its log",
                   l->name, strerror(l->error));
}

static void add_bar(dhowi_text *text, uint64_t step, uint64_t total) {
    enum { WIDTH = 20 };
    static const char full[] = "####################", none[] = "--------------------";
    const int done = step < total ? (int)(step * WIDTH / total) : WIDTH;
    dhowi_text_add(text, "[%.*s%.*s] ", done, full, WIDTH - done, none);
}

static void show(dhowi_training_log *l, const dhowi_training_row *r, double now, double rate) {
    char line[256];
    dhowi_text text = DHOWI_TEXT(line);
    const uint64_t total = l->options.total_steps;
    const bool last = r->step == total;
    if (!l->progress) return;
    if (!last && l->shown_any &&
        now - l->shown_at < (l->terminal ? k_seconds_a_line : k_seconds_a_printed_line))
        return;
    if (total > 0) add_bar(&text, r->step, total);
    dhowi_text_add(&text, "step %" PRIu64, r->step);
    if (total > 0) dhowi_text_add(&text, " of %" PRIu64, total);
    if (r->epoch >= 0) dhowi_text_add(&text, "  epoch %" PRId64, r->epoch);
    dhowi_text_add(&text, "  loss %.4g  rate %.3g  %.*f samples/s", r->loss, r->learning_rate,
                   rate < 100 ? 1 : 0, rate);
    if (total > r->step && now > l->began)
        dhowi_text_add(&text, "  %.0f s left",
                       (now - l->began) * (double)(total - r->step) / (double)r->step);
    (void)fprintf(stderr, l->terminal ? "\r%s\x1b[K" : "%s\n", line);
    l->shown_any = true;
    l->shown_at = now;
}

bool dhowi_training_log_wants(dhowi_training_log *l, int64_t samples, bool *norm) {
    l->pending += samples;
    *norm = l->options.gradient_norm != 0;
    return ++l->since >= l->options.every;
}

void dhowi_training_log_row(dhowi_training_log *l, const dhowi_training_row *row) {
    const double now = dhowi_seconds();
    const double rate = now > l->row_at ? (double)l->pending / (now - l->row_at) : 0;
    l->samples += l->pending;
    put_row(l, row, now - l->began, rate);
    show(l, row, now, rate);
    dhowi_curve_add(&l->curve, (double)row->step, row->loss);
    l->pending = 0;
    l->since = 0;
    l->row_at = now;
}
