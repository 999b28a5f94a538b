/* SPDX-License-Identifier: Apache-2.0
 *
 * What models of f32 compute in, see dhow/model.h. What becomes of each operator stands in
 * lower/precision.c.
 */
#include "model/run/run.h"

static const char *name_of(dhow_precision precision) {
    static const char *const names[] = {"DHOW_PRECISION_F32", "DHOW_PRECISION_REDUCED",
                                        "DHOW_PRECISION_BF16", "DHOW_PRECISION_F16",
                                        "DHOW_PRECISION_DEVICE"};
    return precision >= DHOW_PRECISION_F32 && precision <= DHOW_PRECISION_DEVICE ? names[precision]
                                                                                 : NULL;
}

dhow_precision dhow_model_precision(const dhow_model *m) {
    return dhowi_handle_is(m, DHOWI_MODEL) ? m->precision : DHOW_PRECISION_DEVICE;
}

static dhow_status change(dhow_model *m, const char *function, dhow_precision precision) {
    const dhow_precision before = m->precision;
    if (precision == before) return DHOW_OK;
    if (dhowi_half_of(before) == 0 && dhowi_half_of(precision) == 0) {
        m->precision = precision; /* it is part of the key of plans */
        return DHOW_OK;
    }
    DHOWI_TRY(dhowi_check_precision(m->device, precision));
    dhowi_model_forget(m);
    dhowi_model_drop_halves(m);
    dhowi_model_drop_residents(m);
    m->precision = precision;
    dhow_status status = dhowi_plan_trial(m);
    if (status == DHOW_OK) status = dhowi_place_parameters(m);
    if (status == DHOW_OK) return DHOW_OK;
    dhowi_model_forget(m);
    dhowi_model_drop_halves(m);
    m->precision = before; /* parameters go to the device again with the next plan */
    return dhowi_fail_prefix(status, "%s", function);
}

dhow_status dhow_model_set_precision(dhow_model *m, dhow_precision precision) {
    static const char function[] = "dhow_model_set_precision";
    DHOWI_TRY(dhowi_model_check(m, function));
    if (name_of(precision) == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %d is no precision; DHOW_PRECISION_F32, _REDUCED, _BF16, _F16 and "
                          "_DEVICE are",
                          function, (int)precision);
    DHOWI_TRY(dhowi_model_begin_change(m, function));
    dhow_status status = change(m, function, precision);
    dhowi_model_end_change(m);
    return status;
}
