/* SPDX-License-Identifier: Apache-2.0
 *
 * A pattern in RE2's syntax becomes an extended one of POSIX for the C locale, in which a character
 * of UTF-8 is spelt as its bytes.
 */
#include "model/operators/ml/pattern.h"

#include <stdio.h>
#include <string.h>

#include "base/errors/error.h"
#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/text/text.h"
#include "model/lower/lower.h"

/* What a pattern may take of memory grows with it, and is multiplied by its repetitions. */
enum { MOST_LETTERS = 4096, MOST_REPEATED = 1000 };

/* ---- sets of characters up to 127, and all others or none ---- */

typedef struct set {
    bool has[128];
    bool others;
} set;

static void add_range(set *s, int from, int to) {
    for (int c = from; c <= to; c++) s->has[c] = true;
}

static void invert(set *s) {
    for (int c = 1; c < 128; c++) s->has[c] = !s->has[c];
    s->others = !s->others;
}

/* \d \w \s and their opposites; false for other letters. */
static bool add_class(set *s, char letter) {
    set own = {0};
    switch (letter | 32) {
        case 'd':
            add_range(&own, '0', '9');
            break;
        case 'w':
            add_range(&own, '0', '9');
            add_range(&own, 'A', 'Z');
            add_range(&own, 'a', 'z');
            own.has['_'] = true;
            break;
        case 's':
            own.has['\t'] = own.has['\n'] = own.has['\f'] = own.has['\r'] = own.has[' '] = true;
            break;
        default:
            return false;
    }
    if ((letter & 32) == 0) invert(&own);
    for (int c = 1; c < 128; c++) s->has[c] |= own.has[c];
    s->others |= own.others;
    return true;
}

/* The character behind a backslash that stands for itself or for a control; -1: another. */
static int escaped(char c) {
    static const char controls[] = "t\tn\nr\rf\fv\va\a";
    for (const char *at = controls; *at != '\0'; at += 2)
        if (*at == c) return at[1];
    const bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    return letter || (unsigned char)c >= 128 ? -1 : c;
}

/* ---- what is written ---- */

typedef struct writer {
    const char *at, *end;
    char *to;
    size_t length, room;
    int64_t repeated; /* what repetitions multiply */
} writer;

static void put(writer *w, const char *text) {
    const size_t length = strlen(text);
    if (w->length + length < w->room) memcpy(w->to + w->length, text, length + 1);
    w->length += length;
}

static void put_byte(writer *w, int c) {
    const char text[] = {(char)c, '\0'};
    put(w, text);
}

static dhow_status refuse(const writer *w, const char *what) {
    return dhowi_fail(DHOW_UNSUPPORTED, "unsupported in a pattern, before '%.*s': %s",
                      (int)DHOWI_MIN((size_t)(w->end - w->at), (size_t)32), w->at, what);
}

/* ], ^ and - mean themselves first, not first, and last. */
static dhow_status put_set(writer *w, const set *s) {
    bool any = false;
    for (int c = 1; c < 128; c++) any |= s->has[c];
    if (!any && !s->others) return refuse(w, "a class of nothing");
    put(w, "(");
    if (any) {
        put(w, "[");
        if (s->has[']']) put(w, "]");
        for (int c = 1; c < 128; c++)
            if (s->has[c] && c != ']' && c != '^' && c != '-' && c != '[') put_byte(w, c);
        if (s->has['[']) put(w, "[");
        bool alone = s->has['^'] && !s->has['-'];
        for (int c = 1; c < 128 && alone; c++) alone = !s->has[c] || c == '^';
        if (alone) {
            w->length--;
            put(w, "\\^");
        } else {
            if (s->has['^']) put(w, "^");
            if (s->has['-']) put(w, "-");
            put(w, "]");
        }
    }
    if (s->others)
        put(w, any ? "|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
                   : "[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}");
    put(w, ")");
    return DHOW_OK;
}

