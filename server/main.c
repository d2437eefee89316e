/* SPDX-License-Identifier: MIT */
/* main.c - the rung command: finds the command meant and calls it.  Everything else is elsewhere.
 *
 *   rung [OPTION]... [DIR]   serves DIR
 *   rung COMMAND ...         one of the list below
 *   rung NAME ...            becomes the program rung-NAME beside this one, if there is one: as git
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../base/version.h"
#include "serve.h"

struct command {
    const char *name, *purpose;
    int (*run)(char **argv);
    const struct option_table *table; /* its help; or NULL */
    bool hidden;
};

static int run_serve(char **argv);
static int run_echo(char **argv);
static int run_engines(char **argv);
static int run_doctor(char **argv);
static int run_neighbour(char **argv);
static int run_help(char **argv);
static int run_version(char **argv);
static int run_completion(char **argv);
static int run_man(char **argv);
static int run_table(char **argv);
static const struct option_table engines_table, doctor_table;

static const struct command commands[] = {
    {"serve", "serve a folder over HTTP", run_serve, &serve_table, false},
    {"echo", "send back what is received, on any engine", run_echo, NULL, false},
    {"engines", "every engine, and whether it can run here", run_engines, &engines_table, false},
    {"doctor", "what this machine can run, and which limits bind", run_doctor, &doctor_table,
     false},
    {"load", "put load on a server, measure and check its answers", run_neighbour, NULL, false},
    {"drop", "drop TCP sockets, those in TIME-WAIT above all; dry run first", run_neighbour, NULL,
     false},
    {"lab", "measure what each way of waiting costs, beside other servers", run_neighbour, NULL,
     false},
    {"help", "help on a command", run_help, NULL, false},
    {"version", "the version", run_version, NULL, false},
    {"completion", "completion for bash", run_completion, NULL, true},
    {"man", "the man page's source", run_man, NULL, true},
    {"options", "the options of serve as a table in Markdown", run_table, NULL, true},
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const struct command *find_command(const char *name)
{
    for (unsigned i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* The command that a mistyped word may have meant, or NULL. */
static const char *nearest_command(const char *word, bool hidden_too)
{
    const char *names[COMMANDS + 1];
    unsigned n = 0;

    for (unsigned i = 0; i < COMMANDS; i++)
        if (hidden_too || !commands[i].hidden)
            names[n++] = commands[i].name;
    names[n] = NULL;
    return option_nearest(word, names);
}

/* Parse, or give the help that was asked for.  -1: go on; else the exit code. */
static int parse(const struct option_table *t, void *target, char **argv,
                 struct option_found *found)
{
    int result = option_parse(t, target, argv, found);

    if (result < 0) {
        say_error("%s", found->error);
        return EXIT_USAGE;
    }
    if (result == OPTION_OK)
        return -1;
    option_help(t, result == OPTION_HELP_ALL, stdout);
    return EXIT_DONE;
}

/* --- serve ------------------------------------------------------------------------------------ */

static int run_serve(char **argv)
{
    struct serve_options opt = {0};
    struct option_found found;
    int code = parse(&serve_table, &opt, argv, &found);

    return code >= 0 ? code : serve_run(&opt, found.operands ? found.operand[0] : ".");
}

/* --- echo ------------------------------------------------------------------------------------- */

static int run_echo(char **argv)
{
    struct serve_options opt = {.gather = true}; /* it has no such row: as by default */
    struct option_found found;
    int code = parse(echo_table(), &opt, argv, &found);

    return code >= 0 ? code : serve_run(&opt, NULL);
}

/* --- engines ---------------------------------------------------------------------------------- */

struct engines_options {
    bool json;
};

static const struct option_row engines_rows[] = {
    {.offset = offsetof(struct engines_options, json), .type = OPTION_FLAG, .name = "json",
     .group = "Output",
     .help = "a list of objects: name, summary, model, may_block, capacity, available, reason"},
};

static const struct option_table engines_table = {
    .command = "rung engines",
    .page = "rung-engines",
    .purpose = "Every engine: what it is, whether it can run on this machine, and why not.",
    .usage = "rung engines [--json]",
    .row = engines_rows,
    .rows = 1,
};

static int run_engines(char **argv)
{
    struct engines_options opt = {0};
    struct option_found found;
    int code = parse(&engines_table, &opt, argv, &found);

    return code >= 0 ? code : engines_print(opt.json);
}

/* --- doctor ----------------------------------------------------------------------------------- */

struct doctor_options {
    bool json;
};

static const struct option_row doctor_rows[] = {
    {.offset = offsetof(struct doctor_options, json), .type = OPTION_FLAG, .name = "json",
     .group = "Output",
     .help = "a list of objects: name, value, fine, meaning, advice"},
};

static const struct option_table doctor_table = {
    .command = "rung doctor",
    .page = "rung-doctor",
    .purpose = "What this machine can run, which limits bind first, and what to do about them.",
    .usage = "rung doctor [--json]",
    .row = doctor_rows,
    .rows = 1,
};

static int run_doctor(char **argv)
{
    struct doctor_options opt = {0};
    struct option_found found;
    int code = parse(&doctor_table, &opt, argv, &found);

    return code >= 0 ? code : doctor_print(opt.json);
}

/* --- Programs beside this one ----------------------------------------------------------------- */

/* Become rung-NAME, argv[0] being NAME, from the folder this program is in.  Returns only if there
 * is none. */
static void become_neighbour(char **argv)
{
    char path[PATH_MAX + 64], name[64];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

    if (n <= 0 || strchr(argv[0], '/') || strlen(argv[0]) >= sizeof(name) - 5)
        return;
    path[n] = 0;
    snprintf(name, sizeof(name), "rung-%s", argv[0]);
    snprintf(strrchr(path, '/') + 1, sizeof(name), "%s", name);
    if (access(path, X_OK) != 0)
        return;
    argv[0] = path;
    execv(path, argv);
    say_error("cannot start %s: %s", path, say_why(errno));
    exit(EXIT_FAILED);
}

/* A program of its own: a server needs none of it, and what measures a server should not be one. */
static int run_neighbour(char **argv)
{
    become_neighbour(argv);
    say_error("%s: there is no rung-%s beside this program; make builds it", argv[0], argv[0]);
    return EXIT_MISSING;
}

/* --- help, version, generators ---------------------------------------------------------------- */

static void print_commands(void)
{
    printf("\nCommands\n");
    for (unsigned i = 0; i < COMMANDS; i++)
        if (!commands[i].hidden)
            printf("  rung %-20s %s\n", commands[i].name, commands[i].purpose);
}

static int run_help(char **argv)
{
    const struct command *command = argv[1] ? find_command(argv[1]) : NULL;

    if (argv[1] && !command) {
        const char *near = nearest_command(argv[1], true);

        say_error("help: there is no command '%s'; %s%s", argv[1],
                  near ? "did you mean " : "rung help lists them", near ? near : "");
        return EXIT_USAGE;
    }
    if (command && strcmp(command->name, "echo") == 0) {
        option_help(echo_table(), false, stdout);
        return EXIT_DONE;
    }
    if (command && command->run == run_neighbour) {
        char help[] = "--help", *ask[] = {argv[1], help, NULL};

        return run_neighbour(ask);
    }
    if (command && !command->table) {
        printf("usage: rung %s\n%s\n", command->name, command->purpose);
        return EXIT_DONE;
    }
    option_help(command ? command->table : &serve_table, false, stdout);
    if (!command)
        print_commands();
    return EXIT_DONE;
}

static int run_version(char **argv)
{
    (void)argv;
    printf("rung %s\nengines:", RUNG_VERSION);
    for (unsigned i = 0; engine_list[i]; i++)
        printf(" %s%s", engine_list[i]->name,
               engine_refusal(engine_list[i]) ? " (cannot run here)" : "");
    printf("\n");
    return EXIT_DONE;
}

static int run_completion(char **argv)
{
    (void)argv;
    option_completion(&serve_table, stdout);
    return EXIT_DONE;
}

static int run_man(char **argv)
{
    (void)argv;
    option_man(&serve_table, stdout);
    return EXIT_DONE;
}

static int run_table(char **argv)
{
    (void)argv;
    option_markdown(&serve_table, stdout);
    return EXIT_DONE;
}

/* --- Which command ---------------------------------------------------------------------------- */

static int refuse_word(const char *word)
{
    const char *near = nearest_command(word, false);

    if (near)
        say_error("'%s' is neither a folder nor a command; did you mean rung %s?", word, near);
    else
        say_error("'%s' is neither a folder nor a command; rung DIR serves a folder, rung help "
                  "lists the commands", word);
    return EXIT_USAGE;
}

/* Output that nobody could read is a failure: rung help >/dev/full. */
static int flushed(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    say_error("cannot write to stdout: %s", say_why(errno));
    return code ? code : EXIT_FAILED;
}

/* A standard descriptor that is closed would be given to the next socket, and messages with it. */
static void hold_standard_files(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    const struct command *command;
    struct stat st;

    if (argc < 1)
        return EXIT_USAGE; /* execve() without arguments */
    hold_standard_files();
    if (argc < 2)
        return flushed(run_serve(argv));
    if (strcmp(argv[1], "--version") == 0)
        return flushed(run_version(argv));
    if (argv[1][0] == '-')
        return flushed(run_serve(argv));
    command = find_command(argv[1]);
    if (command)
        return flushed(command->run(argv + 1));
    become_neighbour(argv + 1);
    if (strchr(argv[1], '/') || stat(argv[1], &st) == 0)
        return flushed(run_serve(argv));
    return refuse_word(argv[1]);
}
