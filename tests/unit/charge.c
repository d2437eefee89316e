/* SPDX-License-Identifier: MIT */
/* charge.c - the memory of listings in several processes is counted while they live, not longer;
 * and places of archives. */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "tree.h"

enum { MAX = SITE_LISTINGS_BYTES_MAX, PART = MAX / 4 };

/* Start a process that takes bytes, gives `back` of them back, and stays; 0: it was refused. */
static pid_t other(struct site *site, size_t bytes, size_t back)
{
    char answer = 0;
    int ends[2];
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        answer = charge(site, bytes) ? 'y' : 'n';
        if (answer == 'y')
            charge_back(site, back);
        if (write(ends[1], &answer, 1) == 1)
            pause();
        _exit(0);
    }
    assert_int_equal(read(ends[0], &answer, 1), 1);
    close(ends[0]);
    close(ends[1]);
    if (answer == 'y')
        return pid;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return 0;
}

static void end(pid_t pid)
{
    assert_true(pid > 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void end_with(pid_t pid, int code)
{
    int status;

    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == code);
}

/* Whether exactly that much is left, tried in this process and in another. */
static bool is_left(struct site *site, size_t bytes)
{
    bool here = !charge(site, bytes + 1) && charge(site, bytes), there;

    if (here)
        charge_back(site, bytes);
    there = !other(site, bytes + 1, 0);
    if (bytes)
        end(other(site, bytes, 0));
    return here && there;
}

static void all_are_counted(void **state)
{
    struct site *site = ((struct tree *)*state)->site;
    pid_t one, two;

    assert_true(is_left(site, MAX));
    one = other(site, PART, 0);
    assert_true(is_left(site, MAX - PART));
    two = other(site, 2 * PART, PART);
    assert_true(is_left(site, MAX - 2 * PART));
    assert_true(charge(site, 2 * PART));
    assert_true(is_left(site, 0));
    charge_back(site, 2 * PART);
    end(one);
    assert_true(is_left(site, MAX - PART));
    end(two);
    assert_true(is_left(site, MAX));
}

/* Each process is killed with its bytes; together they are many times the limit. */
static void killed_ones_have_nothing(void **state)
{
    struct site *site = ((struct tree *)*state)->site;

    for (unsigned i = 0; i < 40; i++)
        end(other(site, PART, i % 2 ? PART / 2 : 0));
    assert_true(is_left(site, MAX));
}

/* A zombie has no bytes either. */
static void ended_ones_have_nothing(void **state)
{
    struct site *site = ((struct tree *)*state)->site;
    pid_t pid = other(site, PART, 0);
    siginfo_t info;

    int fd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (fd < 0) { /* valgrind does not know the call */
        end(pid);
        skip();
    }
    close(fd);
    assert_true(is_left(site, MAX - PART));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(is_left(site, MAX));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A claim is given back with its last byte; a process number that is used again has no old
 * claim. */
static void claims_are_given_back(void **state)
{
    struct site *site = ((struct tree *)*state)->site;
    struct site_shared *shared = site->shared;
    pid_t pid = other(site, PART, PART);

    assert_int_equal(shared->claim[0], 0);
    end(pid);
    shared->claim[5] = (uint64_t)getpid() << 32 | PART;
    shared->claims = 6;
    site->opener = 1; /* not us */
    assert_true(charge(site, MAX));
    assert_false(charge(site, 1));
    charge_back(site, MAX);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(shared->claim[i], 0);
    site->opener = getpid();
}

/* The process after the last claim has its listings streamed, unless another process has died. */
static void claims_have_an_end(void **state)
{
    struct site *site = ((struct tree *)*state)->site;
    struct site_shared *shared = site->shared;
    pid_t dead = fork();

    if (dead == 0)
        _exit(0);
    assert_int_equal(waitpid(dead, NULL, 0), dead);
    for (unsigned i = 0; i < SITE_CLAIMS - 1; i++)
        shared->claim[i] = (uint64_t)getpid() << 32 | 1;
    shared->claims = SITE_CLAIMS - 1;
    end(other(site, 1, 0)); /* the last one */
    assert_int_equal(shared->claims, SITE_CLAIMS);
    shared->claim[SITE_CLAIMS - 1] = (uint64_t)getpid() << 32 | 1;
    assert_int_equal(other(site, 1, 0), 0);
    shared->claim[17] = (uint64_t)dead << 32 | 1;
    end(other(site, 1, 0));
}

/* Places of archives are counted in all processes, and those of dead ones are given out again. */
static void places_of_archives(void **state)
{
    struct site *site = ((struct tree *)*state)->site;
    pid_t dead = fork();

    if (dead == 0) {
        for (unsigned i = 0; i < SITE_ARCHIVES_MAX; i++)
            (void)archive_place(site);
        _exit(archive_place(site) == -EAGAIN ? 0 : 1);
    }
    end_with(dead, 0);
    for (unsigned round = 0; round < 2; round++) {
        int place[SITE_ARCHIVES_MAX];

        for (unsigned i = 0; i < SITE_ARCHIVES_MAX; i++) {
            place[i] = archive_place(site);
            assert_true(place[i] >= 0);
        }
        assert_int_equal(archive_place(site), -EAGAIN);
        archive_place_back(site, -EAGAIN);
        archive_place_back(site, place[3]);
        assert_int_equal(archive_place(site), place[3]);
        assert_int_equal(archive_place(site), -EAGAIN);
        for (unsigned i = 0; i < SITE_ARCHIVES_MAX; i++)
            archive_place_back(site, place[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(all_are_counted),
        TREE_TEST(killed_ones_have_nothing),
        TREE_TEST(ended_ones_have_nothing),
        TREE_TEST(claims_are_given_back),
        TREE_TEST(claims_have_an_end),
        TREE_TEST(places_of_archives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
