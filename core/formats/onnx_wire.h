/* SPDX-License-Identifier: Apache-2.0
 *
 * The wire format of protocol buffers, as much of it as ONNX files use.
 */
#ifndef DHOWI_FORMATS_ONNX_WIRE_H_
#define DHOWI_FORMATS_ONNX_WIRE_H_

#include "formats/onnx.h"

enum { DHOWI_WIRE_VARINT = 0, DHOWI_WIRE_64 = 1, DHOWI_WIRE_BYTES = 2, DHOWI_WIRE_32 = 5 };

/* A message being read. After a failure it stands at its end and `status` says which. */
typedef struct dhowi_wire {
    const char *at, *end;
    const char *begin; /* of the file, for messages */
    const char *name;  /* of the file */
    dhow_status status;
} dhowi_wire;

typedef struct dhowi_field {
    uint32_t number;
    uint32_t type;     /* DHOWI_WIRE_... */
    uint64_t value;    /* of a varint */
    dhowi_slice bytes; /* of the others */
} dhowi_field;

/* The next field; false at the end and after a failure. */
bool dhowi_wire_next(dhowi_wire *wire, dhowi_field *field);
/* A varint out of a packed run. */
bool dhowi_wire_varint(dhowi_wire *wire, uint64_t *out);
/* A message inside. */
dhowi_wire dhowi_wire_inside(const dhowi_wire *wire, dhowi_slice bytes);
/* Sets the status once, with the byte in the message. Returns false. */
bool dhowi_wire_fail(dhowi_wire *wire, dhow_status status, const char *reason);
/* Takes over a failure of a message inside; true when there was none. */
bool dhowi_wire_join(dhowi_wire *wire, const dhowi_wire *inside);

#endif /* DHOWI_FORMATS_ONNX_WIRE_H_ */
