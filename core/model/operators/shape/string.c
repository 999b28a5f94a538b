/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of texts: computed on the host while the plan is made.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/operators/shape/shape.h"

/* ---- letters: Latin, Greek and Cyrillic; others are left as they are ---- */

/* One character of UTF-8; bytes that are none stand for themselves, with *length 0. */
static uint32_t read_letter(const char *text, size_t *length) {
    const unsigned char *p = (const unsigned char *)text;
    *length = 0;
    if (p[0] < 0x80) return *length = 1, p[0];
    if (p[0] < 0xc2 || p[0] > 0xdf || (p[1] & 0xc0) != 0x80) return 0;
    *length = 2;
    return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
}

static uint32_t lower_letter(uint32_t c) {
    if (c >= 'A' && c <= 'Z') return c + 32;
    if (c >= 0xc0 && c <= 0xde && c != 0xd7) return c + 32;   /* Latin-1 */
    if (c >= 0x100 && c <= 0x137 && c != 0x130) return c | 1; /* Latin Extended-A */
    if (c >= 0x139 && c <= 0x148) return c + (c & 1);
    if (c >= 0x14a && c <= 0x177) return c | 1;
    if (c >= 0x391 && c <= 0x3a9 && c != 0x3a2) return c + 32; /* Greek */
    if (c >= 0x410 && c <= 0x42f) return c + 32;               /* Cyrillic */
    if (c >= 0x400 && c <= 0x40f) return c + 80;
    return c;
}

static uint32_t upper_letter(uint32_t c) {
    if (c >= 'a' && c <= 'z') return c - 32;
    if (c >= 0xe0 && c <= 0xfe && c != 0xf7) return c - 32;
    if (c >= 0x100 && c <= 0x137 && c != 0x131) return c & ~UINT32_C(1);
    if (c >= 0x13a && c <= 0x148) return c - ((c & 1) == 0);
    if (c >= 0x14a && c <= 0x177) return c & ~UINT32_C(1);
    if (c >= 0x3b1 && c <= 0x3c9 && c != 0x3c2) return c - 32;
    if (c >= 0x430 && c <= 0x44f) return c - 32;
    if (c >= 0x450 && c <= 0x45f) return c - 80;
    return c;
}

enum { KEEP, LOWER, UPPER };

/* Both cases of a letter take as many bytes here, so the length stays. */
static void change_case(char *text, int to) {
    while (*text != '\0' && to != KEEP) {
        size_t length;
        uint32_t c = read_letter(text, &length);
        if (length == 0) {
            text++;
            continue;
        }
        c = to == LOWER ? lower_letter(c) : upper_letter(c);
        if (length == 1) {
            text[0] = (char)c;
        } else {
            text[0] = (char)(0xc0 | c >> 6);
            text[1] = (char)(0x80 | (c & 0x3f));
        }
        text += length;
    }
}

/* ---- StringNormalizer: without stop words, in one case ---- */

static bool letters_equal(const char *text, dhowi_slice word, bool exact) {
    size_t at = 0;
    while (text[at] != '\0' && at < word.length) {
        char pair[2][3] = {{text[at], text[at + 1], 0}, {word.data[at], 0, 0}};
        size_t length, other;
        if (at + 1 < word.length) pair[1][1] = word.data[at + 1];
        uint32_t p = read_letter(pair[0], &length), q = read_letter(pair[1], &other);
        if (length != other) return false;
        if (length == 0 && text[at] != word.data[at]) return false;
        if (length > 0 && (exact ? p != q : lower_letter(p) != lower_letter(q))) return false;
        at += DHOWI_MAX(length, (size_t)1);
    }
    return text[at] == '\0' && at == word.length;
}

static bool is_stopword(const dhowi_onnx_attribute *words, const char *text, bool exact) {
    for (uint32_t i = 0; words != NULL && i < words->string_count; i++) {
        if (letters_equal(text, words->strings[i], exact)) return true;
    }
    return false;
}

static dhow_status case_of(const dhowi_lowering *b, int *to) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, "case_change_action", DHOWI_ATTRIBUTE_STRING);
    *to = KEEP;
    if (a == NULL || dhowi_slice_is(a->s, "NONE")) return DHOW_OK;
    *to = dhowi_slice_is(a->s, "LOWER") ? LOWER : UPPER;
    if (*to == LOWER || dhowi_slice_is(a->s, "UPPER")) return DHOW_OK;
    DHOWI_REFUSE("case_change_action '%.*s'", (int)DHOWI_MIN(a->s.length, (size_t)32), a->s.data);
}

