/* SPDX-License-Identifier: Apache-2.0
 *
 * How functions fail. Every function that can fail returns a dhow_status; dhow_last_error() tells
 * the story. dhow never aborts, exits or falls back in silence.
 */
#ifndef DHOW_STATUS_H_
#define DHOW_STATUS_H_

#include "dhow/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define DHOW_NODISCARD __attribute__((warn_unused_result))
#define DHOW_API __attribute__((visibility("default")))
#define DHOW_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define DHOW_NODISCARD
#define DHOW_API
#define DHOW_PRINTF(text, first)
#endif

/**
 * A struct of dhow with its size and, in C, the fields that are named, the others 0:
 * DHOW_INIT(dhow_loader_options, .batch_size = 32, .shuffle = 1). A program tells by the size which
 * fields it knows: it runs with later libraries that know more, and with earlier ones as long as it
 * leaves what they do not know 0. Elements of arrays are all made by the same version.
 */
#ifdef __cplusplus
extern "C++" {
template <typename T>
inline T dhow_init_() {
    T made = T();
    made.struct_size = static_cast<uint32_t>(sizeof(T));
    return made;
}
}
#define DHOW_INIT(type) (::dhow_init_<type>())
#else
#define DHOW_INIT(...) DHOW_INIT_(__VA_ARGS__, )
#define DHOW_INIT_(type, ...) ((type){.struct_size = sizeof(type), __VA_ARGS__})
/** The same as an initializer, for static data and tables: DHOW_FIELDS(dhow_layer, .kind = ...) */
#define DHOW_FIELDS(...) DHOW_FIELDS_(__VA_ARGS__, )
#define DHOW_FIELDS_(type, ...) \
    { .struct_size = sizeof(type), __VA_ARGS__ }
#endif

/**
 * The message of the calling thread's last failure: what failed, on which object, why (with the
 * vendor's code and text) and what to try. "" before the first failure.
 *
 * Ownership: borrowed until this thread's next dhow call. Threads: any, each has its own. Blocks:
 * no.
 */
DHOW_API const char *dhow_last_error(void);

/**
 * The vendor's number behind the calling thread's last failure, or 0.
 *
 * Threads: any. Blocks: no.
 */
DHOW_API int64_t dhow_last_native_code(void);

/**
 * Sets the calling thread's message, for code that dhow calls back and libraries built on it: a
 * dataset's `read` that fails says why.
 *
 * @param status  what the function that fails returns
 * @param format  as for printf(), not NULL, with its arguments; at most 1023 bytes of result are
 * kept
 * @return status
 *
 * Threads: any, each has its own. Blocks: no.
 */
DHOW_API dhow_status dhow_set_error(dhow_status status, const char *format, ...) DHOW_PRINTF(2, 3);

/**
 * The name of a status, "INVALID_ARGUMENT".
 *
 * @param status  any number; one that is none is "UNKNOWN"
 *
 * Ownership: static. Threads: any. Blocks: no.
 */
DHOW_API const char *dhow_status_name(dhow_status status);

/**
 * What a status means, in a few words.
 *
 * @param status  any number; one that is none is "not a status"
 *
 * Ownership: static. Threads: any. Blocks: no.
 */
DHOW_API const char *dhow_status_text(dhow_status status);

/**
 * The version of the library that is loaded, "0.2.0".
 *
 * Ownership: static. Threads: any. Blocks: no.
 */
DHOW_API const char *dhow_version(void);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_STATUS_H_ */
