/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of texts: computed on the host while the plan is made.
 */
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
