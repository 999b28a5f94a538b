/* SPDX-License-Identifier: Apache-2.0
 *
 * See order.h: settings, seeds, and what programs share.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>

#include "order.h"

static const char *const k_settings[] = {
    "delay_us=50,jitter_us=300,pageable=late",
    "delay_us=50,jitter_us=300,pageable=late,peer=0",
    "delay_us=50,jitter_us=300,pageable=late,peer=0,host_events=0",
    "delay_us=20,jitter_us=100,launch_us=100,bandwidth=2G,pageable=block,peer=0",
    "delay_us=50,jitter_us=300,pageable=snapshot",
};
enum { SETTINGS = sizeof k_settings / sizeof k_settings[0] };

static const char *const k_cuda_settings[SETTINGS] = {
    "delay_us=50,jitter_us=300",
    "delay_us=50,jitter_us=300,peer=0",
    "delay_us=50,jitter_us=300,peer=0,waits=0",
    "delay_us=20,jitter_us=100,launch_us=100,bandwidth=2G,peer=0",
    "delay_us=200,jitter_us=1000",
};

static atomic_int g_complaints;
static uint64_t g_seed;

uint64_t order_seed(void) { return g_seed; }

/* The simulated machine complains of leaks and of writes out of bounds. */
static void listen(void *user, dhow_log_level level, const char *message) {
    (void)user;
    if (level != DHOW_LOG_ERROR) return;
    atomic_fetch_add(&g_complaints, 1);
    (void)fprintf(stderr, "%s\n", message);
}

/* ---- the fake CUDA runtime ---- */

typedef bool reset_fn(const char *settings, const char *faults, char *why, size_t why_bytes);
typedef uint32_t count_fn(void *out);
typedef uint32_t complaints_fn(void);

/* The library that the plugin is linked to; NULL on sim. */
static void *runtime(void) {
    const char *path = getenv("DHOW_ORDER_FAKECUDA");
    return path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void *function(const char *name, void *slot, size_t bytes) {
    void *found = dlsym(runtime(), name);
    memcpy(slot, &found, bytes);
    return found;
}

static bool reset_runtime(const char *settings, const char *faults, char *why, size_t bytes) {
    reset_fn *reset;
    if (function("fakecuda_reset", &reset, sizeof reset) != NULL)
        return reset(settings, faults, why, bytes);
    (void)snprintf(why, bytes, "DHOW_ORDER_FAKECUDA names no fake CUDA runtime");
    return false;
}

/* What a program left behind; a lost device keeps nothing either. Threads of the library may still
 * be at it. */
static bool runtime_is_clean(char *why, size_t bytes) {
    count_fn *live;
    complaints_fn *complaints;
    (void)function("fakecuda_live_objects", &live, sizeof live);
    (void)function("fakecuda_complaints", &complaints, sizeof complaints);
    for (int i = 0; i < 500 && live(NULL) != 0; i++)
        (void)nanosleep(&(struct timespec){0, 10000000}, NULL);
    (void)snprintf(why, bytes, "%u objects of CUDA are left, %u complaints", live(NULL),
                   complaints());
    return live(NULL) == 0 && complaints() == 0;
}

const char *order_text(const char *text) {
    static char texts[4][128];
    static int next;
    const char *at = strstr(text, "sim:");
    if (at == NULL || runtime() == NULL) return text;
    char *out = texts[next++ % 4];
    (void)snprintf(out, sizeof texts[0], "%.*scuda:%s", (int)(at - text), text, at + 4);
    return out;
}

/* ---- running ---- */

static bool run_once(const order_program *p, const char *settings, uint64_t seed, char *out,
                     size_t out_bytes) {
    char sim[256];
    conform_env env = {.folder = "/tmp"};
    const dhow_context_options options = DHOW_INIT(dhow_context_options, .log = listen);
    g_seed = seed;
    (void)snprintf(sim, sizeof sim, "%s%sseed=%" PRIu64, settings, settings[0] != '\0' ? "," : "",
                   seed);
    const bool cuda = runtime() != NULL;
    const char *faults = cuda ? p->cuda_faults : p->faults;
    (void)setenv("DHOW_SIM", cuda ? "" : sim, 1);
    (void)setenv("DHOW_SIM_FAULTS", cuda || faults == NULL ? "" : faults, 1);
    if (cuda && !reset_runtime(sim, faults, out, out_bytes)) return false;
    atomic_store(&g_complaints, 0);
    if (dhow_context_create(&options, &env.context) != DHOW_OK ||
        dhow_device_get(env.context, order_text("sim:0"), &env.device) != DHOW_OK) {
        (void)snprintf(out, out_bytes, "%s: %s", p->name, dhow_last_error());
        return false;
    }
    conform_result result = p->fn(&env);
    conform_release_all(&env);
    dhow_context_release(env.context);
    if (result == CONFORM_PASS && p->faults == NULL && atomic_load(&g_complaints) > 0) {
        (void)snprintf(env.message, sizeof env.message, "the machine logged errors");
        result = CONFORM_FAIL;
    }
    if (result == CONFORM_PASS && cuda && !runtime_is_clean(env.message, sizeof env.message))
        result = CONFORM_FAIL;
    if (result == CONFORM_PASS) return true;
    (void)snprintf(out, out_bytes, "%s, %s: %s", p->name, sim, env.message);
    return false;
}

bool order_run(const order_program *p, uint32_t seeds, char *out, size_t out_bytes) {
    const bool cuda = runtime() != NULL;
    if (p->faults != NULL && cuda)
        return p->cuda_faults == NULL || run_once(p, p->cuda_settings, 1, out, out_bytes);
    if (p->faults != NULL) return run_once(p, p->settings, 1, out, out_bytes);
    for (int s = 0; s < SETTINGS; s++) {
        for (uint32_t seed = 1; seed <= seeds; seed++) {
            if (!run_once(p, cuda ? k_cuda_settings[s] : k_settings[s], seed, out, out_bytes))
                return false;
        }
    }
    return true;
}

dhow_device *order_device(conform_env *env, const char *name) {
    dhow_device *device;
    return dhow_device_get(env->context, order_text(name), &device) == DHOW_OK ? device : NULL;
}

conform_result order_full(conform_env *env, dhow_device *device, double value, dhow_tensor **out) {
    OWN(TENSOR, out, dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(ORDER_COUNT), value, out));
    return CONFORM_PASS;
}

conform_result order_expect_memory(conform_env *env, const float *memory, double value,
                                   const char *what) {
    for (int i = 0; i < ORDER_COUNT; i++) {
        CHECK((double)memory[i] == value, "%s: element %d is %g, not %g", what, i,
              (double)memory[i], value);
    }
    return CONFORM_PASS;
}

conform_result order_expect(conform_env *env, dhow_tensor *tensor, double value, const char *what) {
    float *got = conform_memory(env, ORDER_COUNT * sizeof *got);
    OK(dhow_tensor_read(tensor, got, ORDER_COUNT * sizeof *got));
    return order_expect_memory(env, got, value, what);
}
