/* SPDX-License-Identifier: Apache-2.0
 *
 * RegexFullMatch and TfIdfVectorizer, of ONNX's own domain, and Tokenizer: what the host makes of
 * texts, and of integers that stand for them.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "base/memory/size.h"
#include "model/operators/ml/ml.h"
#include "model/operators/ml/pattern.h"
#include "model/operators/shape/shape.h"

/* ---- RegexFullMatch ---- */

dhow_status dhowi_lower_regex_full_match(dhowi_lowering *b) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, "pattern", DHOWI_ATTRIBUTE_STRING);
    dhowi_pattern pattern;
    if (dhowi_kind_of(b, b->in[0]) != DHOW_DATUM_TEXTS) DHOWI_REFUSE("its input is no text");
    const dhow_datum *x = b->items[b->in[0]].texts;
    DHOWI_TRY(dhowi_host_room(b, x->count, sizeof(bool)));
    bool *fits = dhowi_alloc_array((size_t)x->count + 1, sizeof *fits);
    if (fits == NULL) return dhowi_fail_memory("plan");
    dhow_status status = dhowi_pattern_compile(a != NULL ? a->s : (dhowi_slice){"", 0}, &pattern);
    if (status == DHOW_OK) {
        for (int64_t i = 0; i < x->count; i++) fits[i] = dhowi_pattern_fits(&pattern, x->texts[i]);
        dhowi_pattern_end(&pattern);
        status = dhowi_constant(b, DHOW_BOOL, x->rank, x->shape, fits, &b->out[0]);
    }
    dhowi_free(fits);
    return status;
}

/* ---- Tokenizer, of com.microsoft: parts of texts ---- */

typedef struct cuts {
    dhowi_slice *parts; /* of all texts */
    uint32_t count, capacity;
    int64_t least; /* characters of a token */
} cuts;

static bool begins_letter(char c) { return ((unsigned char)c & 0xc0) != 0x80; }

static dhow_status add_part(cuts *c, const char *text, size_t length) {
    int64_t letters = 0;
    for (size_t i = 0; i < length; i++) letters += begins_letter(text[i]);
    if (letters < c->least) return DHOW_OK;
    if (!dhowi_room((void **)&c->parts, c->count, &c->capacity, sizeof *c->parts))
        return dhowi_fail_memory("plan");
    c->parts[c->count++] = (dhowi_slice){text, length};
    return DHOW_OK;
}

static dhow_status add_letters(cuts *c, const char *text) {
    while (*text != '\0') {
        size_t length = 1;
        while (!begins_letter(text[length]) && text[length] != '\0') length++;
        DHOWI_TRY(add_part(c, text, length));
        text += length;
    }
    return DHOW_OK;
}

/* The parts that a pattern is, or, `between`, those between them. */
static dhow_status add_matches(cuts *c, const dhowi_pattern *p, const char *text, bool between) {
    size_t begin, length;
    for (bool first = true; dhowi_pattern_find(p, text, first, &begin, &length); first = false) {
        DHOWI_TRY(between ? add_part(c, text, begin) : add_part(c, text + begin, length));
        text += begin + length;
    }
    return between && *text != '\0' ? add_part(c, text, strlen(text)) : DHOW_OK;
}

static dhow_status cut_all(cuts *c, const dhow_datum *x, const dhowi_pattern *p, bool between,
                           uint32_t *ends) {
    for (int64_t i = 0; i < x->count; i++) {
        DHOWI_TRY(p == NULL ? add_letters(c, x->texts[i])
                            : add_matches(c, p, x->texts[i], between));
        ends[i] = c->count;
    }
    return DHOW_OK;
}

/* As many for each text as the longest has, with marks around them and others behind them. */
static dhow_status give_tokens(dhowi_lowering *b, const cuts *c, const dhow_datum *x,
                               const uint32_t *ends, bool mark, dhowi_slice pad) {
    static const dhowi_slice marks[] = {{"\x02", 1}, {"\x03", 1}};
    dhowi_tensor_desc shape = {.rank = x->rank + 1};
    int64_t most = 0, total;
    if (x->rank == DHOW_MAX_RANK) DHOWI_REFUSE("texts of %d dimensions", x->rank);
    for (int64_t i = 0; i < x->count; i++)
        most = DHOWI_MAX(most, (int64_t)ends[i] - (i > 0 ? (int64_t)ends[i - 1] : 0));
    most += mark ? 2 : 0;
    if (x->rank > 0) memcpy(shape.shape, x->shape, (size_t)x->rank * sizeof *x->shape);
    shape.shape[x->rank] = most;
    if (!dhowi_mul_i64(x->count, most, &total)) DHOWI_REFUSE("too many texts");
    DHOWI_TRY(dhowi_host_room(b, total, sizeof(dhowi_slice *)));
    const dhowi_slice **tokens = dhowi_alloc_array((size_t)total + 1, sizeof *tokens);
    if (tokens == NULL) return dhowi_fail_memory("plan");
    for (int64_t i = 0, at = 0; i < x->count; i++) {
        const int64_t end = (i + 1) * most;
        if (mark) tokens[at++] = &marks[0];
        for (uint32_t k = i > 0 ? ends[i - 1] : 0; k < ends[i]; k++) tokens[at++] = &c->parts[k];
        if (mark) tokens[at++] = &marks[1];
        while (at < end) tokens[at++] = &pad;
    }
    const dhow_status status = dhowi_texts_of(b, &shape, tokens, &b->out[0]);
    dhowi_free(tokens);
    return status;
}

