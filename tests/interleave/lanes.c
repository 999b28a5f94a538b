/* SPDX-License-Identifier: Apache-2.0
 *
 * core/stream/host_queue.c with its own threads: jobs of a lane run one after the other in the
 * order of their numbers, whoever waits for one finds it done and hears how it ended, each job ends
 * once after that, and draining leaves none behind.
 */
#include "hooks.h"
#include "scenarios.h"
#include "stream/host_queue.h"

enum { JOBS = 3 };

typedef struct test_job {
    dhowi_job job;
    dhow_status gives;
    bool ran, ended;
    uint64_t number;
} test_job;

static dhow_context *g_context;
static dhow_device g_device;
static dhow_stream g_streams[2];
static test_job g_jobs[JOBS];
static int g_running[DHOWI_HOST_LANES];
static uint64_t g_last[DHOWI_HOST_LANES];

/* ---- jobs ---- */

static dhow_status run_job(dhowi_job *job) {
    test_job *j = (test_job *)job;
    const uint64_t lane = job->ticket >> DHOWI_TICKET_SHIFT & (DHOWI_HOST_LANES - 1);
    const uint64_t number = dhowi_ticket_mark(g_context, job->ticket).number;
    if (job->ticket == 0) interleave_fail("a job runs without a ticket");
    if (g_running[lane]++ > 0) interleave_fail("two jobs of a lane run at once");
    if (number <= g_last[lane]) interleave_fail("jobs of a lane run in another order");
    if (j->ran) interleave_fail("a job runs twice");
    g_last[lane] = number;
    interleave_step(INTERLEAVE_WRITE, j); /* others may go on meanwhile */
    j->ran = true;
    g_running[lane]--;
    return j->gives == DHOW_OK ? DHOW_OK : dhowi_fail(j->gives, "a job that fails");
}

static void end_job(dhowi_job *job) {
    test_job *j = (test_job *)job;
    interleave_step(INTERLEAVE_WRITE, j);
    if (!j->ran || j->ended) interleave_fail("a job ends twice, or before it has run");
    j->ended = true;
}

/* ---- a context with nothing but its queue ---- */

static void begin(void) {
    g_context = dhowi_handle_new(DHOWI_CONTEXT, sizeof *g_context);
    if (g_context == NULL) interleave_fail("no memory");
    pthread_mutex_init(&g_context->mutex, NULL);
    g_device = (dhow_device){.context = g_context};
    for (int i = 0; i < 2; i++) g_streams[i] = (dhow_stream){.device = &g_device};
    for (int i = 0; i < JOBS; i++)
        g_jobs[i] = (test_job){.job = {.run = run_job, .end = end_job}, .gives = DHOW_OK};
    for (int i = 0; i < DHOWI_HOST_LANES; i++) {
        g_running[i] = 0;
        g_last[i] = 0;
    }
    if (dhowi_host_lane_of(&g_streams[0]) == NULL) interleave_fail("%s", dhow_last_error());
}
static void begin_idle(void) {
    begin();
    interleave_leave_idle();
}
static void begin_failing(void) {
    begin_idle();
    g_jobs[0].gives = DHOW_IO_ERROR;
}

static dhowi_timepoint push(int stream, int job) {
    dhowi_host_lane *lane = dhowi_host_lane_of(&g_streams[stream]);
    _Atomic uint64_t ticket = 0;
    if (lane == NULL) interleave_fail("%s", dhow_last_error());
    const dhowi_timepoint point = dhowi_host_lane_push(lane, &g_jobs[job].job, &ticket);
    if (dhowi_ticket_mark(g_context, ticket).number != point.number)
        interleave_fail("a ticket of another job");
    g_jobs[job].number = point.number;
    return point;
}

static void await(dhowi_timepoint point, int job) {
    const dhow_status status = point.timeline->wait(point.timeline, point.number);
    interleave_step(INTERLEAVE_READ, &g_jobs[job]);
    if (!g_jobs[job].ran) interleave_fail("a job counts as done that has not run");
    if (status != g_jobs[job].gives)
        interleave_fail("a job that gave %s counts as %s", dhow_status_name(g_jobs[job].gives),
                        dhow_status_name(status));
}

static bool all_ended(void) {
    for (int i = 0; i < JOBS; i++) {
        if (g_jobs[i].number == 0 || g_jobs[i].ended) continue;
        interleave_fail("a job has not ended");
        return false;
    }
    return true;
}

/* As the end of a context does. */
static void end_queue(void) {
    dhowi_attachment *work = &g_context->background_work;
    void *queue = __atomic_load_n((void **)(uintptr_t)&work->data, __ATOMIC_SEQ_CST);
    g_context->drain(queue);
    (void)all_ended();
    work->end(g_context, queue);
    __atomic_store_n((void **)(uintptr_t)&work->data, NULL, __ATOMIC_SEQ_CST);
}

static void end(void) {
    if (!all_ended()) return; /* draining would wait for ever */
    if (__atomic_load_n((void **)(uintptr_t)&g_context->background_work.data, __ATOMIC_SEQ_CST) !=
        NULL)
        end_queue();
    if (__atomic_load_n((uint32_t *)(uintptr_t)&g_context->handle.references, __ATOMIC_SEQ_CST) !=
        1)
        interleave_fail("a job keeps the context");
    pthread_mutex_destroy(&g_context->mutex);
    dhowi_handle_free(DHOWI_CONTEXT, g_context);
}

/* ---- threads that hand in ---- */

static void one_job(void) { await(push(0, 0), 0); }
static void another_job_of_the_stream(void) { (void)push(0, 1); }
static void two_jobs(void) {
    const dhowi_timepoint first = push(0, 0), second = push(0, 1);
    await(second, 1);
    await(first, 0);
}
static void job_of_each_stream(void) {
    (void)push(1, 1);
    await(push(0, 0), 0);
}
static void job_and_end(void) {
    await(push(0, 0), 0);
    end_queue();
}
static void jobs_nobody_waits_for(void) {
    (void)push(0, 0);
    (void)push(0, 1);
    end_queue();
}
static void first_use_of_a_stream(void) {
    if (dhowi_host_lane_of(&g_streams[1]) == NULL) interleave_fail("%s", dhow_last_error());
}
static void first_job_of_a_stream(void) {
    const dhowi_host_lane *lane = dhowi_host_lane_of(&g_streams[1]);
    (void)push(1, 0);
    if (dhowi_host_lane_of(&g_streams[1]) != lane)
        interleave_fail("a stream changes to another lane");
}

const scenario interleave_lanes[] = {
    {"a job is handed in and waited for, and the queue ends", begin, {job_and_end}, end},
    {"jobs that nobody waits for are drained", begin, {jobs_nobody_waits_for}, end},
    {"two jobs of a stream are waited for in the other order", begin_idle, {two_jobs}, end},
    {"two threads hand in jobs of one stream",
     begin_idle,
     {one_job, another_job_of_the_stream},
     end},
    {"one of two jobs of a stream fails", begin_failing, {two_jobs}, end},
    {"two threads use a stream for the first time",
     begin_idle,
     {first_job_of_a_stream, first_use_of_a_stream},
     end},
    {"a thread hands in jobs of two streams", begin_idle, {job_of_each_stream}, end},
    {NULL, NULL, {NULL}, NULL}};
