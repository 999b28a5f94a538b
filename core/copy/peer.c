/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between two devices of one backend. A pair is used only after real bytes went across and
 * came back right: some machines promise peer access and deliver garbage.
 */
#include <string.h>

#include "base/text/text.h"
#include "copy/staging.h"

enum { TRIAL_BYTES = 4096 };

typedef struct peers {
    const dhow_tensor *src, *dst;
} peers;

static int32_t run_peer(const void *user, dhow_device *device, void *stream, dhow_error *err) {
    const dhow_tensor *src = ((const peers *)user)->src, *dst = ((const peers *)user)->dst;
    return device->api->peer_copy(stream, dhowi_device_native(dhowi_tensor_device(src)),
                                  src->storage->native, dhowi_tensor_offset_bytes(src),
                                  dst->storage->native, dhowi_tensor_offset_bytes(dst),
                                  dhowi_tensor_bytes(src), err);
}

dhow_status dhowi_copy_peer(dhow_stream *stream, dhow_tensor *src, dhow_tensor *dst, bool ordered) {
    const dhowi_use uses[] = {{src->storage, DHOW_ACCESS_READ},
                              dhowi_use_of(dst, DHOW_ACCESS_WRITE)};
    const peers both = {src, dst};
    const dhowi_work work = {.kind = DHOWI_WORK_CALL,
                             .traced = DHOWI_TRACE_COPY,
                             .name = "copy",
                             .what = "peer copy",
                             .bytes = dhowi_tensor_bytes(src),
                             .path = "peer to peer",
                             .u.call = {run_peer, &both}};
    return dhowi_copy_submit_work(stream, &work, uses, ordered);
}

/* By the host queue to and from the pair, for the functions that choose a way ask this file. */
static dhow_status send_trial(dhow_device *dst, dhow_device *src, unsigned char *sent,
                              unsigned char *got) {
    enum { HOST, FROM, TO, BACK, TENSORS };
    dhow_device *const devices[TENSORS] = {src->context->cpu, src, dst, src->context->cpu};
    dhow_tensor *t[TENSORS] = {NULL};
    dhow_stream *to_src, *to_dst;
    void *bytes;
    const int64_t shape[] = {TRIAL_BYTES};
    for (int i = 0; i < TRIAL_BYTES; i++) sent[i] = (unsigned char)(i * 37 + 11);
    dhow_status status = dhowi_stream_default(src, &to_src);
    if (status == DHOW_OK) status = dhowi_stream_default(dst, &to_dst);
    for (int i = 0; i < TENSORS && status == DHOW_OK; i++)
        status = dhowi_tensor_new(devices[i], DHOW_U8, 1, shape, &t[i]);
    if (status == DHOW_OK) status = dhow_tensor_host_ptr(t[HOST], &bytes);
    if (status == DHOW_OK) memcpy(bytes, sent, TRIAL_BYTES);
    if (status == DHOW_OK) status = dhowi_copy_queue(to_src, t[HOST], t[FROM], true);
    if (status == DHOW_OK) status = dhowi_copy_peer(to_dst, t[FROM], t[TO], true);
    if (status == DHOW_OK) status = dhowi_copy_queue(to_dst, t[TO], t[BACK], true);
    if (status == DHOW_OK) status = dhow_tensor_host_ptr(t[BACK], &bytes); /* waits for it */
    if (status == DHOW_OK) memcpy(got, bytes, TRIAL_BYTES);
    for (int i = 0; i < TENSORS; i++) dhow_tensor_release(t[i]);
    return status;
}

/* The reason against it goes to `reason`, which is empty where the driver offers no such copies. */
static bool try_pair(dhow_device *dst, dhow_device *src, dhowi_text *reason) {
    dhow_error err;
    dhowi_error_init(&err);
    if (dst->api->can_copy(dhowi_device_native(dst), dhowi_device_native(src), &err) != DHOW_OK)
        return false;
    unsigned char sent[TRIAL_BYTES], got[TRIAL_BYTES] = {0};
    dhow_status status = send_trial(dst, src, sent, got);
    if (status == DHOW_OK && memcmp(sent, got, sizeof sent) == 0) return true;
    dhowi_text_add(reason, "%s",
                   status == DHOW_OK ? "a trial delivered wrong bytes" : dhow_last_error());
    return false;
}

bool dhowi_peer_works(dhow_device *dst, dhow_device *src) {
    if (dst->plugin != src->plugin) return false;
    dhowi_staging *s = dhowi_staging_of(dst);
    if (s == NULL || dhowi_device_open(dst) != DHOW_OK || dhowi_device_open(src) != DHOW_OK)
        return false;
    char message[512] = "";
    dhowi_text reason = DHOWI_TEXT(message);
    pthread_mutex_lock(&s->peer_mutex);
    uint32_t i = 0;
    while (i < s->peer_count && s->peers[i].device != src) i++;
    if (i == s->peer_count && i < DHOWI_MAX_PEERS) {
        s->peers[i].device = src;
        s->peers[i].works = try_pair(dst, src, &reason);
        s->peer_count++;
    }
    bool works = i < s->peer_count && s->peers[i].works;
    pthread_mutex_unlock(&s->peer_mutex);
    if (message[0] != '\0') {
        dhowi_log_line(&dst->context->log, DHOW_LOG_WARN,
                       "peer copies from %s to %s are not used: %s", src->name, dst->name, message);
    }
    return works;
}
