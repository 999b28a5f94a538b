/* SPDX-License-Identifier: Apache-2.0
 *
 * See slots.h: objects and work in few words.
 */
#include "core/kernel/builtin.h"
#include "slots.h"

/* ---- objects ---- */

static void own(conform_env *env, slot_owned owned) {
    conform_slots *s = env->slots;
    if (s->owned_count == sizeof s->owned / sizeof s->owned[0]) abort(); /* a mistake of the case */
    s->owned[s->owned_count++] = owned;
}

void slot_own_module(conform_env *env, void *module) {
    own(env, (slot_owned){.kind = SLOT_MODULE, .object = module});
}

void slot_disown(conform_env *env, const void *object, uint64_t handle) {
    conform_slots *s = env->slots;
    for (uint32_t i = s->owned_count; i-- > 0;) {
        if (s->owned[i].object != object || s->owned[i].handle != handle) continue;
        memmove(&s->owned[i], &s->owned[i + 1], (--s->owned_count - i) * sizeof s->owned[0]);
        return;
    }
}

conform_result slot_stream(conform_env *env, void **out) {
    *out = NULL;
    SLOT(API->stream_create(DEVICE, 0, out, ERR));
    CHECK(*out != NULL, "stream_create reported success and gave nothing");
    own(env, (slot_owned){.kind = SLOT_STREAM, .object = *out});
    return CONFORM_PASS;
}

conform_result slot_event(conform_env *env, uint32_t flags, void **out) {
    *out = NULL;
    SLOT(API->event_create(DEVICE, flags, out, ERR));
    CHECK(*out != NULL, "event_create reported success and gave nothing");
    own(env, (slot_owned){.kind = SLOT_EVENT, .object = *out});
    return CONFORM_PASS;
}

conform_result slot_memory(conform_env *env, uint64_t bytes, uint64_t *out) {
    *out = 0;
    SLOT(API->mem_alloc(DEVICE, bytes, out, ERR));
    CHECK(*out != 0, "mem_alloc of %" PRIu64 " bytes reported success and gave 0", bytes);
    own(env, (slot_owned){.kind = SLOT_MEMORY, .handle = *out});
    return CONFORM_PASS;
}

conform_result slot_pinned(conform_env *env, uint64_t bytes, void **out, uint32_t *pinned) {
    int32_t code = DHOW_UNSUPPORTED;
    *out = NULL;
    *pinned = 0;
    if (API->host_alloc != NULL) code = API->host_alloc(DEVICE, bytes, out, ERR);
    if (code == DHOW_UNSUPPORTED) {
        *out = conform_memory(env, bytes);
        return CONFORM_PASS;
    }
    SLOT(code);
    CHECK(*out != NULL, "host_alloc reported success and gave nothing");
    own(env, (slot_owned){.kind = SLOT_PINNED, .object = *out});
    *pinned = 1;
    return CONFORM_PASS;
}

conform_result slot_gate(conform_env *env, void **out) {
    *out = NULL;
    if ((env->slots->desc.flags & DHOW_DEVICE_HOST_INLINE) != 0)
        return conform_unsupported(env, "the device works inside of its calls");
    if (API->event_signal == NULL)
        return conform_unsupported(env, "the plugin has no event_signal");
    int32_t code = API->event_create(DEVICE, DHOW_EVENT_HOST, out, ERR);
    if (code == DHOW_UNSUPPORTED)
        return conform_unsupported(env, "the device cannot wait for the host: %.480s",
                                   env->slots->err.message);
    SLOT(code);
    CHECK(*out != NULL, "event_create reported success and gave nothing");
    own(env, (slot_owned){.kind = SLOT_GATE, .object = *out});
    return CONFORM_PASS;
}

conform_result slot_gate_open(conform_env *env, void *gate) {
    conform_slots *s = env->slots;
    for (uint32_t i = 0; i < s->owned_count; i++) {
        if (s->owned[i].object == gate) s->owned[i].kind = SLOT_EVENT;
    }
    SLOT(API->event_signal(gate, ERR));
    return CONFORM_PASS;
}

/* ---- copies ---- */

conform_result slot_sync(conform_env *env, void *stream) {
    SLOT(API->stream_sync(stream, ERR));
    return CONFORM_PASS;
}

