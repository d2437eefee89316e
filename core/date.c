/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* date.c - HTTP dates (RFC 9110 5.6.7): written in one form, read in three.
 *
 *     Sun, 06 Nov 1994 08:49:37 GMT       IMF-fixdate
 *     Sunday, 06-Nov-94 08:49:37 GMT      RFC 850: two digits of a year
 *     Sun Nov  6 08:49:37 1994            asctime()
 *
 * Days are counted from 1 January of year 1 in the Gregorian calendar.  Years 1 to 9999 are few
 * enough that every division is one of 32 bits, which is what a kernel on a small machine has.
 */
#include "byte.h"
#include "http.h"

enum { DAY_S = 86400, YEAR_MAX = 9999, DAYS_TO_1970 = 719162, DAYS_MAX = 3652059 };

static const char day_names[7][10] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                      "Friday", "Saturday", "Sunday"};
static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/* month 0..11, day 1..31 */
struct date {
    unsigned year, month, day, hour, minute, second;
};

static bool is_leap(unsigned year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Days of the year before a month, which may be 12: the year's length. */
static unsigned days_before(unsigned year, unsigned month)
{
    static const uint16_t before[13] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};

    return before[month] + (month >= 2 && is_leap(year));
}

static unsigned days_before_year(unsigned year)
{
    year--;
    return year * 365 + year / 4 - year / 100 + year / 400;
}

static int64_t to_unix(const struct date *d)
{
    unsigned days = days_before_year(d->year) + days_before(d->year, d->month) + d->day - 1;

    return ((int64_t)days - DAYS_TO_1970) * DAY_S +
           (int64_t)(d->hour * 3600 + d->minute * 60 + d->second);
}

/* Fills in *d, and returns the index of the day's name.  A time outside the years 1 to 9999 becomes
 * the nearest in them. */
static unsigned from_unix(int64_t unix_s, struct date *d)
{
    const int64_t first = -(int64_t)DAYS_TO_1970 * DAY_S;
    const int64_t last = (int64_t)(DAYS_MAX - DAYS_TO_1970) * DAY_S - 1;
    uint64_t s;
    unsigned days, rest, left;

    unix_s = unix_s < first ? first : unix_s > last ? last : unix_s;
    s = (uint64_t)(unix_s - first);
    days = (uint32_t)(s >> 7) / (DAY_S >> 7); /* a day is 675 * 128 s, all years less than 2^39 s */
    rest = (unsigned)(s - (uint64_t)days * DAY_S);
    d->hour = rest / 3600;
    d->minute = rest / 60 % 60;
    d->second = rest % 60;
    d->year = days * 400 / 146097; /* 146097 days are 400 years; never a year too late */
    while (d->year == 0 || days_before_year(d->year + 1) <= days)
        d->year++;
    left = days - days_before_year(d->year);
    d->month = left / 31; /* too early by one at most */
    if (days_before(d->year, d->month + 1) <= left)
        d->month++;
    d->day = left - days_before(d->year, d->month) + 1;
    return days % 7; /* 1 January of year 1 was a Monday */
}

static char *put_digits(char *p, unsigned value, unsigned digits)
{
    unsigned i;

    for (i = digits; i > 0; i--) {
        p[i - 1] = (char)('0' + value % 10);
        value /= 10;
    }
    return p + digits;
}

void http_date_write(char out[HTTP_DATE_BYTES], int64_t unix_s)
{
    struct date d;
    unsigned name = from_unix(unix_s, &d);

    memcpy(out, "Ddd, 00 Mmm 0000 00:00:00 GMT", HTTP_DATE_BYTES);
    memcpy(out, day_names[name], 3);
    put_digits(out + 5, d.day, 2);
    memcpy(out + 8, month_names[d.month], 3);
    put_digits(out + 12, d.year, 4);
    put_digits(out + 17, d.hour, 2);
    put_digits(out + 20, d.minute, 2);
    put_digits(out + 23, d.second, 2);
}

/* A letter stands for a part of the date, anything else for itself:
 *     n N    the day's name, short and long       m    the month's name
 *     d _    the day, and with a space for 0      H M S  two digits each
 *     y Y    a year of two and four digits        Z    GMT */
static const char *const forms[] = {"n, d m Y H:M:S Z", "N, d-m-y H:M:S Z", "n m _ H:M:S Y"};

static bool take_text(struct slice *s, const char *text, size_t n)
{
    if (s->len < n || memcmp(s->ptr, text, n) != 0)
        return false;
    s->ptr += n;
    s->len -= n;
    return true;
}

static bool take_digits(struct slice *s, unsigned digits, unsigned *value)
{
    unsigned i;

    *value = 0;
    if (s->len < digits)
        return false;
    for (i = 0; i < digits; i++) {
        if (!byte_is(s->ptr[i], BYTE_DIGIT))
            return false;
        *value = *value * 10 + (unsigned)(s->ptr[i] - '0');
    }
    s->ptr += digits;
    s->len -= digits;
    return true;
}

static bool take_day_name(struct slice *s, bool whole)
{
    unsigned i;

    for (i = 0; i < 7; i++)
        if (take_text(s, day_names[i], whole ? strlen(day_names[i]) : 3))
            return true;
    return false;
}

static bool take_month(struct slice *s, unsigned *month)
{
    for (*month = 0; *month < 12; ++*month)
        if (take_text(s, month_names[*month], 3))
            return true;
    return false;
}

static bool take_part(struct slice *s, char part, struct date *d)
{
    switch (part) {
    case 'n':
    case 'N':
        return take_day_name(s, part == 'N');
    case 'm':
        return take_month(s, &d->month);
    case 'd':
        return take_digits(s, 2, &d->day);
    case '_':
        return take_digits(s, take_text(s, " ", 1) ? 1 : 2, &d->day);
    case 'y':
        return take_digits(s, 2, &d->year);
    case 'Y':
        return take_digits(s, 4, &d->year);
    case 'H':
        return take_digits(s, 2, &d->hour);
    case 'M':
        return take_digits(s, 2, &d->minute);
    case 'S':
        return take_digits(s, 2, &d->second);
    case 'Z':
        return take_text(s, "GMT", 3);
    default:
        return take_text(s, &part, 1);
    }
}

/* RFC 9110 5.6.7: a year of two digits that seems more than 50 years ahead is the last one past. */
static void find_century(struct date *d, int64_t now_s)
{
    struct date limit;

    from_unix(now_s, &limit);
    limit.year += 50;
    d->year += limit.year - limit.year % 100;
    if (to_unix(d) > to_unix(&limit))
        d->year -= 100;
}

static bool is_possible(const struct date *d)
{
    return d->year >= 1 && d->year <= YEAR_MAX && d->day >= 1 &&
           d->day <= days_before(d->year, d->month + 1) - days_before(d->year, d->month) &&
           d->hour <= 23 && d->minute <= 59 && d->second <= 60;
}

bool http_date_read(struct slice text, int64_t now_s, int64_t *unix_s)
{
    struct date d = {0, 0, 0, 0, 0, 0};
    struct slice rest;
    const char *part;
    unsigned form;

    for (form = 0; form < 3; form++) {
        rest = text;
        for (part = forms[form]; *part; part++)
            if (!take_part(&rest, *part, &d))
                break;
        if (*part || rest.len != 0)
            continue;
        if (form == 1)
            find_century(&d, now_s);
        if (!is_possible(&d))
            return false;
        *unix_s = to_unix(&d);
        return true;
    }
    return false;
}
