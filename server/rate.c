/* SPDX-License-Identifier: MIT */
/* rate.c - a bucket of tokens as one number; see rate.h.
 *
 * Nothing overflows: a bucket is at most RATE_MAX tokens of an hour each ahead of the clock, which
 * is 3.6e18 ns, and the clock reaches 1.4e19 ns after 450 years.  The time between two tokens is
 * rounded down to nanoseconds, so a rate is a thousandth too high at most.
 */
#include "rate.h"

#define SECOND_NS UINT64_C(1000000000)

/* The digits at *text, which moves behind them; 0: there are none, or the number is too large. */
static uint32_t read_number(const char **text)
{
    uint32_t n = 0;

    for (; **text >= '0' && **text <= '9'; (*text)++) {
        n = n * 10 + (uint32_t)(**text - '0');
        if (n > RATE_MAX)
            return 0;
    }
    return n;
}

/* The seconds of the unit at *text, which moves behind it; 0: there is none of that name. */
static uint32_t read_unit(const char **text)
{
    char unit;

    if (**text == 'r')
        (*text)++;
    else if (**text != '/')
        return 1;
    if (*(*text)++ != '/')
        return 0;
    unit = **text;
    *text += unit != '\0';
    return unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
}

bool rate_parse(struct rate *r, const char *text)
{
    uint32_t number = read_number(&text), unit = number ? read_unit(&text) : 0, burst = number;

    if (!unit)
        return false;
    if (*text == ':') {
        text++;
        burst = read_number(&text);
    }
    if (*text || !burst)
        return false;
    r->each_ns = unit * SECOND_NS / number;
    r->ahead_ns = (burst - 1) * r->each_ns;
    return true;
}

bool rate_take(const struct rate *r, _Atomic uint64_t *full_ns, uint64_t now_ns)
{
    uint64_t full = atomic_load_explicit(full_ns, memory_order_relaxed), from;

    do {
        from = full > now_ns ? full : now_ns;
        if (from - now_ns > r->ahead_ns)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(full_ns, &full, from + r->each_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

uint32_t rate_retry_s(const struct rate *r)
{
    return r->each_ns > SECOND_NS ? (uint32_t)((r->each_ns + SECOND_NS - 1) / SECOND_NS) : 1;
}