static dhow_status tokenise(dhowi_lowering *b, const dhowi_pattern *p, bool between) {
    const dhow_datum *x = b->items[b->in[0]].texts;
    const dhowi_onnx_attribute *pad = dhowi_attr(b, "pad_value", DHOWI_ATTRIBUTE_STRING);
    cuts c = {.least = dhowi_attr_int(b, "mincharnum", 1)};
    bool mark;
    DHOWI_TRY(dhowi_attr_flag(b, "mark", false, &mark));
    DHOWI_TRY(dhowi_host_room(b, x->count, sizeof(uint32_t)));
    uint32_t *ends = dhowi_alloc_array((size_t)x->count + 1, sizeof *ends);
    if (ends == NULL) return dhowi_fail_memory("plan");
    dhow_status status = cut_all(&c, x, p, between, ends);
    if (status == DHOW_OK)
        status = give_tokens(b, &c, x, ends, mark, pad != NULL ? pad->s : (dhowi_slice){"", 0});
    dhowi_free(c.parts);
    dhowi_free(ends);
    return status;
}

dhow_status dhowi_lower_ms_tokenizer(dhowi_lowering *b) {
    const dhowi_onnx_attribute *all = dhowi_attr(b, "separators", DHOWI_ATTRIBUTE_STRINGS),
                               *tokens = dhowi_attr(b, "tokenexp", DHOWI_ATTRIBUTE_STRING);
    dhowi_pattern pattern;
    if (dhowi_kind_of(b, b->in[0]) != DHOW_DATUM_TEXTS) DHOWI_REFUSE("its input is no text");
    const uint32_t count = all != NULL ? all->string_count : 0;
    if ((count > 0) == (tokens != NULL)) DHOWI_REFUSE("it wants separators or tokenexp");
    if (count > 1) return dhowi_fail(DHOW_UNSUPPORTED, "unsupported separators: %u of them", count);
    if (count == 1 && all->strings[0].length == 0) return tokenise(b, NULL, false);
    DHOWI_TRY(dhowi_pattern_compile(count > 0 ? all->strings[0] : tokens->s, &pattern));
    const dhow_status status = tokenise(b, &pattern, count > 0);
    dhowi_pattern_end(&pattern);
    return status;
}

/* ---- TfIdfVectorizer: how often each n-gram of a pool is there ---- */

typedef struct grams {
    const dhowi_slice *texts; /* the pool: texts, or */
    const int64_t *numbers;
    const int64_t *begins, *columns; /* of the n-grams of each length; of each n-gram */
    const float *weights;            /* of columns, or NULL */
    uint32_t pool, lengths, count, weight_count;
    int64_t least, most, skips, width;
    bool counts, weighs;
    uint32_t *table; /* n-grams + 1 by hash, 0: none */
    uint32_t mask;
} grams;

/* The row's tokens: texts, or numbers. */
typedef struct tokens {
    char *const *texts;
    const int64_t *numbers;
    int64_t count;
} tokens;

static uint64_t mix(uint64_t hash, const void *data, size_t length) { /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return (hash ^ 0xff) * UINT64_C(0x100000001b3);
}

static uint64_t hash_of_pool(const grams *g, uint32_t at, int64_t n) {
    uint64_t hash = (uint64_t)n;
    for (int64_t i = 0; i < n; i++, at++)
        hash = g->texts != NULL ? mix(hash, g->texts[at].data, g->texts[at].length)
                                : mix(hash, &g->numbers[at], sizeof *g->numbers);
    return hash ^ hash >> 32;
}

static uint64_t hash_of_row(const grams *g, const tokens *t, int64_t at, int64_t step, int64_t n) {
    uint64_t hash = (uint64_t)n;
    for (int64_t i = 0; i < n; i++, at += step)
        hash = g->texts != NULL ? mix(hash, t->texts[at], strlen(t->texts[at]))
                                : mix(hash, &t->numbers[at], sizeof *t->numbers);
    return hash ^ hash >> 32;
}

