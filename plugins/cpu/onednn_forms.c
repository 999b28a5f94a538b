/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of packed forms. What oneDNN makes of a weight depends on more than the weight, so plans
 * share a packed one where the descriptors before and after packing are the same.
 */
#include <string.h>

#include "onednn.h"

struct onednn_form {
    struct onednn_form *next;
    uint64_t number;
    onednn_md plain, packed;
};

static void release(onednn_form *f, const dhow_host *host) {
    onednn_md_release(&f->plain);
    onednn_md_release(&f->packed);
    host->free(host->user, f);
}

static onednn_form *new_form(const dhow_host *host, onednn_md plain, onednn_md packed) {
    onednn_form *f = host->alloc(host->user, sizeof *f, 64);
    if (!f) return NULL;
    memset(f, 0, sizeof *f);
    if (onednn_md_copy(&f->plain, plain) == dnnl_success &&
        onednn_md_copy(&f->packed, packed) == dnnl_success)
        return f;
    release(f, host);
    return NULL;
}

static onednn_form *find(onednn_form *f, onednn_md plain, onednn_md packed) {
    const onednn_library *dnnl = &onednn_loaded;
    while (f && !(dnnl->dnnl_memory_desc_equal(MD(f->plain), MD(plain)) &&
                  dnnl->dnnl_memory_desc_equal(MD(f->packed), MD(packed))))
        f = f->next;
    return f;
}

uint64_t onednn_form_of(cpu_device *device, onednn_md plain, onednn_md packed) {
    (void)pthread_mutex_lock(&device->lock);
    onednn_form *f = find(device->forms, plain, packed);
    if (!f) {
        f = new_form(device->backend->host, plain, packed);
        if (f) {
            f->number = device->forms ? device->forms->number + 1 : ONEDNN_FORMS;
            f->next = device->forms;
            device->forms = f;
        }
    }
    (void)pthread_mutex_unlock(&device->lock);
    return f ? f->number : 0;
}

void onednn_forms_release(cpu_device *device) {
    while (device->forms) {
        onednn_form *f = device->forms;
        device->forms = f->next;
        release(f, device->backend->host);
    }
}
