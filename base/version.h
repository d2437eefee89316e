/* SPDX-License-Identifier: MIT */
/* version.h - what rung --version and the Server field say. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H
#define RUNG_VERSION "0.1"
#endif
