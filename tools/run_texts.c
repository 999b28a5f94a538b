/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of dhow-run: files with a text in each line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

enum { SHOWN = 8 }; /* texts of a result */

/* All lines of a file, which end in it. */
static bool read_lines(const char *path, char **out, int64_t *count) {
    FILE *file = fopen(path, "rb");
    size_t length = 0, room = 1 << 16;
    char *text = malloc(room + 1);
    bool good = file != NULL || run_fail("cannot open %s", path);
    while (good && text != NULL && !feof(file)) {
        if (length == room) {
            char *more = realloc(text, 2 * room + 1);
            if (more == NULL) break;
            text = more;
            room *= 2;
        }
        length += fread(text + length, 1, room - length, file);
        if (ferror(file)) good = run_fail("cannot read %s", path);
    }
    if (good && (text == NULL || !feof(file))) good = run_fail("no memory for %s", path);
    if (file != NULL) (void)fclose(file);
    if (good && memchr(text, '\0', length) != NULL)
        good = run_fail("%s is no file of texts: it has a character 0", path);
    *count = 0;
    for (size_t i = 0; good && i < length; i++) {
        if (text[i] != '\n' && i + 1 < length) continue;
        ++*count;
        if (text[i] != '\n') i++;
        text[i] = '\0';
    }
    if (good) *out = text;
    if (!good) free(text);
    return good;
}

bool run_load_texts(const dhow_model_value_info *info, const char *path, dhow_datum **out) {
    int64_t count;
    char *text;
    if (!read_lines(path, &text, &count)) return run_fail_prefix("input ", info->name);
    const char **lines = malloc((size_t)(count + 1) * sizeof *lines);
    const char *at = text;
    for (int64_t i = 0; lines != NULL && i < count; i++, at += strlen(at) + 1) lines[i] = at;
    const int32_t rank = info->rank < 0 ? 1 : info->rank;
    int64_t shape[DHOW_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) shape[i] = i == 0 ? count : 1; /* a column of texts */
    bool good = lines != NULL || run_fail("no memory for %s", path);
    if (good && rank == 0 && count != 1)
        good = run_fail("input '%s' is one text, %s has %lld lines", info->name, path,
                        (long long)count);
    if (good) good = dhow_datum_of_texts(rank, shape, lines, out) == DHOW_OK || run_fail_last();
    free((void *)lines);
    free(text);
    return good;
}

bool run_show_texts(const dhow_datum *datum, const dhow_datum_info *info, json_t *to) {
    json_t *shape = json_array(), *texts = json_array();
    for (int32_t i = 0; i < info->rank; i++)
        (void)json_array_append_new(shape, json_integer(info->shape[i]));
    for (int64_t i = 0; i < info->count && i < SHOWN; i++) {
        const char *text = NULL;
        if (dhow_datum_text(datum, i, &text) != DHOW_OK) return run_fail_last();
        json_t *one = json_string(text);
        (void)json_array_append_new(texts, one != NULL ? one : json_string("(no UTF-8)"));
    }
    (void)json_object_set_new(to, "kind", json_string("texts"));
    (void)json_object_set_new(to, "shape", shape);
    (void)json_object_set_new(to, "texts", texts);
    return true;
}

bool run_compare_texts(const dhow_datum *a, const dhow_datum *b, json_t *to) {
    dhow_datum_info p = DHOW_INIT(dhow_datum_info), q = DHOW_INIT(dhow_datum_info);
    int64_t different = 0;
    if (dhow_datum_get_info(a, &p) != DHOW_OK || dhow_datum_get_info(b, &q) != DHOW_OK)
        return run_fail_last();
    if (p.count != q.count) return run_fail("the results have different shapes");
    for (int64_t i = 0; i < p.count; i++) {
        const char *one = NULL, *other = NULL;
        if (dhow_datum_text(a, i, &one) != DHOW_OK || dhow_datum_text(b, i, &other) != DHOW_OK)
            return run_fail_last();
        different += strcmp(one, other) != 0;
    }
    (void)json_object_set_new(to, "different_texts", json_integer(different));
    return true;
}

bool run_save_texts(const dhow_datum *datum, const dhow_datum_info *info, const char *path) {
    FILE *file = fopen(path, "wb");
    if (file == NULL) return run_fail("cannot write %s", path);
    bool good = true;
    for (int64_t i = 0; i < info->count && good; i++) {
        const char *text = NULL;
        good = dhow_datum_text(datum, i, &text) == DHOW_OK || run_fail_last();
        if (good && (fputs(text, file) < 0 || fputc('\n', file) < 0))
            good = run_fail("cannot write %s", path);
    }
    return (fclose(file) == 0 || run_fail("cannot write %s", path)) && good;
}
