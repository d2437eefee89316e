/* SPDX-License-Identifier: MIT */
/* auth.c - names and passwords of the Basic scheme (RFC 7617), checked by crypt(3).
 *
 * A password's hash is slow on purpose, and every request carries the password.  So credentials
 * that were found right are remembered, as two hashes of the field's value under secret keys: wrong
 * credentials pass only if they agree with right ones in 122 bits (hash.h).  Wrong ones are never
 * remembered, each attempt takes the time of the slow hash, and so does a name that does not exist.
 *
 * Remembered hashes are in memory that all processes share, so that a child of fork.c need not
 * check what another one has checked.  A slot that is overwritten while it is read agrees with
 * nothing.
 */
#include <crypt.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include "../base/say.h"
#include "hash.h"
#include "rules.h"

enum {
    AUTH_USERS_MAX = 4096,
    AUTH_LINE_BYTES = 1024,
    AUTH_SLOTS = 1024, /* clients whose passwords are remembered; others are checked again */
    AUTH_TEXT_BYTES = 1024, /* name, colon and password, of which crypt(3) takes 512 */
};

struct user {
    char *name, *hash;
};

struct slot {
    _Atomic uint64_t one, two;
};

struct auth {
    uint64_t key[3];
    unsigned users;
    struct user user[AUTH_USERS_MAX];
    struct slot slot[AUTH_SLOTS];
};

/* --- The file --------------------------------------------------------------------------------- */

/* Why the hash cannot be used, or NULL. */
static const char *refusal(const char *hash)
{
    switch (crypt_checksalt(hash)) {
    case CRYPT_SALT_OK:
        return NULL;
    case CRYPT_SALT_METHOD_LEGACY:
    case CRYPT_SALT_TOO_CHEAP:
        return "its hash is too weak";
    default:
        return "its hash is of no kind that crypt(3) has here";
    }
}

/* A sentence's middle: why that line cannot be used; or NULL. */
static const char *read_line(struct auth *a, char *line)
{
    struct user *u = &a->user[a->users];
    char *colon = strchr(line, ':');
    const char *why;

    if (!colon || colon == line)
        return "it is not NAME:HASH";
    *colon = '\0';
    why = refusal(colon + 1);
    if (why)
        return why;
    for (unsigned i = 0; i < a->users; i++)
        if (strcmp(a->user[i].name, line) == 0)
            return "its name was there before";
    if (a->users == AUTH_USERS_MAX)
        return "it is one line too many";
    u->name = strdup(line);
    u->hash = strdup(colon + 1);
    a->users += u->name && u->hash;
    return u->name && u->hash ? NULL : "there is no memory";
}

static int read_file(struct auth *a, const char *path, FILE *file)
{
    char line[AUTH_LINE_BYTES];
    const char *why = NULL;
    unsigned number = 0;

    while (!why && fgets(line, sizeof(line), file)) {
        size_t n = strcspn(line, "\r\n");

        number++;
        if (!line[n] && !feof(file))
            why = "it is too long";
        line[n] = '\0';
        if (!why && *line && *line != '#')
            why = read_line(a, line);
    }
    explicit_bzero(line, sizeof(line));
    if (why)
        say_error("--auth %s: line %u: %s; htpasswd -B and mkpasswd make such lines", path, number,
                  why);
    else if (!a->users)
        say_error("--auth %s: it has no line NAME:HASH", path);
    return why || !a->users ? EXIT_USAGE : EXIT_DONE;
}

int auth_open(struct auth **auth, const char *path)
{
    FILE *file = fopen(path, "re");
    struct auth *a;
    int code;

    if (!file) {
        say_error("--auth %s: %s", path, say_why(errno));
        return EXIT_USAGE;
    }
    a = mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a == MAP_FAILED || hash_key(&a->key[0]) || hash_key(&a->key[1]) ||
        hash_key(&a->key[2])) {
        say_error("--auth: %s", say_why(errno));
        fclose(file);
        return EXIT_FAILED;
    }
    code = read_file(a, path, file);
    fclose(file);
    if (code)
        auth_close(a);
    else
        *auth = a;
    return code;
}

void auth_close(struct auth *a)
{
    if (!a)
        return;
    for (unsigned i = 0; i < a->users; i++) {
        free(a->user[i].name);
        free(a->user[i].hash);
    }
    munmap(a, sizeof(*a));
}

/* --- Credentials ------------------------------------------------------------------------------ */