dhow_copy_end slot_device_end(uint64_t handle, uint64_t offset, uint64_t row, uint64_t plane) {
    return (dhow_copy_end){
        .space = DHOW_SPACE_DEVICE, .handle = handle, .offset = offset, .pitch = {row, plane}};
}

dhow_copy_end slot_host_end(const void *memory, uint32_t pinned, uint64_t row, uint64_t plane) {
    return (dhow_copy_end){.space = DHOW_SPACE_HOST,
                           .pinned = pinned,
                           .handle = (uint64_t)(uintptr_t)memory,
                           .pitch = {row, plane}};
}

dhow_copy_rect slot_flat(dhow_copy_end from, dhow_copy_end to, uint64_t bytes) {
    from.pitch[0] = from.pitch[1] = to.pitch[0] = to.pitch[1] = bytes;
    return (dhow_copy_rect){.extent = {bytes, 1, 1}, .src = from, .dst = to};
}

conform_result slot_write(conform_env *env, void *stream, uint64_t handle, uint64_t offset,
                          const void *data, uint64_t bytes) {
    const dhow_copy_rect rect =
        slot_flat(slot_host_end(data, 0, 0, 0), slot_device_end(handle, offset, 0, 0), bytes);
    SLOT(API->copy(stream, &rect, ERR));
    return slot_sync(env, stream);
}

conform_result slot_read(conform_env *env, void *stream, uint64_t handle, uint64_t offset,
                         void *data, uint64_t bytes) {
    const dhow_copy_rect rect =
        slot_flat(slot_device_end(handle, offset, 0, 0), slot_host_end(data, 0, 0, 0), bytes);
    SLOT(API->copy(stream, &rect, ERR));
    return slot_sync(env, stream);
}

conform_result slot_same_bytes(conform_env *env, const void *got, const void *want, uint64_t bytes,
                               const char *what) {
    const unsigned char *g = got, *w = want;
    if (memcmp(g, w, bytes) == 0) return CONFORM_PASS;
    uint64_t at = 0, wrong = 0;
    for (uint64_t i = bytes; i-- > 0;) {
        if (g[i] == w[i]) continue;
        at = i;
        wrong++;
    }
    FAIL("%s: byte %" PRIu64 " of %" PRIu64 " is 0x%02x, not 0x%02x; %" PRIu64 " are wrong", what,
         at, bytes, g[at], w[at], wrong);
}

/* ---- kernels ---- */

static const dhowi_builtin *builtin_entry(const char *name) {
    for (size_t i = 0; i < dhowi_builtin_kernel_count; i++) {
        if (strcmp(dhowi_builtin_kernels[i].name, name) == 0) return &dhowi_builtin_kernels[i];
    }
    return NULL;
}

static const unsigned char *unit_text(const char *unit) {
    for (size_t i = 0; i < dhowi_builtin_unit_count; i++) {
        if (strcmp(dhowi_builtin_units[i].name, unit) == 0) return dhowi_builtin_units[i].text;
    }
    return (const unsigned char *)"";
}

/* What a signature says: "(IN(f32,x), VAL(dims,d))". */
typedef struct parameters {
    dhow_kernel_param all[DHOW_MAX_KERNEL_ARGS];
    char names[DHOW_MAX_KERNEL_ARGS][24];
    uint32_t count;
} parameters;

static int32_t type_of(const char *name) {
    for (int t = DHOW_F32; t <= DHOW_BOOL; t++)
        if (strcmp(dhow_dtype_name((dhow_dtype)t), name) == 0) return t;
    return DHOW_PARAM_DIMS;
}

static void read_signature(const char *signature, parameters *out) {
    static const struct {
        const char *word;
        uint32_t kind;
    } kinds[] = {{"IN", DHOW_PARAM_IN},       {"OUT", DHOW_PARAM_OUT},
                 {"INOUT", DHOW_PARAM_INOUT}, {"ALIAS", DHOW_PARAM_ALIAS},
                 {"VAL", DHOW_PARAM_VALUE},   {"ALIAS_OUT", DHOW_PARAM_ALIAS_OUT}};
    char word[16], type[8];
    int length;
    out->count = 0;
    for (const char *at = signature + 1; out->count < DHOW_MAX_KERNEL_ARGS; at += length) {
        char *name = out->names[out->count];
        if (sscanf(at, " %15[A-Z_](%7[a-z0-9],%23[^)])%n", word, type, name, &length) != 3) break;
        length += at[length] == ',';
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (strcmp(kinds[i].word, word) == 0)
                out->all[out->count] = (dhow_kernel_param){kinds[i].kind, type_of(type), name};
        out->count++;
    }
}

