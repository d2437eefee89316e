/* SPDX-License-Identifier: MIT */
/* qr.h - a text as a QR code (ISO/IEC 18004) on a terminal. */
#ifndef SERVER_QR_H
#define SERVER_QR_H
#include <stdio.h>

/* Writes the code, two rows of it to a line, black on white whatever the terminal's colours are.
 * Writes nothing if the text is too long, or if rung was built without libqrencode. */
void qr_print(const char *text, FILE *out);

#endif
