/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading models from ONNX files and memory, see dhow/model.h.
 */
#include "model/graph/model.h"

static dhow_status take_file(dhow_context *context, dhowi_onnx_file *file, dhow_model **out) {
    dhow_status status = dhow_model_create(context, out);
    if (status != DHOW_OK) {
        dhowi_onnx_close(file);
        return status;
    }
    status = dhowi_model_import(*out, file);
    if (status == DHOW_OK) return DHOW_OK;
    dhow_model_release(*out);
    *out = NULL;
    return status;
}

dhow_status dhow_model_load(dhow_context *context, const char *path, dhow_model **out) {
    static const char function[] = "dhow_model_load";
    dhowi_onnx_file *file;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    if (path == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: path is NULL", function);
    DHOWI_TRY(dhowi_onnx_open(path, &file));
    return take_file(context, file, out);
}

dhow_status dhow_model_load_memory(dhow_context *context, const void *data, uint64_t bytes,
                                   dhow_model **out) {
    static const char function[] = "dhow_model_load_memory";
    dhowi_onnx_file *file;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    if (data == NULL || bytes == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: there is no data", function);
    DHOWI_TRY(dhowi_onnx_parse("model in memory", data, bytes, &file));
    return take_file(context, file, out);
}