/* A module holds all kernels of its text. */
static uint32_t declare_unit(const dhowi_builtin *entry, dhow_kernel_decl *out, uint32_t capacity) {
    static parameters params[256];
    uint32_t count = 0;
    for (size_t i = 0; i < dhowi_builtin_kernel_count && count < capacity; i++) {
        const dhowi_builtin *b = &dhowi_builtin_kernels[i];
        if (strcmp(b->unit, entry->unit) != 0 || strcmp(b->options, entry->options) != 0) continue;
        parameters *p = &params[count];
        read_signature(b->signature, p);
        out[count++] = (dhow_kernel_decl){b->name, b->signature, p->all, p->count, 0};
    }
    return count;
}

static conform_result compiled(conform_env *env, const dhowi_builtin *entry, uint32_t bits,
                               void **out_module) {
    static char log[4096], text[1 << 18], header[1 << 18];
    dhow_kernel_decl decl[256];
    const uint32_t count = declare_unit(entry, decl, sizeof decl / sizeof decl[0]);
    CHECK(dhowi_unpack(unit_text(entry->unit), NULL) < sizeof text &&
              dhowi_unpack(dhowi_kernel_header, NULL) < sizeof header,
          "the text of %s is too long for this case", entry->unit);
    (void)dhowi_unpack(unit_text(entry->unit), text);
    (void)dhowi_unpack(dhowi_kernel_header, header);
    const dhow_module_desc desc = {.struct_size = (uint32_t)sizeof desc,
                                   .format = DHOW_MODULE_PORTABLE,
                                   .name = entry->unit,
                                   .text = text,
                                   .text_bytes = strlen(text),
                                   .header = header,
                                   .options = entry->options,
                                   .kernels = decl,
                                   .kernel_count = count,
                                   .index_bits = bits,
                                   .log = log,
                                   .log_bytes = sizeof log};
    void *module = NULL;
    int32_t code = API->module_build(DEVICE, &desc, &module, ERR);
    if (code == DHOW_UNSUPPORTED)
        return conform_unsupported(env, "no kernel %s, ready-made or compiled: %.480s", entry->name,
                                   env->slots->err.message);
    SLOT(code);
    CHECK(module != NULL, "module_build reported success and gave nothing");
    slot_own_module(env, module);
    *out_module = module;
    return CONFORM_PASS;
}

conform_result slot_module(conform_env *env, const char *name, void **out) {
    const dhowi_builtin *entry = builtin_entry(name);
    const uint32_t bits = (env->slots->desc.index_bits & 64u) != 0 ? 64 : 32;
    CHECK(entry != NULL, "dhow has no kernel %s", name);
    return compiled(env, entry, bits, out);
}

conform_result slot_kernel(conform_env *env, const char *name, void **out) {
    const dhowi_builtin *entry = builtin_entry(name);
    const uint32_t bits = (env->slots->desc.index_bits & 64u) != 0 ? 64 : 32;
    int32_t code = DHOW_NOT_FOUND;
    *out = NULL;
    CHECK(entry != NULL, "dhow has no kernel %s", name);
    if (API->builtin_kernel != NULL) code = API->builtin_kernel(DEVICE, name, bits, out, ERR);
    if (code == DHOW_NOT_FOUND) {
        void *module;
        TRY(compiled(env, entry, bits, &module));
        code = API->module_kernel(module, name, out, ERR);
    }
    SLOT(code);
    CHECK(*out != NULL, "kernel %s: success was reported and nothing given", name);
    return CONFORM_PASS;
}

dhow_arg slot_buffer(uint64_t handle, uint64_t offset, uint32_t access) {
    return (dhow_arg){
        .kind = DHOW_ARG_BUFFER, .bytes = access, .u.buffer = {.handle = handle, .offset = offset}};
}

dhow_arg slot_i64(int64_t value) {
    return (dhow_arg){.kind = DHOW_ARG_VALUE, .bytes = 8, .u.value = (uint64_t)value};
}

dhow_arg slot_i32(int32_t value) {
    return (dhow_arg){.kind = DHOW_ARG_VALUE, .bytes = 4, .u.value = (uint32_t)value};
}
