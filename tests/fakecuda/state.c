/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the fake: made from the environment with the first call, made anew by a test. And
 * the objects behind handles: counted, and known by address, so that a wrong handle is an error and
 * no crash.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"

fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .driver = PTHREAD_MUTEX_INITIALIZER};

void fake_lock(void) { simdev_lock(&fake.lock); }
void fake_unlock(void) { simdev_unlock(&fake.lock); }

void *fake_new(size_t bytes) {
    SIMDEV_PRIVATE_BEGIN();
    void *memory = calloc(1, bytes);
    SIMDEV_PRIVATE_END();
    return memory;
}

void fake_delete(void *memory) {
    SIMDEV_PRIVATE_BEGIN();
    free(memory);
    SIMDEV_PRIVATE_END();
}

/* ---- complaints ---- */

void fakecuda_complain(const char *format, ...) {
    char message[sizeof fake.first_complaint];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(message, sizeof message, format, list);
    va_end(list);
    if (atomic_fetch_add(&fake.complaints, 1) == 0)
        memcpy(fake.first_complaint, message, sizeof message);
    (void)fprintf(stderr, "fake CUDA: %s\n", message);
    if (fake.settings.strict) abort();
}

__attribute__((destructor)) static void look_back(void) {
    fakecuda_objects left;
    if (!fake.ready || !fake.settings.strict || fake.process != getpid() ||
        fakecuda_live_objects(&left) == 0)
        return;
    fakecuda_complain(
        "left at the end: %u device blocks, %u host blocks, %u registrations, %u streams, %u "
        "events, %u graphs, %u recordings, %u libraries, %u contexts, %u of cuBLAS, %u of "
        "cuBLASLt, %u of cuDNN, %u of NCCL, %u programs",
        left.device_blocks, left.host_blocks, left.registrations, left.streams, left.events,
        left.graph_execs, left.graphs, left.libraries, left.contexts, left.blas_handles,
        left.lt_objects, left.cudnn_objects, left.nccl_comms, left.programs);
}

uint32_t fakecuda_complaints(void) { return atomic_load(&fake.complaints); }
const char *fakecuda_first_complaint(void) { return fake.first_complaint; }
uint32_t fakecuda_faults_struck(void) { return atomic_load(&fake.struck); }
uint32_t fakecuda_contexts_made(void) { return fake.contexts_made; }

/* ---- the machine ---- */

static void *machine_alloc(void *user, uint64_t bytes, uint64_t align) {
    (void)user;
    return aligned_alloc((size_t)align, (size_t)((bytes + align - 1) / align * align));
}

static void machine_free(void *user, void *memory) {
    (void)user;
    free(memory);
}

static void machine_complain(void *user, const char *message) {
    (void)user;
    fakecuda_complain("%s", message);
}

/* Work of a device failed: CUDA makes that stick. Memory that is none, was freed or is another
 * device's is an illegal address. */
static bool work_failed(void *user, uint32_t device, int32_t status, const char *message) {
    int none = 0;
    const int code = status > FAKE_STATUS ? status - FAKE_STATUS : cudaErrorIllegalAddress;
    (void)user;
    if (status <= FAKE_STATUS) (void)fprintf(stderr, "fake CUDA: device %u: %s\n", device, message);
    if (!fake_is_sticky(code)) return false;
    (void)atomic_compare_exchange_strong(&fake.sticky[device], &none, code);
    return true;
}

static void start_machine(void) {
    dhow_error err = {.struct_size = sizeof err};
    simdev_config *config = &fake.settings.machine;
    config->alloc = machine_alloc;
    config->free = machine_free;
    config->complain = machine_complain;
    config->failed = work_failed;
    int32_t status = simdev_machine_create(config, &fake.machine, &err);
    for (uint32_t i = 0; i < config->device_count && status == DHOW_OK; i++) {
        fake.contexts[i] = (fake_context){.device = (int)i};
        status = simdev_device_open(fake.machine, i, &fake.devices[i], &err);
    }
    if (status != DHOW_OK) fakecuda_complain("no machine: %s", err.message);
}

static bool configure(const char *settings, const char *faults, char *why, size_t bytes) {
    if (!fake_settings_parse(&fake.settings, settings, why, bytes)) return false;
    if (!fake_faults_parse(fake.faults, &fake.fault_count, faults, why, bytes)) return false;
    fake.process = getpid();
    start_machine();
    fake.ready = true;
    fake.generation++;
    return true;
}

void fakecuda_start(void) {
    char why[256];
    fake_lock();
    if (!fake.ready && !configure(getenv("FAKECUDA"), getenv("FAKECUDA_FAULTS"), why, sizeof why)) {
        fakecuda_complain("%s", why);
        (void)fake_settings_parse(&fake.settings, "init=999", why, sizeof why);
        fake.ready = true;
    }
    fake_unlock();
}

static fake_object *any_object(fakecuda_kind kind) {
    for (size_t i = 0; i < sizeof fake.objects / sizeof fake.objects[0]; i++) {
        for (fake_object *object = fake.objects[i]; object != NULL; object = object->next) {
            if (object->kind == kind) return object;
        }
    }
    return NULL;
}

/* Streams first, whose threads use the rest. */
static void release_everything(void) {
    fake_object *object;
    fake_stream_end_defaults();
    for (int kind = FAKECUDA_STREAM; kind < FAKECUDA_KINDS; kind++) {
        while ((object = any_object((fakecuda_kind)kind)) != NULL) {
            void *body = object + 1;
            if (kind == FAKECUDA_STREAM) fake_stream_end(body);
            if (kind == FAKECUDA_EVENT) simdev_event_destroy(((fake_event *)body)->native);
            if (kind == FAKECUDA_GRAPH || kind == FAKECUDA_GRAPH_EXEC) fake_graph_end(body);
            if (kind == FAKECUDA_LIBRARY) {
                fake_library_end(body);
            }
            fakecuda_object_delete(body);
        }
    }
    for (size_t i = 0; i < SIMDEV_MAX_DEVICES; i++) {
        simdev_device_close(fake.devices[i]);
        fake.devices[i] = NULL;
        atomic_store(&fake.sticky[i], 0);
        fake.sticky_reported[i] = false;
        fake.contexts[i] = (fake_context){0};
    }
    simdev_machine_destroy(fake.machine);
    fake.machine = NULL;
}

