/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the settings of the machine from text.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

void simdev_config_init(simdev_config *config) {
    memset(config, 0, sizeof *config);
    config->device_count = 2;
    config->offset_align = 16;
    config->memory_bytes = UINT64_C(256) << 20;
    config->seed = 1;
    config->peer = true;
    config->host_events = true;
}

/* "64M" -> 67108864. Only bytes have suffixes, powers of 1024. */
static bool parse_number(const char *text, size_t length, bool suffix, uint64_t *out) {
    char digits[24];
    uint64_t shift = 0;
    char *end = NULL;
    if (length > 0 && suffix) {
        const char *found = strchr("KMG", text[length - 1]);
        if (found != NULL && *found != '\0') {
            shift = 10u * (uint64_t)(found - "KMG" + 1);
            length--;
        }
    }
    if (length == 0 || length >= sizeof digits || text[0] < '0' || text[0] > '9') return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    errno = 0;
    uint64_t value = strtoull(digits, &end, 10);
    if (errno != 0 || *end != '\0' || value > UINT64_MAX >> shift) return false;
    *out = value << shift;
    return true;
}

static bool parse_switch(const char *text, size_t length, bool *out) {
    if (length != 1 || (*text != '0' && *text != '1')) return false;
    *out = *text == '1';
    return true;
}

static bool parse_pageable(const char *text, size_t length, simdev_pageable *out) {
    static const char *const names[] = {"snapshot", "block", "late"};
    for (int i = 0; i < 3; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], text, length) == 0) {
            *out = (simdev_pageable)i;
            return true;
        }
    }
    return false;
}

static bool parse_images(const char *text, size_t length, uint32_t *out) {
    static const struct {
        const char *name;
        uint32_t layout;
    } layouts[] = {{"nchw", DHOW_LAYOUT_NCHW},
                   {"nhwc", DHOW_LAYOUT_NHWC},
                   {"blocks4", DHOW_LAYOUT_BLOCKS_4},
                   {"blocks8", DHOW_LAYOUT_BLOCKS_8},
                   {"blocks16", DHOW_LAYOUT_BLOCKS_16}};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        if (strlen(layouts[i].name) == length && memcmp(layouts[i].name, text, length) == 0) {
            *out = layouts[i].layout;
            return true;
        }
    }
    return false;
}

static bool parse_u32(const char *text, size_t length, uint32_t limit, uint32_t *out) {
    uint64_t value = 0;
    if (!parse_number(text, length, false, &value) || value > limit) return false;
    *out = (uint32_t)value;
    return true;
}

/* "1:3": of the first devices. */
static bool parse_speeds(const char *text, size_t length, uint32_t *speeds) {
    const char *end = text + length;
    for (int i = 0; i < SIMDEV_MAX_DEVICES; i++) {
        const char *colon = memchr(text, ':', (size_t)(end - text));
        const char *stop = colon != NULL ? colon : end;
        if (!parse_u32(text, (size_t)(stop - text), 1000000, &speeds[i]) || speeds[i] == 0)
            return false;
        if (colon == NULL) return true;
        text = colon + 1;
    }
    return false;
}

static bool set(simdev_config *config, const char *key, size_t key_length, const char *value,
                size_t length) {
    const struct {
        const char *name;
        uint64_t *target;
        bool suffix;
    } numbers[] = {
        {"memory", &config->memory_bytes, true},  {"delay_us", &config->delay_us, false},
        {"jitter_us", &config->jitter_us, false}, {"launch_us", &config->launch_us, false},
        {"bandwidth", &config->bandwidth, true},  {"work_rate", &config->work_rate, true},
        {"seed", &config->seed, false},           {"pci_bus", &config->pci_bus, false}};
#define IS(name) (key_length == sizeof(name) - 1 && memcmp(key, name, key_length) == 0)
    if (IS("devices")) return parse_u32(value, length, SIMDEV_MAX_DEVICES, &config->device_count);
    if (IS("pageable")) return parse_pageable(value, length, &config->pageable);
    if (IS("images")) return parse_images(value, length, &config->images);
    if (IS("speeds")) return parse_speeds(value, length, config->speeds);
    if (IS("without")) {
        if (length >= sizeof config->without) return false;
        memcpy(config->without, value, length);
        config->without[length] = '\0';
        return true;
    }
    if (IS("peer")) return parse_switch(value, length, &config->peer);
    if (IS("host_events")) return parse_switch(value, length, &config->host_events);
    if (IS("offset_align")) {
        uint32_t align = 0;
        if (!parse_u32(value, length, 4096, &align) || align == 0 || (align & (align - 1)) != 0)
            return false;
        config->offset_align = align;
        return true;
    }
#undef IS
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strlen(numbers[i].name) == key_length && memcmp(numbers[i].name, key, key_length) == 0)
            return parse_number(value, length, numbers[i].suffix, numbers[i].target);
    }
    return false;
}

int32_t simdev_config_parse(simdev_config *config, const char *settings, dhow_error *err) {
    for (const char *p = settings; p != NULL && *p != '\0';) {
        size_t length = strcspn(p, ",");
        const char *equals = memchr(p, '=', length);
        if (equals == NULL ||
            !set(config, p, (size_t)(equals - p), equals + 1, length - (size_t)(equals + 1 - p))) {
            return simdev_fail(
                err, DHOW_INVALID_ARGUMENT,
                "'%.*s' is no setting of the simulated machine: devices=0..16, "
                "memory=BYTES[K|M|G], "
                "delay_us=N, jitter_us=N, launch_us=N, work_rate=N[K|M|G], speeds=N:N:..., "
                "bandwidth=BYTES[K|M|G], seed=N, pci_bus=N, "
                "pageable=snapshot|block|late, peer=0|1, host_events=0|1, "
                "images=nchw|nhwc|blocks4|blocks8|blocks16, "
                "offset_align=POWER_OF_TWO, without=KERNEL",
                length > 60 ? 60 : (int)length, p);
        }
        p += length;
        if (*p == ',') p++;
    }
    return DHOW_OK;
}
