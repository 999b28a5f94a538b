/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of probing and enumeration: the same answers every time, and answers that can be used.
 */
#include <stddef.h>

#include "slots.h"

static conform_result probe_once(conform_env *env, dhow_probe *out) {
    memset(out, 0, sizeof *out);
    out->struct_size = (uint32_t)sizeof *out;
    SLOT(API->probe(&env->slots->given->host, out, ERR));
    CHECK(memchr(out->reason, '\0', sizeof out->reason) != NULL, "its reason is not terminated");
    CHECK(memchr(out->hint, '\0', sizeof out->hint) != NULL, "its hint is not terminated");
    return CONFORM_PASS;
}

static conform_result probes_again(conform_env *env) {
    dhow_probe first, second;
    TRY(probe_once(env, &first));
    TRY(probe_once(env, &second));
    CHECK(first.state == second.state && strcmp(first.reason, second.reason) == 0,
          "the second answer is state %d, the first was %d", second.state, first.state);
    CHECK(first.state == DHOW_PLUGIN_READY, "state %d with the backend open: %s", first.state,
          first.reason);
    CHECK(strpbrk(first.reason, "\n\r") == NULL && strpbrk(first.hint, "\n\r") == NULL,
          "reason and hint are one line each");
    return CONFORM_PASS;
}

static conform_result count_of(conform_env *env, void *backend, uint32_t *out) {
    *out = 0;
    SLOT(API->device_count(backend, out, ERR));
    CHECK(*out >= 1 && *out <= 1024, "%u devices", *out);
    return CONFORM_PASS;
}

static conform_result counts_again(conform_env *env) {
    uint32_t first, again;
    void *second = NULL;
    TRY(count_of(env, env->slots->backend, &first));
    TRY(count_of(env, env->slots->backend, &again));
    CHECK(first == again, "%u devices, and %u a moment later", first, again);
    SLOT(API->open(&env->slots->given->host, &second, ERR));
    conform_result result = count_of(env, second, &again);
    API->close(second);
    TRY(result);
    CHECK(first == again, "%u devices, and %u for a backend opened beside it", first, again);
    (void)snprintf(env->message, sizeof env->message, "%u device%s", first, first == 1 ? "" : "s");
    return CONFORM_PASS;
}

static conform_result describe(conform_env *env, uint32_t index, dhow_device_desc *d) {
    memset(d, 0, sizeof *d);
    d->struct_size = (uint32_t)sizeof *d;
    SLOT(API->device_describe(env->slots->backend, index, d, ERR));
    return CONFORM_PASS;
}

/* What tools print: no line ends or escape codes, and UTF-8. */
static bool is_printable(const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at != 0;) {
        const int more = *at >= 0xf0 ? 3 : *at >= 0xe0 ? 2 : *at >= 0xc2 ? 1 : 0;
        if (*at < 0x20 || *at == 0x7f || (more == 0 && *at >= 0x80) || *at > 0xf4) return false;
        for (int i = 1; i <= more; i++)
            if ((at[i] & 0xc0) != 0x80) return false;
        at += more + 1;
    }
    return true;
}

static conform_result check_description(conform_env *env, uint32_t i, const dhow_device_desc *d) {
    CHECK(memchr(d->name, '\0', sizeof d->name) != NULL && d->name[0] != '\0',
          "device %u: the name is empty or not terminated", i);
    CHECK(memchr(d->driver, '\0', sizeof d->driver) != NULL &&
              memchr(d->uuid, '\0', sizeof d->uuid) != NULL &&
              memchr(d->pci, '\0', sizeof d->pci) != NULL,
          "device %u: a text is not terminated", i);
    CHECK(is_printable(d->name) && is_printable(d->driver) && is_printable(d->uuid) &&
              is_printable(d->pci),
          "device %u: a text has control characters or is no UTF-8", i);
    CHECK(d->kind >= DHOW_DEVICE_CPU && d->kind <= DHOW_DEVICE_SIMULATED,
          "device %u: kind %u does not exist", i, d->kind);
    CHECK(d->offset_align != 0 && (d->offset_align & (d->offset_align - 1)) == 0 &&
              d->offset_align <= 4096,
          "device %u: offset_align %u; a power of two up to 4096 is allowed", i, d->offset_align);
    CHECK((d->index_bits & 96u) != 0 && (d->index_bits & ~96u) == 0,
          "device %u: index_bits %u; 32, 64 or 96 is allowed", i, d->index_bits);
    CHECK(d->memory_bytes > 0, "device %u: memory_bytes is 0", i);
    CHECK(d->memory_bytes <= UINT64_C(1) << 50,
          "device %u: memory_bytes is %" PRIu64 ", more than a PiB", i, d->memory_bytes);
    CHECK(d->free_bytes <= d->memory_bytes, "device %u: more memory is free than there is", i);
    CHECK((d->dtypes & DHOW_DTYPE_BIT(DHOW_F32)) != 0, "device %u: dtypes has no f32", i);
    const uint32_t flags = DHOW_DEVICE_HOST_INLINE | DHOW_DEVICE_HOST_VISIBLE |
                           DHOW_DEVICE_PAGEABLE_ASYNC | DHOW_DEVICE_TENSOR_CORES |
                           DHOW_DEVICE_RUNS_KERNELS;
    CHECK((d->flags & ~flags) == 0, "device %u: flags 0x%x, of which dhow knows 0x%x", i, d->flags,
          flags);
    CHECK((d->flags & DHOW_DEVICE_HOST_VISIBLE) == 0 || API->map != NULL,
          "device %u: HOST_VISIBLE without the slot map", i);
    CHECK(d->dlpack_type != 1 && d->dlpack_host_type != 1,
          "device %u: DLPack's type 1 is plain host memory; leave it 0", i);
    return CONFORM_PASS;
}