/* n-gram i: its length, and its place in the pool. */
static void place_of(const grams *g, uint32_t i, int64_t *n, uint32_t *at) {
    int64_t before = 0;
    for (uint32_t k = 0;; k++) {
        const int64_t end = k + 1 < g->lengths ? g->begins[k + 1] : g->pool;
        const int64_t own = (end - g->begins[k]) / (k + 1);
        if ((int64_t)i < before + own) {
            *n = k + 1;
            *at = (uint32_t)(g->begins[k] + ((int64_t)i - before) * (k + 1));
            return;
        }
        before += own;
    }
}

static bool is_there(const grams *g, uint32_t i, const tokens *t, int64_t from, int64_t step,
                     int64_t n) {
    int64_t own;
    uint32_t at;
    place_of(g, i, &own, &at);
    if (own != n) return false;
    for (int64_t k = 0; k < n; k++, from += step) {
        if (g->texts != NULL ? !dhowi_slice_is(g->texts[at + k], t->texts[from])
                             : g->numbers[at + k] != t->numbers[from])
            return false;
    }
    return true;
}

static void count_gram(const grams *g, const tokens *t, int64_t from, int64_t step, int64_t n,
                       float *to) {
    uint32_t slot = (uint32_t)hash_of_row(g, t, from, step, n) & g->mask;
    for (; g->table[slot] != 0; slot = (slot + 1) & g->mask) {
        const uint32_t i = g->table[slot] - 1;
        if (!is_there(g, i, t, from, step, n)) continue;
        to[g->columns[i]] += 1;
        return;
    }
}

/* A token by itself has nothing to skip. */
static void count_row(const grams *g, const tokens *t, float *to) {
    for (int64_t step = 1; step <= g->skips + 1; step++) {
        for (int64_t n = step == 1 ? g->least : DHOWI_MAX(g->least, (int64_t)2); n <= g->most;
             n++) {
            if ((n - 1) > (t->count - 1) / step) continue;
            for (int64_t from = 0; from + (n - 1) * step < t->count; from++)
                count_gram(g, t, from, step, n, to);
        }
    }
    for (int64_t i = 0; i < g->width; i++) {
        const float weight = g->weighs && g->weights != NULL ? g->weights[i] : 1;
        to[i] = g->counts ? to[i] * weight : to[i] > 0 ? weight : 0;
    }
}

static dhow_status fill_table(grams *g) {
    g->mask = 1;
    while (g->mask < 2 * g->count) g->mask = 2 * g->mask + 1;
    g->table = dhowi_alloc_array((size_t)g->mask + 1, sizeof *g->table);
    if (g->table == NULL) return dhowi_fail_memory("plan");
    memset(g->table, 0, ((size_t)g->mask + 1) * sizeof *g->table);
    for (uint32_t i = 0; i < g->count; i++) {
        int64_t n;
        uint32_t at;
        place_of(g, i, &n, &at);
        uint32_t slot = (uint32_t)hash_of_pool(g, at, n) & g->mask;
        while (g->table[slot] != 0) slot = (slot + 1) & g->mask;
        g->table[slot] = i + 1;
    }
    return DHOW_OK;
}

static dhow_status check_pool(const grams *g) {
    int64_t count = 0;
    if (g->lengths == 0 || g->begins[0] != 0) DHOWI_REFUSE("ngram_counts does not begin with 0");
    for (uint32_t k = 0; k < g->lengths; k++) {
        const int64_t end = k + 1 < g->lengths ? g->begins[k + 1] : g->pool;
        if (end < g->begins[k] || end > g->pool || (end - g->begins[k]) % (k + 1) != 0)
            DHOWI_REFUSE("ngram_counts and the pool: %" PRId64 " tokens for n-grams of %u",
                         end - g->begins[k], k + 1);
        count += (end - g->begins[k]) / (k + 1);
    }
    if (count != g->count)
        DHOWI_REFUSE("ngram_indexes has %u numbers for %" PRId64 " n-grams", g->count, count);
    for (uint32_t i = 0; i < g->count; i++)
        if (g->columns[i] < 0 || g->columns[i] > INT32_MAX)
            DHOWI_REFUSE("ngram_indexes holds %" PRId64, g->columns[i]);
    return DHOW_OK;
}