/* The texts that stay, copied; *kept of them. */
static dhow_status keep_texts(const dhowi_lowering *b, const dhow_datum *x, int to, char **texts,
                              int64_t *kept) {
    bool exact;
    DHOWI_TRY(dhowi_attr_flag(b, "is_case_sensitive", false, &exact));
    const dhowi_onnx_attribute *words = dhowi_attr(b, "stopwords", DHOWI_ATTRIBUTE_STRINGS);
    for (int64_t i = 0; i < x->count; i++) {
        if (is_stopword(words, x->texts[i], exact)) continue;
        texts[*kept] = dhowi_strdup(x->texts[i]);
        if (texts[*kept] == NULL) return dhowi_fail_memory("plan");
        change_case(texts[(*kept)++], to);
    }
    return DHOW_OK;
}

dhow_status dhowi_lower_string_normalizer(dhowi_lowering *b) {
    const dhow_datum *x = b->items[b->in[0]].texts;
    dhow_datum *y = NULL;
    int64_t kept = 0;
    int to;
    if (dhowi_kind_of(b, b->in[0]) != DHOW_DATUM_TEXTS) DHOWI_REFUSE("its input is no text");
    if (x->rank < 1 || x->rank > 2 || (x->rank == 2 && x->shape[0] != 1))
        DHOWI_REFUSE("it takes texts of shape [c] or [1, c]");
    DHOWI_TRY(case_of(b, &to));
    char **texts = dhowi_alloc_array((size_t)x->count + 1, sizeof *texts);
    if (texts == NULL) return dhowi_fail_memory("plan");
    dhow_status status = keep_texts(b, x, to, texts, &kept);
    const int64_t count = DHOWI_MAX(kept, (int64_t)1), shape[] = {1, count};
    static const char *const empty[] = {""};
    if (status == DHOW_OK)
        status = dhow_datum_of_texts(x->rank, shape + (2 - x->rank),
                                     kept > 0 ? (const char *const *)texts : empty, &y);
    if (status == DHOW_OK) status = dhowi_texts(b, y, &b->out[0]);
    dhow_datum_release(y);
    for (int64_t i = 0; i < kept; i++) dhowi_free(texts[i]);
    dhowi_free(texts);
    return status;
}

/* ---- results ---- */

/* Gives texts, which are the caller's. */
static dhow_status give_texts(dhowi_lowering *b, int32_t rank, const int64_t *shape,
                              const char *const *texts, int32_t *out) {
    dhow_datum *y = NULL;
    dhow_status status = dhow_datum_of_texts(rank, shape, texts, &y);
    if (status == DHOW_OK) status = dhowi_texts(b, y, out);
    dhow_datum_release(y);
    return status;
}

static void free_texts(char **texts, int64_t count) {
    for (int64_t i = 0; texts != NULL && i < count; i++) dhowi_free(texts[i]);
    dhowi_free(texts);
}

/* Pointers that are NULL at first. */
static dhow_status text_room(const dhowi_lowering *b, int64_t count, char ***out) {
    DHOWI_TRY(dhowi_host_room(b, count, sizeof **out));
    *out = dhowi_alloc_array((size_t)count + 1, sizeof **out);
    if (*out == NULL) return dhowi_fail_memory("plan");
    memset(*out, 0, ((size_t)count + 1) * sizeof **out);
    return DHOW_OK;
}

/* Two pieces as one text, within what a file may ask for. */
static dhow_status join(dhowi_lowering *b, const char *p, size_t p_length, const char *q,
                        size_t q_length, char **out) {
    DHOWI_TRY(dhowi_fix(b, (uint64_t)p_length + q_length + 1));
    *out = dhowi_alloc(p_length + q_length + 1);
    if (*out == NULL) return dhowi_fail_memory("plan");
    if (p_length > 0) memcpy(*out, p, p_length); /* an empty text of a file may be nowhere */
    if (q_length > 0) memcpy(*out + p_length, q, q_length);
    (*out)[p_length + q_length] = '\0';
    return DHOW_OK;
}

/* ---- texts of files ---- */

dhow_status dhowi_texts_of(dhowi_lowering *b, const dhowi_tensor_desc *shape,
                           const dhowi_slice *const *from, int32_t *out) {
    const int64_t count = dhowi_count_of(shape);
    char **texts;
    DHOWI_TRY(text_room(b, count, &texts));
    dhow_status status = DHOW_OK;
    for (int64_t i = 0; i < count && status == DHOW_OK; i++)
        status = join(b, from[i]->data, from[i]->length, "", 0, &texts[i]);
    if (status == DHOW_OK)
        status = give_texts(b, shape->rank, shape->shape, (const char *const *)texts, out);
    free_texts(texts, count);
    return status;
}

