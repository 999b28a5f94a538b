/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches a kernel that was compiled with emulate.h.
 */
#ifndef EMULATE_LAUNCH_H_
#define EMULATE_LAUNCH_H_

/* Calls body(user) for each of the 256 items of each group. 0 when memory is short. One thread. */
int emulate_launch(int groups, void (*body)(void *user), void *user);

#endif /* EMULATE_LAUNCH_H_ */