static conform_result describes_devices(conform_env *env) {
    uint32_t count;
    TRY(count_of(env, env->slots->backend, &count));
    for (uint32_t i = 0; i < count; i++) {
        dhow_device_desc d, again;
        TRY(describe(env, i, &d));
        TRY(check_description(env, i, &d));
        TRY(describe(env, i, &again));
        again.free_bytes = d.free_bytes; /* others may use the device meanwhile */
        CHECK(memcmp(&d, &again, sizeof d) == 0, "device %u: two descriptions differ", i);
    }
    return CONFORM_PASS;
}

static conform_result opens_devices(conform_env *env) {
    uint32_t count;
    TRY(count_of(env, env->slots->backend, &count));
    for (uint32_t i = 0; i < count; i++) {
        for (int twice = 0; twice < 2; twice++) {
            void *device = NULL;
            if (i == env->slots->index) continue; /* is open */
            SLOT(API->device_open(env->slots->backend, i, &device, ERR));
            CHECK(device != NULL, "device %u: device_open reported success and gave nothing", i);
            API->device_close(device);
        }
    }
    return CONFORM_PASS;
}

static conform_result lists_components(conform_env *env) {
    NEEDS_SLOT(component);
    for (uint32_t i = 0;; i++) {
        dhow_component c;
        memset(&c, 0, sizeof c);
        c.struct_size = (uint32_t)sizeof c;
        int32_t code = API->component(env->slots->backend, i, &c, ERR);
        if (code == DHOW_OUT_OF_RANGE) return CONFORM_PASS;
        SLOT(code);
        CHECK(i < 64, "there is no end of components");
        CHECK(memchr(c.name, '\0', sizeof c.name) != NULL && c.name[0] != '\0' &&
                  memchr(c.purpose, '\0', sizeof c.purpose) != NULL &&
                  memchr(c.detail, '\0', sizeof c.detail) != NULL,
              "component %u: a text is empty or not terminated", i);
        CHECK(c.present == 0 || c.present == 1, "component %u: present is %d", i, c.present);
    }
}

/* A table of another major is another table; what a plugin has is whole. */
static conform_result has_whole_extensions(conform_env *env) {
    static const struct {
        const char *id;
        uint32_t bytes;
    } known[] = {{"dhow.blas/1", offsetof(dhow_blas, packed_form)}, /* which may be NULL */
                 {"dhow.conv/1", offsetof(dhow_conv, packed_form)},
                 {"dhow.graph/1", sizeof(dhow_capture)},
                 {"dhow.native/1", sizeof(dhow_native)}};
    static const char *const unknown[] = {"dhow.blas/2", "dhow.blas", "nobody.knows/1", ""};
    char found[100] = "";
    NEEDS_SLOT(get_extension);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        CHECK(API->get_extension(DEVICE, unknown[i]) == NULL, "it has an extension '%s'",
              unknown[i]);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const uint32_t *words = API->get_extension(DEVICE, known[i].id);
        if (words == NULL) continue;
        CHECK(words[0] >= known[i].bytes && words[0] % 8 == 0, "%s: struct_size %u, %u are needed",
              known[i].id, words[0], known[i].bytes);
        void *slots[sizeof(dhow_native) / sizeof(void *)]; /* the largest */
        memcpy(slots, words + 2, known[i].bytes - 8);
        for (uint32_t k = 0; k < (known[i].bytes - 8) / sizeof(void *); k++)
            CHECK(slots[k] != NULL, "%s: slot %u is NULL", known[i].id, k);
        (void)snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s",
                       found[0] != '\0' ? ", " : "", known[i].id);
    }
    (void)snprintf(env->message, sizeof env->message, "%s", found[0] != '\0' ? found : "none");
    return CONFORM_PASS;
}

const conform_case conform_devices_cases[] = {
    CASE("devices/probe", probes_again, "devices"),
    CASE("devices/count", counts_again, "devices"),
    CASE("devices/describe", describes_devices, "devices"),
    CASE("devices/open", opens_devices, "devices"),
    CASE("devices/components", lists_components, "devices"),
    CASE("devices/extensions", has_whole_extensions, "devices"),
};
CASES_END(conform_devices);
