/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed forms: what is made of a storage's contents and kept with it, as packed weights are.
 */
#include "base/memory/alloc.h"
#include "memory/pool.h"

static pthread_mutex_t g_packed_forms_mutex =
    PTHREAD_MUTEX_INITIALIZER; /* rarely taken: once per frozen weight and plan */

__attribute__((constructor)) static void guard(void) {
    dhowi_fork_guard(DHOWI_FORK_PACKED_FORMS, &g_packed_forms_mutex, false);
}

/* Shapes that vary ask for forms without end. */
enum { MOST_PACKED_FORMS = 12 };

/* Puts the form of a key first; NULL when there is none. */
static dhowi_packed_form *find_packed_form(dhowi_storage *s, uint64_t key) {
    for (dhowi_packed_form **p = &s->packed_forms; *p != NULL; p = &(*p)->next) {
        dhowi_packed_form *c = *p;
        if (c->key != key) continue;
        *p = c->next;
        c->next = s->packed_forms;
        s->packed_forms = c;
        return c;
    }
    return NULL;
}

dhowi_storage *dhowi_storage_companion(dhowi_storage *s, uint64_t key) {
    pthread_mutex_lock(&g_packed_forms_mutex);
    const dhowi_packed_form *c = find_packed_form(s, key);
    dhowi_storage *form = c != NULL ? c->storage : NULL;
    if (form != NULL) dhowi_storage_retain(form);
    pthread_mutex_unlock(&g_packed_forms_mutex);
    return form;
}

/* Takes the one that was not asked for longest out of a list that is too long. */
static dhowi_packed_form *take_oldest(dhowi_storage *s) {
    dhowi_packed_form **p = &s->packed_forms;
    for (int i = 0; i < MOST_PACKED_FORMS && *p != NULL; i++) p = &(*p)->next;
    dhowi_packed_form *c = *p;
    if (c != NULL) *p = c->next;
    return c;
}

dhow_status dhowi_storage_keep(dhowi_storage *s, uint64_t key, dhowi_storage *form,
                               dhowi_storage **out) {
    dhowi_packed_form *mine = dhowi_alloc(sizeof *mine), *gone = mine;
    if (mine == NULL) {
        dhowi_storage_release(form);
        return dhowi_fail_memory("packed weight");
    }
    *mine = (dhowi_packed_form){.key = key, .storage = form};
    pthread_mutex_lock(&g_packed_forms_mutex);
    const dhowi_packed_form *c = find_packed_form(s, key);
    if (c == NULL) {
        mine->next = s->packed_forms;
        s->packed_forms = mine;
        c = mine;
        gone = take_oldest(s);
    }
    *out = c->storage;
    dhowi_storage_retain(*out);
    pthread_mutex_unlock(&g_packed_forms_mutex);
    if (gone == NULL) return DHOW_OK;
    dhowi_storage_release(gone->storage);
    dhowi_free(gone);
    return DHOW_OK;
}
