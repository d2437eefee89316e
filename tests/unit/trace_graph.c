/* SPDX-License-Identifier: MIT */
/* Lines of the function_graph tracer become calls, wherever one begins or ends, and whichever lines
 * are lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include "../../tools/trace/graph.c"

static struct graph graph;

static int begin_test(void **state)
{
    (void)state;
    return graph_init(&graph, "start");
}

static int end_test(void **state)
{
    (void)state;
    graph_free(&graph);
    return 0;
}

/* Read a line in memory that ends where the line does, so that a read past the end is seen. */
static void line(const char *text, size_t n)
{
    char *copy = malloc(n ? n : 1);

    assert_non_null(copy);
    memcpy(copy, text, n);
    graph_line(&graph, copy, n);
    free(copy);
}

static void read_line(const char *text)
{
    line(text, strlen(text));
}

static const struct function *function(const char *name)
{
    for (unsigned i = 0; i < graph.functions; i++)
        if (strcmp(graph.function[i]->name, name) == 0)
            return graph.function[i];
    return NULL;
}

static void test_a_leaf(void **state)
{
    (void)state;
    read_line("  251.854815 |   1)   kworker-29   |   3358.099 us |  start [rung_core]();");
    read_line("  251.858440 |   0)  rung_ht-147   |   0.449 us    |    start();");
    read_line("  251.858440 |   0)  rung_ht-147   |   25387.55 us |      other [rung_core]();");
    read_line("  251.858440 |   0)  rung_ht-147   |   3000000 us  |      other [rung_core]();");
    assert_int_equal(function("start")->took.total, 2);
    assert_int_equal(function("start")->took.max, 3358099);
    assert_int_equal(function("start")->took.min, 449);
    assert_int_equal(function("other")->took.sum, 25387550 + 3000000000);
    assert_int_equal(graph.series_count, 2);
    assert_int_equal(graph.series[0], 3358099);
    assert_int_equal(graph.series[1], 449);
    assert_int_equal(graph.calls, 4);
}

/* A call that ends on another processor than it began on, and one inside it that does not. */
/* shows K31 */
static void test_moved(void **state)
{
    (void)state;
    read_line("  1.0 |   0)  rung_ht-147   |               |  outer [rung_core]() {");
    read_line("  1.1 |   0)  rung_ht-147   |               |    inner [rung_core]() {");
    read_line("  1.1 |   1)    <idle>-0    |               |  /* sched_migrate_task: "
              "comm=rung pid=1 x pid=147 prio=120 orig_cpu=0 dest_cpu=1 */");
    read_line("  1.1 |   1)    <idle>-0    |               |  /* sched_migrate_task: comm=curl "
              "pid=148 prio=120 orig_cpu=0 dest_cpu=1 */");
    read_line("  1.2 |   1)  rung_ht-147   |   100.000 us  |    } /* inner [rung_core] */");
    read_line("  1.3 |   1)  rung_ht-147   |   1.000 us    |    leaf [rung_core]();");
    read_line("  1.4 |   1)  rung_ht-147   |   400.000 us  |  } /* outer [rung_core] */");
    read_line("  1.5 |   1)    <idle>-0    |               |  /* sched_migrate_task: "
              "comm=rung_http pid=147 prio=120 orig_cpu=0 dest_cpu=1 */");
    assert_int_equal(function("outer")->moved, 1);
    assert_int_equal(function("inner")->moved, 1);
    assert_int_equal(function("leaf")->moved, 0);
    assert_int_equal(graph.migrations, 1); /* the other was of a thread outside any call */
    assert_int_equal(graph.calls, 3);
}

/* The idle threads of all processors have the same number. */
static void test_idle_threads(void **state)
{
    (void)state;
    read_line("  1.0 |   0)    <idle>-0    |               |  outer() {");
    read_line("  1.0 |   1)    <idle>-0    |               |  outer() {");
    read_line("  1.2 |   0)    <idle>-0    |   100.000 us  |  } /* outer */");
    read_line("  1.2 |   1)    <idle>-0    |   100.000 us  |  } /* outer */");
    assert_int_equal(function("outer")->took.total, 2);
    assert_int_equal(function("outer")->moved, 0);
}

