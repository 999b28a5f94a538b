/* SPDX-License-Identifier: Apache-2.0
 *
 * See onnx_wire.h.
 */
#include "formats/onnx_wire.h"

#include <stddef.h>

bool dhowi_wire_fail(dhowi_wire *wire, dhow_status status, const char *reason) {
    if (wire->status == DHOW_OK) {
        wire->status =
            dhowi_fail(status, "%s, byte %td: %s", wire->name, wire->at - wire->begin, reason);
    }
    wire->at = wire->end;
    return false;
}

bool dhowi_wire_join(dhowi_wire *wire, const dhowi_wire *inside) {
    if (inside->status == DHOW_OK) return true;
    wire->status = inside->status; /* the message is already this thread's */
    wire->at = wire->end;
    return false;
}

dhowi_wire dhowi_wire_inside(const dhowi_wire *wire, dhowi_slice bytes) {
    dhowi_wire inside = *wire;
    /* A number where a message should be has no bytes: an empty message. */
    inside.at = bytes.data != NULL ? bytes.data : wire->end;
    inside.end = inside.at + bytes.length;
    inside.status = DHOW_OK;
    return inside;
}

bool dhowi_wire_varint(dhowi_wire *wire, uint64_t *out) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (wire->at == wire->end)
            return dhowi_wire_fail(wire, DHOW_CORRUPT, "the file ends within a number");
        uint8_t byte = (uint8_t)*wire->at++;
        value |= (uint64_t)(byte & 0x7fu) << shift;
        if ((byte & 0x80u) == 0) {
            *out = value;
            return true;
        }
    }
    return dhowi_wire_fail(wire, DHOW_CORRUPT, "a number is longer than 64 bits");
}

static bool take(dhowi_wire *wire, uint64_t length, dhowi_slice *out) {
    if (length > (uint64_t)(wire->end - wire->at))
        return dhowi_wire_fail(wire, DHOW_CORRUPT, "a field reaches past the end of its message");
    *out = (dhowi_slice){wire->at, (size_t)length};
    wire->at += length;
    return true;
}

bool dhowi_wire_next(dhowi_wire *wire, dhowi_field *field) {
    uint64_t key, length;
    if (wire->at >= wire->end || !dhowi_wire_varint(wire, &key)) return false;
    *field = (dhowi_field){.number = (uint32_t)(key >> 3), .type = (uint32_t)(key & 7)};
    if (key >> 3 == 0 || key >> 3 > 536870911)
        return dhowi_wire_fail(wire, DHOW_CORRUPT, "a field number is out of range");
    switch (field->type) {
        case DHOWI_WIRE_VARINT:
            return dhowi_wire_varint(wire, &field->value);
        case DHOWI_WIRE_64:
            return take(wire, 8, &field->bytes);
        case DHOWI_WIRE_32:
            return take(wire, 4, &field->bytes);
        case DHOWI_WIRE_BYTES:
            return dhowi_wire_varint(wire, &length) && take(wire, length, &field->bytes);
        default:
            return dhowi_wire_fail(wire, DHOW_CORRUPT, "not a protocol buffer: bad field type");
    }
}