dhow_status dhowi_texts_of_tensor(dhowi_lowering *b, const dhowi_onnx_tensor *t, int32_t *out) {
    dhowi_tensor_desc shape = {.rank = t->rank};
    int64_t count = 1;
    if (t->rank > DHOW_MAX_RANK) DHOWI_REFUSE("texts of %d dimensions", t->rank);
    for (int32_t i = 0; i < t->rank; i++) {
        shape.shape[i] = t->shape[i];
        if (t->shape[i] < 0 || !dhowi_mul_i64(count, t->shape[i], &count))
            DHOWI_REFUSE("extent %" PRId64 " of texts", t->shape[i]);
    }
    if ((uint64_t)count > t->message.length)
        DHOWI_REFUSE("%" PRId64 " texts, which it has not", count);
    dhowi_slice *slices = dhowi_alloc_array((size_t)count + 1, sizeof *slices);
    const dhowi_slice **texts = dhowi_alloc_array((size_t)count + 1, sizeof *texts);
    dhow_status status = slices != NULL && texts != NULL ? DHOW_OK : dhowi_fail_memory("plan");
    if (status == DHOW_OK) status = dhowi_onnx_tensor_texts(t, count, slices);
    for (int64_t i = 0; i < count && status == DHOW_OK; i++) texts[i] = &slices[i];
    if (status == DHOW_OK) status = dhowi_texts_of(b, &shape, texts, out);
    dhowi_free(texts);
    dhowi_free(slices);
    return status;
}

/* ---- Concat of texts ---- */

static dhow_status add_extents(const dhowi_lowering *b, int32_t axis, dhowi_tensor_desc *shape) {
    shape->shape[axis] = 0;
    for (uint32_t i = 0; i < b->in_count; i++) {
        const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[i]);
        if (dhowi_kind_of(b, b->in[i]) != DHOW_DATUM_TEXTS || x->rank != shape->rank)
            DHOWI_REFUSE("input %u is no texts of %d dimensions, as the first is", i, shape->rank);
        for (int32_t k = 0; k < x->rank; k++)
            if (k != axis && x->shape[k] != shape->shape[k])
                DHOWI_REFUSE("input %u has other extents", i);
        shape->shape[axis] += x->shape[axis];
    }
    return DHOW_OK;
}

dhow_status dhowi_concat_texts(dhowi_lowering *b, int32_t axis) {
    dhowi_tensor_desc shape = *dhowi_desc_at(b, b->in[0]);
    char **texts;
    int64_t at = 0;
    DHOWI_TRY(add_extents(b, axis, &shape));
    const int64_t count = dhowi_count_of(&shape), outer = dhowi_extent(&shape, 0, axis);
    DHOWI_TRY(text_room(b, count, &texts));
    for (int64_t o = 0; o < outer; o++) {
        for (uint32_t i = 0; i < b->in_count; i++) {
            const dhow_datum *x = b->items[b->in[i]].texts;
            const int64_t each = x->count / outer;
            for (int64_t k = 0; k < each; k++) texts[at++] = x->texts[o * each + k];
        }
    }
    const dhow_status status =
        give_texts(b, shape.rank, shape.shape, (const char *const *)texts, &b->out[0]);
    dhowi_free(texts); /* they are the inputs' */
    return status;
}

/* ---- StringConcat ---- */

dhow_status dhowi_lower_string_concat(dhowi_lowering *b) {
    dhowi_text_pairs pairs;
    char **texts;
    DHOWI_TRY(dhowi_pair_texts(b, &pairs));
    DHOWI_TRY(text_room(b, pairs.count, &texts));
    dhow_status status = DHOW_OK;
    for (int64_t i = 0; i < pairs.count && status == DHOW_OK; i++) {
        const char *p = dhowi_paired_text(&pairs, 0, i), *q = dhowi_paired_text(&pairs, 1, i);
        status = join(b, p, strlen(p), q, strlen(q), &texts[i]);
    }
    if (status == DHOW_OK)
        status = give_texts(b, pairs.rank, pairs.shape, (const char *const *)texts, &b->out[0]);
    free_texts(texts, pairs.count);
    return status;
}

/* ---- StringSplit ---- */

