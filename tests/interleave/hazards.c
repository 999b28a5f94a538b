/* SPDX-License-Identifier: Apache-2.0
 *
 * core/memory/hazard.c: streams of several threads that work with one storage, and a device that
 * ends work meanwhile. Whoever looks for pending work gets all that was noted before, or something
 * that waits for it.
 */
#include "hooks.h"
#include "memory/storage.h"
#include "scenarios.h"

enum { STREAMS = 3, MOST = 12, READ = DHOW_ACCESS_READ, WRITE = DHOW_ACCESS_WRITE };

/* ---- what the test knows besides ---- */

typedef struct work {
    dhowi_timeline *timeline;
    uint64_t number;
    uint32_t access;
    bool noted;
    dhowi_timepoint awaited[DHOWI_MAX_PENDING]; /* by this very work */
    uint32_t awaited_count;
} work;

static dhowi_timeline g_streams[STREAMS];
static dhowi_hazard g_hazard;
static pthread_mutex_t g_submitting[STREAMS] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static work g_works[MOST];
static int g_work_count;
static atomic_bool g_lost;

static dhow_status wait_number(dhowi_timeline *timeline, uint64_t number) {
    dhowi_timeline_complete(timeline, number);
    return DHOW_OK;
}

static bool is_over(const work *w) {
    return atomic_load(&w->timeline->completed) >= w->number ||
           (w->timeline->lost != NULL && atomic_load(w->timeline->lost));
}

/* Whether who waits for the mark has waited for the work. */
static bool covers(dhowi_timepoint mark, const work *w) {
    if (mark.timeline == w->timeline && mark.number >= w->number) return true;
    for (int i = 0; i < g_work_count; i++) {
        const work *v = &g_works[i];
        if (v->timeline != mark.timeline || v->number > mark.number) continue;
        for (uint32_t k = 0; k < v->awaited_count; k++)
            if (covers(v->awaited[k], w)) return true;
    }
    return false;
}

static bool conflicts(const work *w, uint32_t access) {
    return ((w->access | access) & WRITE) != 0;
}

static void check(const bool *asked, uint32_t access, const dhowi_timepoint *marks, uint32_t count,
                  dhowi_timepoint self) {
    for (int i = 0; i < g_work_count; i++) {
        const work *w = &g_works[i];
        if (!asked[i] || !conflicts(w, access) || is_over(w)) continue;
        bool found = self.timeline != NULL && covers(self, w);
        for (uint32_t k = 0; k < count; k++) found = found || covers(marks[k], w);
        if (!found)
            interleave_fail("%s of stream %d, number %d, is forgotten",
                            (w->access & WRITE) != 0 ? "a write" : "a read",
                            (int)(w->timeline - g_streams), (int)w->number);
    }
}

static void note_those_there(bool *noted) {
    for (int i = 0; i < MOST; i++) noted[i] = i < g_work_count && g_works[i].noted;
}

/* ---- threads ---- */

/* As dhowi_stream_begin() and dhowi_stream_end() do it. */
static void use(int stream, uint32_t access) {
    dhowi_timeline *t = &g_streams[stream];
    dhowi_timepoint pending[DHOWI_MAX_PENDING];
    bool noted[MOST];
    note_those_there(noted);
    const dhowi_timepoint self = {t, atomic_load(&t->submitted)};
    uint32_t count = dhowi_hazard_pending(&g_hazard, access, t, pending);
    check(noted, access, pending, count, self);
    for (uint32_t i = 0; i < count; i++) dhowi_timeline_awaited(t, pending[i]);
    pthread_mutex_lock(&g_submitting[stream]);
    work *w = &g_works[g_work_count++];
    *w = (work){.timeline = t, .access = access, .awaited_count = count};
    for (uint32_t i = 0; i < count; i++) w->awaited[i] = pending[i];
    w->number = ++t->submitted;
    dhowi_hazard_note(&g_hazard, access, t, w->number);
    w->noted = true;
    pthread_mutex_unlock(&g_submitting[stream]);
}

static void begin(void) {
    g_work_count = 0;
    g_hazard = (dhowi_hazard){.sole_user = NULL};
    atomic_store(&g_lost, false);
    for (int i = 0; i < STREAMS; i++)
        g_streams[i] = (dhowi_timeline){.wait = wait_number, .lost = i == 0 ? &g_lost : NULL};
}
static void begin_read(void) {
    begin();
    use(0, READ);
}
static void begin_shared(void) {
    begin();
    use(0, READ);
    use(1, READ);
}
static void begin_many(void) {
    begin();
    use(0, READ);
    use(1, READ);
    use(2, READ);
}

static void end(void) {
    for (uint32_t access = READ; access <= WRITE; access++) {
        dhowi_timepoint pending[DHOWI_MAX_PENDING];
        bool noted[MOST];
        note_those_there(noted);
        uint32_t count = dhowi_hazard_pending(&g_hazard, access, NULL, pending);
        check(noted, access, pending, count, (dhowi_timepoint){NULL, 0});
    }
    for (uint32_t i = 0; i < g_hazard.user_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (g_hazard.users[i].timeline == g_hazard.users[k].timeline)
                interleave_fail("a stream stands there twice");
}

static void read_0(void) { use(0, READ); }
static void read_1(void) { use(1, READ); }
static void read_2(void) { use(2, READ); }
static void write_0(void) { use(0, WRITE); }
static void write_1(void) { use(1, WRITE); }
static void write_2(void) { use(2, WRITE); }
static void update_1(void) { use(1, READ | WRITE); }
static void read_and_write_0(void) {
    use(0, READ);
    use(0, WRITE);
}
static void read_twice_1(void) {
    use(1, READ);
    use(1, READ);
}
static void first_done_0(void) { dhowi_timeline_complete(&g_streams[0], 1); }
static void lose_0(void) { atomic_store(&g_lost, true); }
static void overwrite(void) { dhowi_hazard_overwritten(&g_hazard); }

const scenario interleave_hazards[] = {
    {"two streams read what a third thread's device is done with",
     begin_read,
     {read_0, read_1, first_done_0},
     end},
    {"two streams write, and one of them has read before",
     begin_read,
     {write_0, write_1, first_done_0},
     end},
    {"one stream writes while two others read", begin, {write_0, read_1, read_2}, end},
    {"three streams write", begin, {write_0, write_1, write_2}, end},
    {"two threads hand work to one stream", begin_shared, {write_0, read_0}, end},
    {"a stream reads and writes while another reads twice",
     begin_read,
     {read_and_write_0, read_twice_1},
     end},
    {"an update meets a write, and work that ends",
     begin_shared,
     {update_1, write_0, first_done_0},
     end},
    {"all have read and one writes while another reads again",
     begin_many,
     {write_1, read_2, first_done_0},
     end},
    {"a device is lost while others write and read", begin_shared, {write_1, read_2, lose_0}, end},
    {"the host overwrites what a lost device was to write",
     begin_shared,
     {overwrite, write_2, lose_0},
     end},
    {NULL, NULL, {NULL}, NULL}};
