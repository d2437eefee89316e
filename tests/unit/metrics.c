/* SPDX-License-Identifier: MIT */
/* metrics.c - the text of the metrics: it fits with the largest numbers, the laws hold in it, and a
 * number of this moment is never below zero.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include "../../server/hosts.h"
#include "../../server/metrics.h"
#include <cmocka.h>

enum { HOSTS = HOSTS_MAX + 1 };
static struct server srv;
static char page[METRICS_BYTES_MAX + HOSTS * METRICS_HOST_BYTES_MAX];

static size_t write_page(bool plain)
{
    const struct metrics_view view = {.srv = &srv, .uptime_ms = 1234567,
                                      .started_ms = 1700000000001, .descriptors = 17,
                                      .descriptors_max = 1024};
    size_t n = metrics_write(&view, plain, page);

    assert_in_range(n, 1000, metrics_bytes_max(&srv) - 1);
    page[n] = '\0';
    return n;
}

/* Whether the page has that line. */
static bool has(const char *line)
{
    char text[400];

    snprintf(text, sizeof(text), "\n%s\n", line);
    return strstr(page, text) != NULL;
}

static int setup(void **state)
{
    (void)state;
    memset(&srv, 0, sizeof(srv));
    srv.engine = engine_find("coro"); /* it has a gauge of its own */
    srv.proto = &http_proto;
    srv.arrangement.workers = 3;
    srv.connections_max = 100;
    return stats_open(&srv.stats, 2);
}

static int teardown(void **state)
{
    (void)state;
    stats_close(srv.stats);
    free(srv.hosts);
    return 0;
}

static void the_largest_numbers_fit(void **state)
{
    (void)state;
    srv.arrangement.processes = true;
    srv.arrangement.reuseport = srv.arrangement.steered = true;
    srv.connections_max = srv.cache_bytes = UINT64_MAX;
    for (unsigned i = 0; i < STAT_CELLS; i++)
        stats_add(srv.stats, (enum stat_id)i, UINT64_MAX);
    write_page(false);
    assert_true(has("rung_connections_accepted_total 18446744073709551615"));
    write_page(true);
    assert_true(has("rung_connections_accepted_total 18446744073709551615"));
}

static void numbers_of_this_moment(void **state)
{
    (void)state;
    stats_add(srv.stats, STAT_ACCEPTED, 10);
    stats_add(srv.stats, STAT_CLOSED, 3);
    stats_add(srv.stats, STAT_LOST, 2);
    stats_add(srv.stats, STAT_CACHE_BYTES, 5);
    stats_most(srv.stats, STAT_STACK_MOST, 8192);
    write_page(false);
    assert_true(has("rung_connections_open 5"));
    assert_true(has("rung_cache_bytes 5"));
    assert_true(has("rung_uptime_seconds 1234.567"));
    assert_true(has("rung_start_time_seconds 1700000000.001"));
    assert_true(has("rung_descriptors_open 17"));
    assert_true(has("rung_stack_most_bytes 8192"));
    assert_true(has("rung_workers_running 3"));
    assert_true(has("rung_draining 0"));
    /* events may be missing from a sum: the ones that add, or those that begin */
    stats_add(srv.stats, STAT_CACHE_BYTES, -(uint64_t)6);
    stats_add(srv.stats, STAT_COMPLETE, 1);
    atomic_fetch_add(&srv.stopping, 1);
    write_page(false);
    assert_true(has("rung_cache_bytes 0"));
    assert_true(has("rung_answers_open 0"));
    assert_true(has("rung_draining 1"));
}

static void what_is_not_known_is_left_out(void **state)
{
    const struct metrics_view view = {.srv = &srv};

    (void)state;
    srv.engine = engine_find("epoll");
    page[metrics_write(&view, false, page)] = '\0';
    assert_null(strstr(page, "rung_descriptors"));
    assert_null(strstr(page, "rung_stack"));
    assert_non_null(strstr(page, "rung_workers "));
}

static void receive_for(unsigned host, unsigned method, unsigned status)
{
    struct http_head head = {.method = (enum http_method)method};
    struct http_receipt receipt = {.head = &head, .status = status};

    meter_begin(srv.stats, host, &receipt);
}

static void receive(unsigned method, unsigned status)
{
    receive_for(0, method, status);
}

static void requests_by_method_and_status(void **state)
{
    (void)state;
    receive(HTTP_GET, 200);
    receive(HTTP_GET, 299);
    receive(HTTP_GET, 304);
    receive(HTTP_HEAD, 404);
    receive(HTTP_OPTIONS, 200);
    receive(HTTP_KNOWN, 405);
    receive(HTTP_UNKNOWN, 501);
    receive(HTTP_UNKNOWN, 400);
    write_page(true);
    assert_true(has("rung_requests_total{method=\"GET\",status=\"2xx\"} 2"));
    assert_true(has("rung_requests_total{method=\"GET\",status=\"3xx\"} 1"));
    assert_true(has("rung_requests_total{method=\"HEAD\",status=\"4xx\"} 1"));
    assert_true(has("rung_requests_total{method=\"OPTIONS\",status=\"2xx\"} 1"));
    assert_true(has("rung_requests_total{method=\"other\",status=\"4xx\"} 2"));
    assert_true(has("rung_requests_total{method=\"other\",status=\"5xx\"} 1"));
    assert_true(has("rung_answers_open 8"));
}