bool fakecuda_reset(const char *settings, const char *faults, char *why, size_t why_bytes) {
    if (fake.ready) release_everything();
    fake.ready = false;
    fake_counts_clear();
    fake.device_blocks = fake.host_blocks = fake.registrations = 0;
    fake.contexts_made = fake.timed_records = 0;
    memset(fake.peers, 0, sizeof fake.peers);
    fake_lock();
    const bool done = configure(settings, faults, why, why_bytes);
    fake.settings.ptx |= getenv("FAKECUDA_PTX") != NULL;
    fake_unlock();
    /* What closing the machine said of things left behind is known to who counts them. */
    atomic_store(&fake.complaints, 0);
    atomic_store(&fake.struck, 0);
    fake.first_complaint[0] = '\0';
    return done;
}

/* ---- objects ---- */

static fake_object **bucket(const void *body) {
    return &fake.objects[((uintptr_t)body >> 4) % (sizeof fake.objects / sizeof fake.objects[0])];
}

void *fakecuda_object_new(fakecuda_kind kind, size_t bytes) {
    fake_object *object = fake_new(sizeof *object + bytes);
    if (object == NULL) return NULL;
    object->kind = kind;
    fake_lock();
    object->next = *bucket(object + 1);
    *bucket(object + 1) = object;
    fake.counts[kind]++;
    fake_unlock();
    return object + 1;
}

static fake_object **link_of(const void *body) {
    fake_object **link = bucket(body);
    while (*link != NULL && (const void *)(*link + 1) != body) link = &(*link)->next;
    return link;
}

void fakecuda_object_delete(void *body) {
    fake_lock();
    fake_object **link = link_of(body), *object = *link;
    if (object != NULL) {
        fake.counts[object->kind]--;
        *link = object->next;
    }
    fake_unlock();
    if (object == NULL) fakecuda_complain("an object is released that is none");
    fake_delete(object);
}

bool fakecuda_object_is(const void *body, fakecuda_kind kind) {
    fake_lock();
    const fake_object *object = body != NULL ? *link_of(body) : NULL;
    const bool is = object != NULL && object->kind == kind;
    fake_unlock();
    return is;
}

uint32_t fakecuda_live_objects(fakecuda_objects *out) {
    fakecuda_objects objects = {0};
    uint32_t retained = 0;
    fake_lock();
    for (int i = 0; i < SIMDEV_MAX_DEVICES; i++) retained += fake.contexts[i].retained > 0 ? 1 : 0;
    objects.device_blocks = fake.device_blocks;
    objects.host_blocks = fake.host_blocks;
    objects.registrations = fake.registrations;
    objects.streams = fake.counts[FAKECUDA_STREAM];
    objects.events = fake.counts[FAKECUDA_EVENT];
    objects.graphs = fake.counts[FAKECUDA_GRAPH];
    objects.graph_execs = fake.counts[FAKECUDA_GRAPH_EXEC];
    objects.libraries = fake.counts[FAKECUDA_LIBRARY];
    objects.contexts = retained;
    objects.blas_handles = fake.counts[FAKECUDA_BLAS];
    objects.lt_objects = fake.counts[FAKECUDA_LT];
    objects.cudnn_objects = fake.counts[FAKECUDA_CUDNN];
    objects.nccl_comms = fake.counts[FAKECUDA_NCCL];
    objects.programs = fake.counts[FAKECUDA_PROGRAM];
    fake_unlock();
    if (out != NULL) *out = objects;
    return objects.device_blocks + objects.host_blocks + objects.registrations + objects.streams +
           objects.events + objects.graphs + objects.graph_execs + objects.libraries +
           objects.contexts + objects.blas_handles + objects.lt_objects + objects.cudnn_objects +
           objects.nccl_comms + objects.programs;
}

/* ---- for the fake libraries ---- */

bool fakecuda_setting(const char *name) {
    const struct {
        const char *name;
        bool value;
    } settings[] = {{"nolt", fake.settings.nolt},
                    {"nocudnn", fake.settings.nocudnn},
                    {"nofused", fake.settings.nofused},
                    {"mig", fake.settings.mig},
                    {"nonvrtc", fake.settings.nonvrtc},
                    {"nonvml", fake.settings.nonvml},
                    {"nonccl", fake.settings.nonccl},
                    {"oldnccl", fake.settings.oldnccl},
                    {"noheuristic", fake.settings.noheuristic},
                    {"ptx", fake.settings.ptx}};
    fakecuda_start();
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (strcmp(settings[i].name, name) == 0) return settings[i].value;
    }
    return false;
}

int fakecuda_current_device(void) { return fake_current(); }
int fakecuda_driver(void) {
    fakecuda_start();
    return fake.settings.driver;
}
int fakecuda_device_count(void) {
    fakecuda_start();
    return fake.settings.hidden ? 0 : (int)fake.settings.machine.device_count;
}

bool fakecuda_memory_info(int device, uint64_t *out_free, uint64_t *out_total) {
    dhow_error err = {.struct_size = sizeof err};
    return device >= 0 && device < fakecuda_device_count() &&
           simdev_mem_info(fake.devices[device], out_free, out_total, &err) == DHOW_OK;
}