static const char k_spaces[] = " \t\n\v\f\r";

typedef struct splitter {
    const char *at, *delimiter; /* "": any white space */
    int64_t left;               /* cuts */
    bool done;
} splitter;

/* A text without letters has no parts, as in ONNX Runtime. */
static bool next_part(splitter *s, const char **begin, size_t *length) {
    const size_t width = strlen(s->delimiter);
    if (width == 0) s->at += strspn(s->at, k_spaces);
    if (s->done || (width == 0 && *s->at == '\0')) return false;
    const char *end = s->left == 0 ? NULL
                      : width == 0 ? s->at + strcspn(s->at, k_spaces)
                                   : strstr(s->at, s->delimiter);
    s->done = end == NULL;
    *begin = s->at;
    *length = s->done ? strlen(s->at) : (size_t)(end - s->at);
    while (width == 0 && strchr(k_spaces, s->at[*length - 1]) != NULL) --*length;
    s->at += *length + (s->done ? 0 : width);
    s->left--;
    return true;
}

static dhow_status split_all(dhowi_lowering *b, const dhow_datum *x, const splitter *by,
                             int64_t most, char **texts) {
    for (int64_t i = 0; i < x->count; i++) {
        splitter s = *by;
        const char *begin;
        size_t length;
        int64_t k = 0;
        s.at = x->texts[i];
        s.done = *s.at == '\0';
        while (next_part(&s, &begin, &length))
            DHOWI_TRY(join(b, begin, length, "", 0, &texts[i * most + k++]));
        for (; k < most; k++) DHOWI_TRY(join(b, "", 0, "", 0, &texts[i * most + k]));
    }
    return DHOW_OK;
}

static int64_t count_parts(const dhow_datum *x, const splitter *by, int64_t *counts) {
    int64_t most = 0;
    for (int64_t i = 0; i < x->count; i++) {
        splitter s = *by;
        const char *begin;
        size_t length;
        s.at = x->texts[i];
        s.done = *s.at == '\0';
        for (counts[i] = 0; next_part(&s, &begin, &length);) counts[i]++;
        most = DHOWI_MAX(most, counts[i]);
    }
    return most;
}

static dhow_status split_by(dhowi_lowering *b, const dhow_datum *x, const splitter *by,
                            int64_t *counts) {
    const int64_t most = count_parts(x, by, counts);
    int64_t shape[DHOW_MAX_RANK], cells;
    char **texts;
    if (x->rank > 0) memcpy(shape, x->shape, (size_t)x->rank * sizeof *shape);
    shape[x->rank] = most;
    if (!dhowi_mul_i64(x->count, most, &cells)) DHOWI_REFUSE("too many texts");
    DHOWI_TRY(text_room(b, cells, &texts));
    dhow_status status = split_all(b, x, by, most, texts);
    if (status == DHOW_OK)
        status = give_texts(b, x->rank + 1, shape, (const char *const *)texts, &b->out[0]);
    free_texts(texts, cells);
    if (status != DHOW_OK) return status;
    return dhowi_constant(b, DHOW_I64, x->rank, x->shape, counts, &b->out[1]);
}

dhow_status dhowi_lower_string_split(dhowi_lowering *b) {
    const dhowi_onnx_attribute *given = dhowi_attr(b, "delimiter", DHOWI_ATTRIBUTE_STRING);
    splitter by = {.left = dhowi_attr_int(b, "maxsplit", INT64_MAX)};
    const dhow_datum *x = b->items[b->in[0]].texts;
    char *delimiter;
    if (dhowi_kind_of(b, b->in[0]) != DHOW_DATUM_TEXTS) DHOWI_REFUSE("its input is no text");
    if (x->rank == DHOW_MAX_RANK) DHOWI_REFUSE("texts of %d dimensions", x->rank);
    if (by.left < 0) DHOWI_REFUSE("maxsplit is %" PRId64, by.left);
    DHOWI_TRY(dhowi_host_room(b, x->count, sizeof(int64_t)));
    int64_t *counts = dhowi_alloc_array((size_t)x->count + 1, sizeof *counts);
    if (counts == NULL) return dhowi_fail_memory("plan");
    dhow_status status = join(b, given != NULL ? given->s.data : "",
                              given != NULL ? given->s.length : 0, "", 0, &delimiter);
    if (status == DHOW_OK) {
        by.delimiter = delimiter;
        status = split_by(b, x, &by, counts);
        dhowi_free(delimiter);
    }
    dhowi_free(counts);
    return status;
}
