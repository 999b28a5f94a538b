/* SPDX-License-Identifier: Apache-2.0
 *
 * See onnx_text.h.
 */
#include "onnx_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORD = 96, MAX_NUMBERS = 16, MAX_NAMES = 256 };

static bytes read_graph(const char **at);

/* The next word of a statement; false at its end. */
static int next_word(const char **at, char word[MAX_WORD]) {
    *at += strspn(*at, " \n");
    size_t length = strcspn(*at, " \n;{}");
    if (length >= MAX_WORD) abort();
    memcpy(word, *at, length);
    word[length] = '\0';
    *at += length;
    return length > 0;
}

static uint32_t read_numbers(const char **at, int64_t numbers[MAX_NUMBERS]) {
    char word[MAX_WORD];
    uint32_t count = 0;
    while (next_word(at, word)) {
        if (count == MAX_NUMBERS) abort();
        numbers[count++] = strtoll(word, NULL, 0);
    }
    return count;
}

static bytes ints_of(const char *name, uint32_t count, const int64_t *numbers, int scalar) {
    bytes t = {0};
    if (!scalar) put_number(&t, 1, count);
    put_number(&t, 2, 7);
    for (uint32_t i = 0; i < count; i++) put_number(&t, 7, (uint64_t)numbers[i]);
    put_text(&t, 8, name);
    return t;
}

/* -1 to 1 and none of them near 0, where many functions have corners. */
static bytes doubles_of(const char *name, uint32_t rank, const int64_t *shape) {
    bytes t = {0};
    int64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        put_number(&t, 1, (uint64_t)shape[i]);
        count *= shape[i];
    }
    put_number(&t, 2, 11);
    put_text(&t, 8, name);
    bytes data = {0};
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = (uint64_t)(i + 7 + 31 * name[0]) * UINT64_C(2654435761) >> 9 & 1023;
        const double x = (double)bits / 512 - 1, number = x > -0.05 && x < 0.05 ? x + 0.1 : x;
        put_raw(&data, &number, sizeof number);
    }
    put_message(&t, 9, &data);
    return t;
}

static void add_attribute(bytes *node, const char *name, const char *text) {
    int64_t numbers[MAX_NUMBERS];
    uint32_t count = 0;
    if (text[0] == '\'') {
        char inner[MAX_WORD];
        (void)snprintf(inner, sizeof inner, "%.*s", (int)strlen(text) - 2, text + 1);
        add_text(node, name, inner);
    } else if (strchr(text, ',') != NULL) {
        for (char *end; *text != '\0'; text = end + (*end == ',')) {
            if (count == MAX_NUMBERS) abort();
            numbers[count++] = strtoll(text, &end, 0);
        }
        add_ints(node, name, count, numbers);
    } else if (strchr(text, '.') != NULL) {
        add_float(node, name, strtof(text, NULL));
    } else {
        add_int(node, name, strtoll(text, NULL, 0));
    }
}

static bytes read_node(const char **at) {
    char op[MAX_WORD], name[MAX_WORD], word[MAX_WORD], names[2][MAX_NAMES] = {"", ""};
    int side = 0, begun = 0;
    bytes node = {0};
    if (!next_word(at, op) || !next_word(at, name)) abort();
    while (next_word(at, word)) {
        char *equal = strchr(word, '=');
        if (equal == NULL && strcmp(word, "->") == 0) {
            side = 1;
        } else if (equal == NULL) {
            size_t used = strlen(names[side]);
            (void)snprintf(names[side] + used, sizeof names[side] - used, "%s%s",
                           used > 0 ? " " : "", word);
        } else {
            if (!begun++) node = node_of(op, name, names[0], names[1]);
            *equal = '\0';
            if (equal[1] != '\0') {
                add_attribute(&node, word, equal + 1);
                continue;
            }
            if (*(*at)++ != '{') abort();
            bytes body = read_graph(at);
            add_graph(&node, word, &body);
            if (*(*at)++ != '}') abort();
        }
    }
    return begun ? node : node_of(op, name, names[0], names[1]);
}

static void put_value(bytes *g, uint32_t field, const char *name, uint32_t rank,
                      const int64_t *shape) {
    bytes v = value_of(name, rank, shape);
    put_message(g, field, &v);
}

static void read_statement(bytes *g, const char *kind, const char **at) {
    int64_t numbers[MAX_NUMBERS] = {-1};
    char name[MAX_WORD];
    if (strcmp(kind, "node") == 0) {
        bytes node = read_node(at);
        put_message(g, GRAPH_NODE, &node);
        return;
    }
    if (!next_word(at, name)) abort();
    uint32_t count = read_numbers(at, numbers);
    if (strcmp(kind, "input") == 0) {
        put_value(g, GRAPH_INPUT, name, count, numbers);
    } else if (strcmp(kind, "double") == 0 || strcmp(kind, "result") == 0) {
        bytes v = typed_value_of(name, 11, count, numbers);
        put_message(g, kind[0] == 'd' ? GRAPH_INPUT : GRAPH_OUTPUT, &v);
    } else if (strcmp(kind, "doubles") == 0) {
        bytes t = doubles_of(name, count, numbers);
        put_message(g, GRAPH_INITIALIZER, &t);
    } else if (strcmp(kind, "output") == 0) {
        put_value(g, GRAPH_OUTPUT, name, 1, numbers);
    } else {
        bytes t = strcmp(kind, "floats") == 0
                      ? floats_of(name, numbers[0], count > 1 ? numbers[1] : 0)
                      : ints_of(name, count, numbers, strcmp(kind, "number") == 0);
        put_message(g, GRAPH_INITIALIZER, &t);
    }
}

static bytes read_graph(const char **at) {
    bytes g = {0};
    char kind[MAX_WORD];
    for (; next_word(at, kind); *at += **at == ';') read_statement(&g, kind, at);
    return g;
}

bytes graph_of_text(const char *text) {
    bytes g = read_graph(&text);
    if (*text != '\0') abort(); /* a statement that no rule reads */
    return g;
}