/* A character of a class, or -1 after one of \d \w \s, which are added. */
static dhow_status read_member(writer *w, set *s, int *out) {
    const char c = *w->at++;
    *out = (unsigned char)c;
    if ((unsigned char)c >= 128) return refuse(w, "classes of characters beyond ASCII");
    if (c == '[' && w->at < w->end && *w->at == ':') return refuse(w, "named classes");
    if (c != '\\') return DHOW_OK;
    if (w->at == w->end) return refuse(w, "its end");
    const char escape = *w->at++;
    *out = -1;
    if (add_class(s, escape)) return DHOW_OK;
    *out = escaped(escape);
    return *out >= 0 ? DHOW_OK : refuse(w, "this escape");
}

/* Behind a [. */
static dhow_status read_set(writer *w) {
    set s = {0};
    const bool not = w->at < w->end && *w->at == '^';
    w->at += not ;
    for (bool first = true; w->at < w->end && (*w->at != ']' || first); first = false) {
        int from, to;
        DHOWI_TRY(read_member(w, &s, &from));
        to = from;
        if (from >= 0 && w->end - w->at > 1 && w->at[0] == '-' && w->at[1] != ']') {
            w->at++;
            DHOWI_TRY(read_member(w, &s, &to));
        }
        if (to < from) return refuse(w, "a range that goes backwards");
        if (from > 0) add_range(&s, from, to);
    }
    if (w->at == w->end) return refuse(w, "a class without its end");
    w->at++;
    if (not ) invert(&s);
    return put_set(w, &s);
}

/* As few as possible or as many: all of a text is the same. */
static dhow_status end_repetition(writer *w) {
    if (w->at < w->end && *w->at == '?') w->at++;
    if (w->at < w->end && strchr("*+?", *w->at) != NULL)
        return refuse(w, "repetitions of repetitions");
    return DHOW_OK;
}

/* Behind a {: numbers of repetitions, or the character itself. */
static dhow_status read_repetition(writer *w) {
    int least = 0, most = -1, used = 0;
    char text[40], rest[40];
    (void)snprintf(rest, sizeof rest, "%.*s", (int)DHOWI_MIN(w->end - w->at, (ptrdiff_t)39), w->at);
    const bool both = sscanf(rest, "%5d,%5d}%n", &least, &most, &used) == 2 && used > 0;
    const bool open = !both && sscanf(rest, "%5d,}%n", &least, &used) == 1 && used > 0;
    const bool one = !both && !open && sscanf(rest, "%5d}%n", &least, &used) == 1 && used > 0;
    if (!both && !open && !one) {
        put(w, "\\{");
        return DHOW_OK;
    }
    const int64_t times = both ? most : least;
    w->repeated *= DHOWI_MAX(times, (int64_t)1);
    if (least < 0 || (both && most < least) || times > MOST_REPEATED || w->repeated > MOST_REPEATED)
        return refuse(w, "that many repetitions");
    w->at += used;
    (void)snprintf(text, sizeof text, "{%.*s", used, rest);
    put(w, text);
    return end_repetition(w);
}

/* Behind a (: a group, whose name and number nobody asks for. */
static dhow_status read_group(writer *w) {
    put(w, "(");
    if (w->at == w->end || *w->at != '?') return DHOW_OK;
    if (w->end - w->at > 1 && w->at[1] == ':') {
        w->at += 2;
        return DHOW_OK;
    }
    const char *close = memchr(w->at, '>', (size_t)(w->end - w->at));
    if (close == NULL || w->end - w->at < 3 || (w->at[1] != 'P' && w->at[1] != '<'))
        return refuse(w, "flags");
    w->at = close + 1;
    return DHOW_OK;
}

static dhow_status read_escape(writer *w) {
    set s = {0};
    if (w->at == w->end) return refuse(w, "its end");
    const char c = *w->at++;
    static const char *const places[] = {"b(\\b)", "B(\\B)", "A(^)",
                                         "z($)"}; /* \b and \B are GNU's */
    for (size_t i = 0; i < DHOWI_COUNT(places); i++) {
        if (places[i][0] != c) continue;
        put(w, places[i] + 1);
        return DHOW_OK;
    }
    if (!add_class(&s, c)) {
        const int itself = escaped(c);
        if (itself <= 0) return refuse(w, "this escape");
        s.has[itself] = true;
    }
    return put_set(w, &s);
}

/* One of several bytes is a group, so that what follows repeats all of it. */
static void read_letter(writer *w) {
    const unsigned char c = (unsigned char)*w->at++;
    if (c < 128) {
        put_byte(w, c);
        return;
    }
    put(w, "(");
    put_byte(w, c);
    while (w->at < w->end && (*w->at & 0xc0) == 0x80) put_byte(w, *w->at++);
    put(w, ")");
}