/* Ends without beginnings, and beginnings without ends: the times are right. */
static void test_lost(void **state)
{
    (void)state;
    read_line("CPU:1 [LOST 12 EVENTS]");
    read_line("CPU:0 [LOST EVENTS]");
    read_line("  1.0 |   1)  a-7   |   100.000 us  |  } /* outer */");
    read_line("  1.1 |   0)  a-7   |               |  outer() {");
    read_line("  1.2 |   0)  a-7   |               |    inner() {");
    read_line("  1.4 |   0)  a-7   |   100.000 us  |  } /* outer */");
    read_line("  1.4 |   1)  a-7   |   100.000 us  |  } /* inner */");
    assert_int_equal(graph.lost, 13);
    assert_int_equal(function("outer")->took.total, 2);
    assert_int_equal(function("outer")->moved, 0);
    assert_int_equal(function("inner")->moved, 0);
}

static void test_names(void **state)
{
    (void)state;
    read_line("  1.0 |   0)  a - b) c-7   |   1.000 us  |  one();");
    read_line("  1.0 |   3)  kworker/u4:0-7   |   1.000 us  |  one.part.0 [rung_core]();");
    read_line("  1.0 |   3)  a-7   |   1.000 us  |  a_name_of_more_bytes_than_are_kept_of_the_"
              "name_of_any_function_of_the_kernel();");
    assert_int_equal(function("one")->took.total, 1);
    assert_int_equal(function("one.part.0")->took.total, 1);
    assert_int_equal(graph.functions, 3);
    assert_int_equal(strlen(graph.function[2]->name), FUNCTION_TEXT - 1);
}

static void test_other_lines(void **state)
{
    static const char *const others[] = {
        "", "# tracer: function_graph", "#     TIME        CPU  TASK/PID", " ----------------",
        " 1)    curl-146    =>    <idle>-0   ", "|", "||||", "1 |", "1 | 1", "1 | 1) |",
        "1 | 1) a-|",
        "  1.0 |   0)  a-7   |               |  /* another_event: pid=7 */",
        "  1.0 |   0)  a-x   |   1.000 us  |  one();"};

    (void)state;
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        read_line(others[i]);
    assert_int_equal(graph.functions, 0);
    assert_int_equal(graph.unread, 0);
    read_line("  1.0 |   0)  a-7   |               |  } /* no_time */");
    read_line("  1.0 |   0)  a-7   |               |  no_time();");
    read_line("  1.0 |   0)  a-7   |               |");
    read_line("  1.0 |   0)  a-7   | ");
    assert_int_equal(graph.unread, 4);
    assert_int_equal(graph.calls, 0);
}

/* A line cut at any byte is not read past its end. */
static void test_cut(void **state)
{
    static const char *const whole[] = {
        "  1.1 |   1)  <idle>-0  |   |  /* sched_migrate_task: comm=a pid=147 prio=120 */",
        "  251.858440 |   0)  rung_ht-147   |   797.449 us  |    line_recv [rung_core]();",
        "  251.858440 |   0)  rung_ht-147   |   797.449 us  |    } /* line_recv [rung_core] */",
        "CPU:1 [LOST 12 EVENTS]"};

    (void)state;
    for (unsigned i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        for (size_t n = 0; n <= strlen(whole[i]); n++)
            line(whole[i], n);
}

static void test_limits(void **state)
{
    char text[128];

    (void)state;
    for (unsigned i = 0; i <= FUNCTIONS_MAX; i++) {
        assert_int_equal(graph.crowded, 0);
        snprintf(text, sizeof(text), "  1.0 |   0)  a-7   |   1.000 us  |  f%u();", i);
        read_line(text);
    }
    assert_int_equal(graph.crowded, 1);
    assert_int_equal(graph.functions, FUNCTIONS_MAX);
    graph_free(&graph);
    graph_init(&graph, NULL);
    for (unsigned i = 0; i <= GRAPH_DEPTH; i++) {
        assert_int_equal(graph.crowded, 0);
        read_line("  1.0 |   0)  a-7   |               |  f() {");
    }
    assert_int_equal(graph.crowded, 1);
    for (unsigned i = 0; i <= GRAPH_DEPTH; i++)
        read_line("  1.0 |   1)  a-7   |   1.000 us  |  } /* f */");
    assert_int_equal(function("f")->took.total, GRAPH_DEPTH + 1);
    assert_int_equal(function("f")->moved, GRAPH_DEPTH);
}

/* shows K10 */
static void test_series_most(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SERIES_MAX + 2; i++)
        read_line("1 | 0) a-7 | 1.000 us | start();");
    assert_int_equal(graph.series_count, SERIES_MAX);
    assert_int_equal(function("start")->took.total, SERIES_MAX + 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(test_a_leaf), TEST(test_moved), TEST(test_idle_threads), TEST(test_lost),
        TEST(test_names), TEST(test_other_lines), TEST(test_cut), TEST(test_limits),
        TEST(test_series_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
