/* SPDX-License-Identifier: Apache-2.0 */
/* Enumerations of the C headers. */
#ifndef GPEMU_ENUM_H_
#define GPEMU_ENUM_H_

/* Follows the name of an enumeration. For C++, the values are then those of an int: a caller's
 * value that has no name is an error, and not undefined behaviour. */
#ifdef __cplusplus
#define GPEMU_INT : int
#else
#define GPEMU_INT
#endif

#endif /* GPEMU_ENUM_H_ */
