/* SPDX-License-Identifier: MIT */
/* A whole connection: any bytes, cut anywhere, short sends, errors, no memory, waits, time jumps.
 *
 * The first 16 bytes say how the world behaves, the rest is what the peer sends.  world.h checks
 * the invariants at each step.  When nothing goes wrong, the output must not depend on how the
 * bytes moved, nor on heads seen before.
 */
#include "../world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONTROL = 16, INPUT_MAX = 100000 };

static size_t draw_max(uint8_t byte)
{
    static const size_t max[] = {0, 1, 2, 3, 10, 100, 1000, 5000};

    return max[byte % 8];
}

/* Only the way the bytes move. */
static void set_moves(struct world *w, const uint8_t *control)
{
    w->recv_max = draw_max(control[1]);
    w->send_max = draw_max(control[2]);
    w->again_percent = control[3] % 64;
    w->pump.edge = control[4] & 1;
}

/* Time, errors, memory. */
static bool set_trouble(struct world *w, const uint8_t *control)
{
    w->silent = control[4] & 2;
    if (control[4] & 4)
        w->stall_at = (size_t)control[5] << (control[6] % 12);
    if (control[4] & 8)
        w->step_ms = 1u << (control[7] % 16);
    w->drip_ms = control[8] > 200 ? (uint32_t)control[8] : 0;
    w->wrong_at = control[9];
    w->wrong = w->wrong_at ? control[10] % WRONGS : WRONG_NOT;
    w->fake->fail_alloc = control[11] > 200 ? control[11] - 200u : 0;
    w->fake->fail_find = control[12] > 200 ? control[12] - 200u : 0;
    w->fake->host.closing = control[4] & 16;
    w->fake->host.body_bytes_max = control[4] & 32 ? 10 : BODY_BYTES_MAX;
    return w->silent || control[4] & 0x3c || w->drip_ms || w->wrong || w->fake->fail_alloc ||
           w->fake->fail_find;
}

static void compare(const struct world *w, const struct conn_proto *proto)
{
    static struct world plain;
    struct text want = {0};

    if (proto == &lines_proto) {
        lines_model(&want, w->in, w->in_len);
    } else if (proto == &echo_proto) {
        text_add(&want, w->in, w->in_len);
    } else {
        world_open(&plain, proto, 1);
        plain.in = w->in;
        plain.in_len = w->in_len;
        world_run(&plain);
        text_add(&want, plain.out.bytes, plain.out.len);
        world_close(&plain);
    }
    must(want.len == w->out.len);
    must(!want.len || !memcmp(want.bytes, w->out.bytes, want.len));
    text_free(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct conn_proto *const protos[] = {&http_proto, &lines_proto, &echo_proto,
                                                      &http_proto};
    static struct http_recent recent;
    static struct world w;
    const struct conn_proto *proto;
    bool trouble;

    if (size < CONTROL || size > INPUT_MAX)
        return 0;
    proto = protos[data[0] % 4];
    world_open(&w, proto, data[13] * 256u + data[14]);
    set_moves(&w, data);
    trouble = set_trouble(&w, data);
    w.fake->host.recent = data[0] % 4 == 3 ? &recent : NULL;
    w.in = (const char *)data + CONTROL;
    w.in_len = size - CONTROL;
    world_run(&w);
    if (!trouble)
        compare(&w, proto);
    world_close(&w);
    return 0;
}