static dhow_status read_one(writer *w) {
    set any = {.others = true};
    switch (*w->at) {
        case '\0':
            return refuse(w, "a character 0");
        case '\\':
            w->at++;
            return read_escape(w);
        case '[':
            w->at++;
            return read_set(w);
        case '(':
            w->at++;
            return read_group(w);
        case '{':
            w->at++;
            return read_repetition(w);
        case '}':
            w->at++;
            put(w, "\\}");
            return DHOW_OK;
        case ']':
            w->at++;
            put(w, "\\]");
            return DHOW_OK;
        case '.':
            w->at++;
            add_range(&any, 1, 127);
            any.has['\n'] = false;
            return put_set(w, &any);
        case '*':
        case '+':
        case '?':
            put_byte(w, *w->at++);
            return end_repetition(w);
        default:
            read_letter(w);
            return DHOW_OK;
    }
}

static dhow_status translate(dhowi_slice text, writer *w) {
    w->at = text.data;
    w->end = text.data + text.length;
    w->length = 0;
    w->repeated = 1;
    put(w, "(");
    while (w->at < w->end) DHOWI_TRY(read_one(w));
    put(w, ")");
    return DHOW_OK;
}

/* ---- compiled ---- */

dhow_status dhowi_pattern_compile(dhowi_slice text, dhowi_pattern *out) {
    writer w = {0};
    *out = (dhowi_pattern){0};
    if (text.length > MOST_LETTERS)
        return dhowi_fail(DHOW_UNSUPPORTED, "unsupported pattern of %zu letters", text.length);
    if (text.length == 0) text = (dhowi_slice){"", 0};
    DHOWI_TRY(translate(text, &w)); /* for its length */
    w.room = w.length + 1;
    w.to = dhowi_alloc(w.room);
    if (w.to == NULL) return dhowi_fail_memory("plan");
    dhow_status status = translate(text, &w);
    out->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (out->c == (locale_t)0) status = dhowi_fail_memory("plan");
    if (status == DHOW_OK) {
        const locale_t before = uselocale(out->c);
        const int code = regcomp(&out->compiled, w.to, REG_EXTENDED);
        char why[64] = "";
        if (code != 0) (void)regerror(code, &out->compiled, why, sizeof why);
        (void)uselocale(before);
        if (code == REG_ESPACE)
            status = dhowi_fail_memory("plan");
        else if (code != 0)
            status = dhowi_fail(DHOW_INVALID_ARGUMENT, "the pattern '%.*s': %s",
                                (int)DHOWI_MIN(text.length, (size_t)64), text.data, why);
    }
    if (status != DHOW_OK && out->c != (locale_t)0) freelocale(out->c);
    dhowi_free(w.to);
    return status;
}

void dhowi_pattern_end(dhowi_pattern *p) {
    regfree(&p->compiled);
    freelocale(p->c);
}

bool dhowi_pattern_find(const dhowi_pattern *p, const char *text, bool begins, size_t *begin,
                        size_t *length) {
    regmatch_t match;
    const locale_t before = uselocale(p->c);
    size_t at = 0;
    bool found = regexec(&p->compiled, text, 1, &match, begins ? 0 : REG_NOTBOL) == 0;
    while (found && match.rm_eo == match.rm_so) { /* nothing: look further on */
        at += (size_t)match.rm_so;
        found = text[at] != '\0';
        if (found) found = regexec(&p->compiled, text + ++at, 1, &match, REG_NOTBOL) == 0;
    }
    (void)uselocale(before);
    *begin = found ? at + (size_t)match.rm_so : 0;
    *length = found ? (size_t)(match.rm_eo - match.rm_so) : 0;
    return found;
}

/* POSIX finds the longest of those that begin first. */
bool dhowi_pattern_fits(const dhowi_pattern *p, const char *text) {
    regmatch_t match;
    const locale_t before = uselocale(p->c);
    const bool found = regexec(&p->compiled, text, 1, &match, 0) == 0;
    (void)uselocale(before);
    return found && match.rm_so == 0 && text[match.rm_eo] == '\0';
}
