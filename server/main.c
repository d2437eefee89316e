/* SPDX-License-Identifier: MIT */
/* main.c - the rung command: finds the command meant and calls it.  Everything else is elsewhere.
 *
 *   rung [OPTION]... [DIR]   serves DIR
 *   rung COMMAND ...         a row of commands.def
 *   rung NAME ...            becomes the program rung-NAME of the same folder, if it is there
 */
#include <ctype.h>
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

static int run_serve(char **argv);
static int run_config(char **argv);
static int run_echo(char **argv);
static int run_engines(char **argv);
static int run_doctor(char **argv);
static int run_neighbour(char **argv);
static int run_help(char **argv);
static int run_version(char **argv);
static int run_completion(char **argv);
static int run_man(char **argv);
static int run_table(char **argv);

#define COMMAND(name, run, ...) run,
static int (*const runs[])(char **argv) = {
#include "commands.def"
};
#undef COMMAND
enum { COMMANDS = sizeof(runs) / sizeof(runs[0]) };

/* The row of that command, or NULL. */
static const struct option_command *find_command(const char *name)
{
    for (const struct option_command *c = rung_table()->commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

/* The command that a mistyped word may have meant, or NULL. */
static const char *nearest_command(const char *word)
{
    const char *names[COMMANDS + 1];

    for (unsigned i = 0; i <= COMMANDS; i++)
        names[i] = rung_table()->commands[i].name;
    return option_nearest(word, names);
}

/* Parse, or print the help that was asked for.  -1: go on; otherwise the exit code. */
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

/* --- serve, config ---------------------------------------------------------------------------- */

/* What the command line, the environment and the file say.  -1: go on; otherwise the exit code. */
static int configure(const struct option_table *t, struct serve_config *config, char **argv)
{
    struct option_found found;
    int code = parse(t, &config->opt, argv, &found);

    if (code >= 0)
        return code;
    config->root = found.operands ? found.operand[0] : NULL;
    code = config->opt.config ? config_read(config, &found) : EXIT_DONE;
    return code ? code : -1;
}

static int run_serve(char **argv)
{
    struct serve_config config = {0};
    bool named = strcmp(argv[0], "serve") == 0; /* then its help has no list of commands */
    int code = configure(named ? &serve_table : rung_table(), &config, argv);

    if (code < 0 && !config.root && !config.hosts)
        config.root = ".";
    if (code < 0)
        code = serve_run(&config);
    config_close(&config);
    return code;
}

static int run_config(char **argv)
{
    struct serve_config config = {0};
    int code = configure(config_table(), &config, argv);

    if (code < 0)
        code = config_print(&config);
    config_close(&config);
    return code;
}

/* --- echo ------------------------------------------------------------------------------------- */

static int run_echo(char **argv)
{
    struct serve_config config = {.opt.gather = true}; /* echo has no such row: the default */
    struct option_found found;
    int code = parse(echo_table(), &config.opt, argv, &found);

    return code >= 0 ? code : serve_run(&config);
}

/* --- engines, doctor -------------------------------------------------------------------------- */

static int run_engines(char **argv)
{
    struct print_options opt = {0};
    struct option_found found;
    int code = parse(&engines_table, &opt, argv, &found);

    return code >= 0 ? code : engines_print(opt.json);
}

static int run_doctor(char **argv)
{
    struct print_options opt = {0};
    struct option_found found;
    int code = parse(&doctor_table, &opt, argv, &found);

    return code >= 0 ? code : doctor_print(opt.json);
}

enum { NEIGHBOUR_PATH = PATH_MAX + 64 };

/* --- Programs of the same folder -------------------------------------------------------------- */

/* Become rung-NAME, argv[0] being NAME, from the folder this program is in.  Returns only if there
 * is no such program that we may run.  For a plain name of a command, path is then the one that was
 * tried, or ""; otherwise it is of no use. */
static void become_neighbour(char **argv, char path[NEIGHBOUR_PATH])
{
    char name[64];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

    path[n > 0 ? n : 0] = 0;
    if (n <= 0 || strchr(argv[0], '/') || strlen(argv[0]) >= sizeof(name) - 5)
        return;
    snprintf(name, sizeof(name), "rung-%s", argv[0]);
    snprintf(strrchr(path, '/') + 1, sizeof(name), "%s", name);
    if (access(path, X_OK) != 0)
        return;
    argv[0] = path;
    execv(path, argv);
    say_error("cannot start %s: %s", path, say_why(errno));
    exit(EXIT_FAILED);
}

/* A separate program: a server needs none of it, and a program that measures a server should not be
 * one itself. */
static int run_neighbour(char **argv)
{
    char path[NEIGHBOUR_PATH];

    become_neighbour(argv, path);
    say_error("rung %s needs the program %s, which is missing: make all builds it, make install "
              "installs it", argv[0], path);
    return EXIT_MISSING;
}

/* --- help, version, generators ---------------------------------------------------------------- */

/* The command that help or man is asked about, which its name precedes; NULL after a message. */
static const struct option_command *asked_about(char **argv)
{
    const struct option_command *command = find_command(argv[1]);
    const char *near = command ? NULL : nearest_command(argv[1]);

    if (!command)
        say_error("%s: there is no command '%s'; %s%s", argv[0], argv[1],
                  near ? "did you mean " : "rung help lists them", near ? near : "");
    return command;
}

/* The program's own help or page; argv[1] names the program, and gets the arguments that follow. */
static int ask_program(char **argv, const char *what)
{
    char word[16], *ask[] = {argv[1], word, NULL, NULL};

    snprintf(word, sizeof(word), "%s", what);
    if (argv[2]) { /* rung help trace sniff */
        ask[1] = argv[2];
        ask[2] = word;
    }
    return run_neighbour(ask);
}

static int run_help(char **argv)
{
    const struct option_command *command = argv[1] ? asked_about(argv) : NULL;

    if (!argv[1]) {
        option_help(rung_table(), false, stdout);
        return EXIT_DONE;
    }
    if (!command)
        return EXIT_USAGE;
    if (command->after == OPTION_AFTER_PROGRAM)
        return ask_program(argv, "--help");
    if (command->table)
        option_help(command->table(), false, stdout);
    else
        printf("usage: rung %s%s\n%c%s.\n", command->name, option_after_words(command->after),
               toupper((unsigned char)command->purpose[0]), command->purpose + 1);
    return EXIT_DONE;
}

static int run_version(char **argv)
{
    (void)argv;
    printf("rung %s\nengines:", RUNG_VERSION);
    for (unsigned i = 0; engine_list[i]; i++)
        printf(" %s%s", engine_list[i]->name,
               engine_refusal(engine_list[i], NULL) ? " (cannot run here)" : "");
    printf("\n");
    return EXIT_DONE;
}

static int run_completion(char **argv)
{
    const char *shell = argv[1] ? argv[1] : "bash", *near;
    char what[64];

    snprintf(what, sizeof(what), "--completion=%s", shell);
    if (option_generate(rung_table(), what, stdout))
        return EXIT_DONE;
    near = option_nearest(shell, option_shells);
    say_error("completion: '%s' is not a shell that rung knows; %s%s", shell,
              near ? "did you mean " : "choose from bash, zsh, fish", near ? near : "");
    return EXIT_USAGE;
}

/* A command without a page of its own is described on that of rung. */
static int run_man(char **argv)
{
    const struct option_command *command = argv[1] ? asked_about(argv) : rung_table()->commands;
    bool own;

    if (!command)
        return EXIT_USAGE;
    if (command->after == OPTION_AFTER_PROGRAM)
        return ask_program(argv, "--man");
    own = command->table && command != rung_table()->commands;
    option_man(own ? command->table() : rung_table(), stdout);
    return EXIT_DONE;
}

static int run_table(char **argv)
{
    (void)argv;
    option_markdown(&serve_table, stdout);
    return EXIT_DONE;
}

/* --- Which command ---------------------------------------------------------------------------- */

/* Python's http.server takes the port as a word. */
static bool is_port(const char *word)
{
    uint64_t n;

    return strspn(word, "0123456789") == strlen(word) && option_number(word, &n) == 0 &&
           n <= 65535;
}

static int refuse_word(const char *word)
{
    const char *near = nearest_command(word);

    if (is_port(word))
        say_error("'%s' is neither a folder nor a command; did you mean rung --port %s?", word,
                  word);
    else if (near)
        say_error("'%s' is neither a folder nor a command; did you mean rung %s?", word, near);
    else
        say_error("'%s' is neither a folder nor a command; rung DIR serves a folder, rung help "
                  "lists the commands", word);
    return EXIT_USAGE;
}

/* Output that could not be written is a failure: rung help >/dev/full. */
static int flushed(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    say_error("cannot write to stdout: %s", say_why(errno));
    return code ? code : EXIT_FAILED;
}

/* If a standard descriptor were closed, the next socket would get its number, and messages would go
 * to that socket. */
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
    char path[NEIGHBOUR_PATH];
    const struct option_command *command;
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
        return flushed(runs[command - rung_table()->commands](argv + 1));
    become_neighbour(argv + 1, path);
    if (strchr(argv[1], '/') || stat(argv[1], &st) == 0)
        return flushed(run_serve(argv));
    return refuse_word(argv[1]);
}