static dhow_status read_grams(dhowi_lowering *b, grams *g) {
    const dhowi_onnx_attribute *t = dhowi_attr(b, "pool_strings", DHOWI_ATTRIBUTE_STRINGS);
    *g = (grams){0};
    g->numbers = dhowi_attr_ints(b, "pool_int64s", &g->pool);
    if (t != NULL && t->string_count > 0) {
        if (g->pool > 0) DHOWI_REFUSE("it has both pool_strings and pool_int64s");
        g->texts = t->strings;
        g->pool = t->string_count;
    }
    g->begins = dhowi_attr_ints(b, "ngram_counts", &g->lengths);
    g->columns = dhowi_attr_ints(b, "ngram_indexes", &g->count);
    g->weights = dhowi_ml_floats(b, "weights", &g->weight_count);
    DHOWI_TRY(dhowi_attr_needed(b, "min_gram_length", &g->least));
    DHOWI_TRY(dhowi_attr_needed(b, "max_gram_length", &g->most));
    DHOWI_TRY(dhowi_attr_needed(b, "max_skip_count", &g->skips));
    g->counts = !dhowi_attr_is(b, "mode", "IDF", "");
    g->weighs = !dhowi_attr_is(b, "mode", "TF", "");
    if (g->counts && g->weighs && !dhowi_attr_is(b, "mode", "TFIDF", ""))
        return dhowi_refuse_text(b, "mode");
    if (g->least < 1 || g->most < g->least || g->most > g->lengths || g->skips < 0 ||
        g->skips > INT32_MAX)
        DHOWI_REFUSE("n-grams of %" PRId64 " to %" PRId64 " tokens, %" PRId64
                     " skipped, of a pool of %u lengths",
                     g->least, g->most, g->skips, g->lengths);
    DHOWI_TRY(check_pool(g));
    for (uint32_t i = 0; i < g->count; i++) g->width = DHOWI_MAX(g->width, g->columns[i] + 1);
    if (g->weight_count != 0 && (int64_t)g->weight_count != g->width)
        DHOWI_REFUSE("weights has %u numbers for %" PRId64 " columns", g->weight_count, g->width);
    return DHOW_OK;
}

/* Rows of `each` tokens. */
static dhow_status count_all(dhowi_lowering *b, const grams *g, tokens t,
                             const dhowi_tensor_desc *x) {
    const int64_t each = x->shape[x->rank - 1], rows = x->rank == 2 ? x->shape[0] : 1;
    const int64_t shape[] = {rows, g->width};
    int64_t count;
    if (!dhowi_mul_i64(rows, g->width, &count)) DHOWI_REFUSE("too many numbers");
    DHOWI_TRY(dhowi_host_room(b, count, sizeof(float)));
    float *values = dhowi_alloc_array((size_t)count + 1, sizeof *values);
    if (values == NULL) return dhowi_fail_memory("plan");
    memset(values, 0, ((size_t)count + 1) * sizeof *values);
    for (int64_t row = 0; row < rows; row++) {
        const tokens own = {t.texts != NULL ? t.texts + row * each : NULL,
                            t.numbers != NULL ? t.numbers + row * each : NULL, each};
        count_row(g, &own, values + row * g->width);
    }
    const dhow_status status =
        dhowi_constant(b, DHOW_F32, x->rank, shape + (2 - x->rank), values, &b->out[0]);
    dhowi_free(values);
    return status;
}

static dhow_status count_numbers(dhowi_lowering *b, const grams *g, int32_t ref) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, ref);
    const int64_t count = dhowi_count_of(&x);
    uint32_t got;
    DHOWI_TRY(dhowi_host_room(b, count, sizeof(int64_t)));
    int64_t *numbers = dhowi_alloc_array((size_t)count + 1, sizeof *numbers);
    if (numbers == NULL) return dhowi_fail_memory("plan");
    dhow_status status = dhowi_ints(b, ref, numbers, (uint32_t)count, &got);
    if (status == DHOW_OK) status = count_all(b, g, (tokens){NULL, numbers, count}, &x);
    dhowi_free(numbers);
    return status;
}

dhow_status dhowi_lower_tf_idf(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    const bool texts = dhowi_kind_of(b, b->in[0]) == DHOW_DATUM_TEXTS;
    grams g;
    if (x.rank < 1 || x.rank > 2) DHOWI_REFUSE("x has %d dimensions, not 1 or 2", x.rank);
    DHOWI_TRY(read_grams(b, &g));
    if (texts != (g.texts != NULL))
        DHOWI_REFUSE("x is %s, its pool is %s", texts ? "texts" : "numbers",
                     texts ? "numbers" : "texts");
    dhow_status status = fill_table(&g);
    if (status == DHOW_OK)
        status = texts ? count_all(b, &g, (tokens){b->items[b->in[0]].texts->texts, NULL, 0}, &x)
                       : count_numbers(b, &g, b->in[0]);
    dhowi_free(g.table);
    return status;
}
