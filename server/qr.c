/* SPDX-License-Identifier: MIT */
/* qr.c - QR codes by libqrencode, drawn with half blocks. */
#include <qrencode.h>
#include <stdbool.h>
#include "qr.h"

enum { QUIET = 2 /* modules around it; the standard has 4, but readers manage with less */ };

static bool is_dark(const QRcode *code, int x, int y)
{
    if (x < 0 || y < 0 || x >= code->width || y >= code->width)
        return false;
    return code->data[y * code->width + x] & 1;
}

void qr_print(const char *text, FILE *out)
{
    static const char *const half[] = {" ", "\xE2\x96\x84", "\xE2\x96\x80", "\xE2\x96\x88"};
    QRcode *code = QRcode_encodeString8bit(text, 0, QR_ECLEVEL_L);

    if (!code)
        return;
    for (int y = -QUIET; y < code->width + QUIET; y += 2) {
        fputs("  \x1b[38;5;16;48;5;231m", out);
        for (int x = -QUIET; x < code->width + QUIET; x++)
            fputs(half[2 * is_dark(code, x, y) + is_dark(code, x, y + 1)], out);
        fputs("\x1b[0m\n", out);
    }
    fflush(out);
    QRcode_free(code);
}