/* An edge belongs to its bucket. */
static void durations_on_both_sides_of_an_edge(void **state)
{
    (void)state;
    meter_took(srv.stats, 0);
    meter_took(srv.stats, 25000);
    meter_took(srv.stats, 25001);
    meter_took(srv.stats, 1000000000);
    meter_took(srv.stats, 1000000001);
    meter_took(srv.stats, 30000000000);
    meter_took(srv.stats, 30000000001);
    write_page(false);
    assert_true(has("rung_request_duration_seconds_bucket{le=\"0.000025\"} 2"));
    assert_true(has("rung_request_duration_seconds_bucket{le=\"0.00005\"} 3"));
    assert_true(has("rung_request_duration_seconds_bucket{le=\"0.25\"} 3"));
    assert_true(has("rung_request_duration_seconds_bucket{le=\"1.0\"} 4"));
    assert_true(has("rung_request_duration_seconds_bucket{le=\"5.0\"} 5"));
    assert_true(has("rung_request_duration_seconds_bucket{le=\"30.0\"} 6"));
    assert_true(has("rung_request_duration_seconds_bucket{le=\"+Inf\"} 7"));
    assert_true(has("rung_request_duration_seconds_count 7"));
    assert_true(has("rung_request_duration_seconds_sum 62.000050003"));
}

/* --- Hosts ------------------------------------------------------------------------------------ */

static void open_hosts(unsigned count, const char *label[])
{
    stats_close(srv.stats);
    assert_int_equal(stats_open_hosts(&srv.stats, 3, count), 0);
    srv.hosts = calloc(1, sizeof(*srv.hosts) + count * sizeof(srv.hosts->row[0]));
    assert_non_null(srv.hosts);
    srv.hosts->count = count;
    for (unsigned i = 0; i < count; i++)
        srv.hosts->row[i].label = label[i];
}

/* Threads with cells of their own and without count for both hosts, whose sums are the server's. */
static void by_host(void **state)
{
    const char *label[] = {"a.example", "default"};

    (void)state;
    open_hosts(2, label);
    receive_for(0, HTTP_GET, 200);
    receive_for(1, HTTP_GET, 404);
    meter_sent(srv.stats, 1, 7);
    stats_own_begin(srv.stats, 2);
    receive_for(1, HTTP_HEAD, 200);
    receive_for(1, HTTP_UNKNOWN, 501);
    receive_for(0, HTTP_GET, 206);
    meter_sent(srv.stats, 0, 1ull << 40);
    meter_sent(srv.stats, 1, 2);
    stats_own_end();
    write_page(true);
    assert_true(has("rung_host_requests_total{host=\"a.example\",status=\"2xx\"} 2"));
    assert_true(has("rung_host_requests_total{host=\"a.example\",status=\"4xx\"} 0"));
    assert_true(has("rung_host_requests_total{host=\"default\",status=\"2xx\"} 1"));
    assert_true(has("rung_host_requests_total{host=\"default\",status=\"4xx\"} 1"));
    assert_true(has("rung_host_requests_total{host=\"default\",status=\"5xx\"} 1"));
    assert_true(has("rung_host_sent_body_bytes_total{host=\"a.example\"} 1099511627776"));
    assert_true(has("rung_host_sent_body_bytes_total{host=\"default\"} 9"));
    assert_true(has("rung_requests_total{method=\"GET\",status=\"2xx\"} 2"));
    assert_true(has("rung_requests_total{method=\"HEAD\",status=\"2xx\"} 1"));
    assert_true(has("rung_requests_total{method=\"other\",status=\"5xx\"} 1"));
    assert_true(has("rung_sent_body_bytes_total 1099511627785"));
    assert_true(has("rung_answers_open 5"));
}

static void all_hosts_fit(void **state)
{
    static char text[HOSTS][HOST_TEXT];
    const char *label[HOSTS];
    char line[HOST_TEXT + 64];

    (void)state;
    for (unsigned i = 0; i < HOSTS; i++) {
        memset(text[i], 'a' + (int)(i % 26), HOST_TEXT - 1);
        label[i] = text[i];
    }
    open_hosts(HOSTS, label);
    for (unsigned i = 0; i < STAT_CELLS + HOSTS * STAT_HOST_CELLS; i++)
        stats_add(srv.stats, (enum stat_id)i, UINT64_MAX / METER_METHODS); /* and not summed up */
    for (unsigned plain = 0; plain < 2; plain++) {
        write_page(plain);
        snprintf(line, sizeof(line), "rung_host_sent_body_bytes_total{host=\"%s\"} "
                 "4611686018427387903", text[HOSTS - 1]);
        assert_true(has(line));
    }
}

static void without_hosts_nothing_names_one(void **state)
{
    (void)state;
    meter_sent(srv.stats, 0, 5);
    stats_add(srv.stats, STAT_BODY_BYTES, 5);
    write_page(false);
    assert_null(strstr(page, "host"));
    assert_true(has("rung_sent_body_bytes_total 5"));
    assert_int_equal(metrics_bytes_max(&srv), METRICS_BYTES_MAX);
}

static void two_formats(void **state)
{
    size_t n = write_page(false);

    (void)state;
    assert_string_equal(page + n - 6, "# EOF\n");
    assert_true(has("# TYPE rung_connections_closed counter"));
    assert_true(has("# TYPE rung_build info"));
    assert_true(has("# UNIT rung_sent_bytes bytes"));
    n = write_page(true);
    assert_null(strstr(page, "# EOF"));
    assert_null(strstr(page, "# UNIT"));
    assert_true(has("# TYPE rung_connections_closed_total counter"));
    assert_true(has("# TYPE rung_build_info gauge"));
    assert_int_equal(page[n - 1], '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_largest_numbers_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_of_this_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_known_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(requests_by_method_and_status, setup, teardown),
        cmocka_unit_test_setup_teardown(durations_on_both_sides_of_an_edge, setup, teardown),
        cmocka_unit_test_setup_teardown(by_host, setup, teardown),
        cmocka_unit_test_setup_teardown(all_hosts_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(without_hosts_nothing_names_one, setup, teardown),
        cmocka_unit_test_setup_teardown(two_formats, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
