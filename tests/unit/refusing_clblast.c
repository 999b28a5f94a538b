/* SPDX-License-Identifier: Apache-2.0
 *
 * A libclblast.so.1 that refuses every product by CLBlast's number for wrong dimensions.
 */
#define REFUSES(name) \
    int name(void);   \
    int name(void) { return -1017; }

REFUSES(CLBlastSgemmStridedBatched)
REFUSES(CLBlastDgemmStridedBatched)
REFUSES(CLBlastHgemmStridedBatched)
