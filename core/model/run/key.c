/* SPDX-License-Identifier: Apache-2.0
 *
 * The key of a plan: the shapes and values of inputs that it depends on.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/run/run.h"

static bool add_word(dhowi_run_key *key, int64_t word) {
    if (key->length == key->capacity) {
        int64_t *old = key->words == key->room ? NULL : key->words;
        int64_t *grown = dhowi_realloc_array(old, (size_t)key->capacity * 2, sizeof *grown);
        if (grown == NULL) return false;
        if (old == NULL) memcpy(grown, key->room, sizeof key->room);
        key->words = grown;
        key->capacity *= 2;
    }
    key->words[key->length++] = word;
    return true;
}

static dhow_status add_values(dhowi_run_key *key, dhow_tensor *t) {
    dhow_tensor *host;
    void *data;
    DHOWI_TRY(dhow_tensor_to(t, t->storage->device->context->cpu, &host));
    dhow_status status = dhow_tensor_host_ptr(host, &data);
    uint64_t bytes = dhowi_tensor_bytes(host);
    for (uint64_t i = 0; status == DHOW_OK && i < bytes; i += sizeof(int64_t)) {
        int64_t word = 0;
        memcpy(&word, (const char *)data + i, DHOWI_MIN(bytes - i, (uint64_t)sizeof word));
        if (!add_word(key, word)) status = dhowi_fail_memory("dhow_model_run");
    }
    dhow_tensor_release(host);
    return status;
}

static dhow_status add_tensor(dhowi_run_key *key, dhow_tensor *t, bool keyed) {
    bool added = add_word(key, t->rank);
    for (int32_t k = 0; k < t->rank; k++) added = added && add_word(key, t->shape[k]);
    if (!added) return dhowi_fail_memory("dhow_model_run");
    return keyed ? add_values(key, t) : DHOW_OK;
}

static dhow_status add_texts(dhowi_run_key *key, const dhow_datum *texts) {
    bool added = add_word(key, texts->rank);
    for (int32_t k = 0; k < texts->rank; k++) added = added && add_word(key, texts->shape[k]);
    for (int64_t i = 0; i < texts->count && added; i++) {
        size_t length = strlen(texts->texts[i]);
        added = add_word(key, (int64_t)length);
        for (size_t at = 0; at < length && added; at += sizeof(int64_t)) {
            int64_t word = 0;
            memcpy(&word, texts->texts[i] + at, DHOWI_MIN(length - at, sizeof word));
            added = add_word(key, word);
        }
    }
    return added ? DHOW_OK : dhowi_fail_memory("dhow_model_run_data");
}

static dhow_status add_given(dhowi_run_key *key, const dhowi_run_io *io, const dhow_datum *given,
                             bool keyed, uint32_t *slot) {
    if (!add_word(key, given->kind) || !add_word(key, given->count))
        return dhowi_fail_memory("dhow_model_run_data");
    if (given->kind == DHOW_DATUM_TEXTS) return add_texts(key, given);
    if (given->kind == DHOW_DATUM_TENSOR) return add_tensor(key, io->inputs[(*slot)++], keyed);
    for (int64_t i = 0; i < given->count; i++)
        DHOWI_TRY(add_given(key, io, given->items[i], keyed, slot));
    return DHOW_OK;
}

dhow_status dhowi_run_key_make(const dhow_model *m, const dhowi_run_io *io, dhowi_run_key *key) {
    if (key->words != key->room) dhowi_free(key->words);
    key->words = key->room;
    key->capacity = DHOWI_KEY_ROOM;
    key->length = 0;
    (void)add_word(key, (int64_t)dhowi_compute_in(dhowi_model_inside(m), m->device, DHOW_F32));
    /* First, and none instead of zeros: what follows is of any length. */
    for (uint32_t i = 0; io->shares != NULL && i < io->output_count; i++) {
        if (io->shares[i] != 0 && (!add_word(key, i) || !add_word(key, io->shares[i])))
            return dhowi_fail_memory("dhow_model_run");
    }
    if (!add_word(key, -1)) return dhowi_fail_memory("dhow_model_run");
    for (uint32_t i = 0, slot = 0; i < m->input_count; i++) {
        bool keyed = atomic_load_explicit(&m->values[m->inputs[i]].keyed, memory_order_relaxed);
        DHOWI_TRY(io->values != NULL ? add_given(key, io, io->values[i], keyed, &slot)
                                     : add_tensor(key, io->inputs[i], keyed));
    }
    return DHOW_OK;
}