struct slice auth_credentials(const struct http_head *head)
{
    struct slice found = {NULL, 0};

    for (unsigned i = 0; i < head->fields; i++) {
        if (!slice_is_nocase(head->field[i].name, "authorization"))
            continue;
        if (found.ptr)
            return (struct slice){NULL, 0};
        found = head->field[i].value;
    }
    return found;
}

/* The token of "Basic TOKEN"; ptr NULL: it is of another scheme. */
static struct slice token_of(struct slice credentials)
{
    static const char scheme[] = "Basic ";
    size_t n = sizeof(scheme) - 1;

    if (credentials.len <= n || strncasecmp(credentials.ptr, scheme, n) != 0)
        return (struct slice){NULL, 0};
    while (n < credentials.len && credentials.ptr[n] == ' ')
        n++;
    return (struct slice){credentials.ptr + n, credentials.len - n};
}

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* Base64 (RFC 4648 4), padded or not; the text has no NUL, and one behind it.  False: it is none,
 * or too long. */
static bool decode(struct slice token, char out[AUTH_TEXT_BYTES])
{
    uint32_t bits = 0;
    unsigned have = 0;
    size_t n = 0;

    while (token.len && token.ptr[token.len - 1] == '=')
        token.len--;
    for (size_t i = 0; i < token.len; i++) {
        int digit = digit_of(token.ptr[i]);

        if (digit < 0 || n == AUTH_TEXT_BYTES - 1)
            return false;
        bits = bits << 6 | (uint32_t)digit;
        have += 6;
        if (have < 8)
            continue;
        have -= 8;
        out[n] = (char)(bits >> have & 0xff);
        if (!out[n++])
            return false;
    }
    out[n] = '\0';
    return have < 6;
}

/* In a time that depends on the lengths alone. */
static bool is_same(const char *a, const char *b)
{
    size_t n = strlen(a);
    unsigned char differs = 0;

    if (strlen(b) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return !differs;
}

static bool is_right(const char *password, const char *hash)
{
    struct crypt_data *data = calloc(1, sizeof(*data));
    const char *made = data ? crypt_r(password, hash, data) : NULL;
    bool right = made && *made != '*' && is_same(made, hash);

    if (data)
        explicit_bzero(data, sizeof(*data));
    free(data);
    return right;
}

/* A name that is not there takes as long as that of some user, and always of the same one: kinds of
 * hashes differ in their time. */
static bool is_known_user(const struct auth *a, const char *name, const char **hash)
{
    *hash = a->user[hash_polynomial(a->key[2], name, strlen(name)) % a->users].hash;
    for (unsigned i = 0; i < a->users; i++) {
        if (strcmp(a->user[i].name, name) != 0)
            continue;
        *hash = a->user[i].hash;
        return true;
    }
    return false;
}

static bool check(const struct auth *a, struct slice credentials)
{
    char text[AUTH_TEXT_BYTES], *colon;
    bool right = false, known;
    const char *hash;

    if (decode(token_of(credentials), text) && (colon = strchr(text, ':')) != NULL) {
        *colon = '\0';
        known = is_known_user(a, text, &hash);
        right = is_right(colon + 1, hash) && known;
    }
    explicit_bzero(text, sizeof(text));
    return right;
}

/* --- What is remembered ----------------------------------------------------------------------- */

struct mark {
    uint64_t one, two;
};

static struct mark mark_of(const struct auth *a, struct slice credentials)
{
    return (struct mark){hash_polynomial(a->key[0], credentials.ptr, credentials.len) + 1,
                         hash_polynomial(a->key[1], credentials.ptr, credentials.len) + 1};
}

int auth_known(const struct auth *a, struct slice credentials)
{
    const struct slot *slot;
    struct mark mark;

    if (!token_of(credentials).ptr)
        return -EKEYREJECTED;
    mark = mark_of(a, credentials);
    slot = &a->slot[mark.one % AUTH_SLOTS];
    if (atomic_load(&slot->one) == mark.one && atomic_load(&slot->two) == mark.two)
        return 0;
    return -EINPROGRESS;
}

int auth_check(struct auth *a, struct slice credentials)
{
    struct mark mark = mark_of(a, credentials);
    struct slot *slot = &a->slot[mark.one % AUTH_SLOTS];

    if (!check(a, credentials))
        return -EKEYREJECTED;
    atomic_store(&slot->two, 0); /* 0 is no mark's */
    atomic_store(&slot->one, mark.one);
    atomic_store(&slot->two, mark.two);
    return 0;
}
