/*
 * alert_post.c - a change as an HTTP POST, with libcurl. Owns the URL and the secret. Refuses any scheme but http and https, to follow
 * redirections, to read more than a little of a reply, and to name in a log more of the URL than where it leads.
 */
#include "ops/alert_send.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { URL_MOST = 2048, REPLY_MOST = 65536, CONNECT_MS_MOST = 5000, SECRET_LEAST = 16 };

struct wane__post {
    char *url, *target;
    unsigned char *secret; /* NULL: unsigned */
    size_t secret_size;
    int timeout_ms;
};

/* ------------------------------------------------------------------------ URL */

/* curl's own global state: once a process, and before any thread of ours uses it. */
static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_started;
static void start_curl(void) {
    curl_started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int refuse_url(const char *why, wane_error *error) {
    return wane__fail(
        error, WANE_EINVAL,
        "The URL for alerts %s; give one like https://host/path (it is not repeated here: it may hold a "
        "secret).",
        why);
}

/* "https://host:port" of a URL that curl understands. */
static int find_target(const char *url, char **target, wane_error *error) {
    char *scheme = NULL, *host = NULL, *port = NULL, text[600];
    CURLU *parts = curl_url();
    int status = WANE_OK;
    if (parts == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a URL.");
    if (curl_url_set(parts, CURLUPART_URL, url, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK || host[0] == '\0')
        status = refuse_url("is none that can be understood", error);
    else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
        status = refuse_url("is neither http nor https", error);
    if (status == WANE_OK) {
        bool has_port = curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK;
        snprintf(text, sizeof text, "%s://%.300s%s%.5s", scheme, host, has_port ? ":" : "",
                 has_port ? port : "");
        *target = wane__copy_string(text);
        if (*target == NULL) status = wane__fail(error, WANE_ENOMEM, "No memory for a URL.");
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(parts);
    return status;
}

static int check_url(const char *url, wane_error *error) {
    size_t size = strlen(url);
    if (size == 0) return refuse_url("is empty", error);
    if (size > URL_MOST) return refuse_url("is longer than 2048 bytes", error);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)url[i] <= 0x20 || url[i] == 0x7f)
            return refuse_url("has a blank or a control character", error);
    return WANE_OK;
}

/* --------------------------------------------------------------------- secret */

static int read_all(int fd, const char *path, unsigned char *bytes, size_t *size, wane_error *error) {
    *size = 0;
    for (;;) {
        ssize_t got = read(fd, bytes + *size, WANE__ALERT_SECRET_MOST + 2 - *size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return wane__fail(error, WANE_EIO, "The alerts' secret %.300s cannot be read: %s.", path,
                              strerror(errno));
        if (got == 0) break;
        *size += (size_t)got;
        if (*size == WANE__ALERT_SECRET_MOST + 2) break;
    }
    if (*size > 0 && bytes[*size - 1] == '\n') --*size;
    if (*size > 0 && bytes[*size - 1] == '\r') --*size;
    if (*size < SECRET_LEAST || *size > WANE__ALERT_SECRET_MOST)
        return wane__fail(error, WANE_EFORMAT, "The alerts' secret %.300s must have %d to %d bytes.", path,
                          SECRET_LEAST, WANE__ALERT_SECRET_MOST);
    return WANE_OK;
}

static int read_secret(const char *path, struct wane__post *post, wane_error *error) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return wane__fail(error, errno == ENOENT ? WANE_ENOENT : WANE_EIO,
                          "The alerts' secret %.300s cannot be read: %s.", path, strerror(errno));
    int code = WANE_OK;
    post->secret = wane__alloc(WANE__ALERT_SECRET_MOST + 2);
    if (post->secret == NULL)
        code = wane__fail(error, WANE_ENOMEM, "No memory for a secret.");
    else if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        code = wane__fail(error, WANE_EINVAL, "The alerts' secret %.300s is no regular file.", path);
    else if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        code = wane__fail(error, WANE_EAUTH,
                          "The alerts' secret %.300s can be read by others; chmod 600 keeps it to its owner.",
                          path);
    else
        code = read_all(fd, path, post->secret, &post->secret_size, error);
    close(fd);
    return code;
}

int wane__post_new(const char *url, const char *secret_file, int timeout_ms, struct wane__post **post,
                   wane_error *error) {
    *post = NULL;
    pthread_once(&curl_once, start_curl);
    if (curl_started != CURLE_OK || sodium_init() < 0)
        return wane__fail(error, WANE_EINTERNAL, "libcurl or libsodium cannot start.");
    int status = check_url(url, error);
    if (status != WANE_OK) return status;
    struct wane__post *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for the alerts' URL.");
    made->timeout_ms = timeout_ms;
    made->url = wane__copy_string(url);
    if (made->url == NULL) status = wane__fail(error, WANE_ENOMEM, "No memory for the alerts' URL.");
    if (status == WANE_OK) status = find_target(url, &made->target, error);
    if (status == WANE_OK && secret_file != NULL) status = read_secret(secret_file, made, error);
    if (status != WANE_OK) {
        wane__post_free(made);
        return status;
    }
    *post = made;
    return WANE_OK;
}

void wane__post_free(struct wane__post *post) {
    if (post == NULL) return;
    if (post->secret != NULL) sodium_memzero(post->secret, WANE__ALERT_SECRET_MOST + 2);
    wane__free(post->secret);
    wane__free(post->url);
    wane__free(post->target);
    wane__free(post);
}

const char *wane__post_target(const struct wane__post *post) {
    return post->target;
}

/* ----------------------------------------------------------------------- send */

void wane__post_sign(const void *secret, size_t secret_size, int64_t seconds, const char *body,
                     size_t body_size, char out[112]) {
    crypto_auth_hmacsha256_state state;
    unsigned char mac[crypto_auth_hmacsha256_BYTES];
    char when[24];
    int digits = snprintf(when, sizeof when, "%lld", (long long)seconds);
    crypto_auth_hmacsha256_init(&state, secret, secret_size);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)when, (unsigned long long)digits);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)".", 1);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)body, body_size);
    crypto_auth_hmacsha256_final(&state, mac);
    int used = snprintf(out, 112, "t=%s,v1=", when);
    sodium_bin2hex(out + used, 112 - (size_t)used, mac, sizeof mac);
    sodium_memzero(&state, sizeof state);
}

enum wane__hook_result wane__post_verdict(long status) {
    if (status >= 200 && status < 300) return WANE__HOOK_DELIVERED;
    if (status == 408 || status == 425 || status == 429 || (status >= 500 && status < 600))
        return WANE__HOOK_LATER;
    return WANE__HOOK_NEVER;
}

/* The reply is not kept; one that does not end is cut off, which is not held against it. */
struct reply {
    size_t size;
    bool cut;
};

static size_t take(char *bytes, size_t size, size_t count, void *user) {
    struct reply *reply = user;
    (void)bytes;
    reply->size += size * count;
    reply->cut = reply->size > REPLY_MOST;
    return reply->cut ? 0 : size * count;
}

static int look(void *hook, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return wane__hook_is_ending(hook);
}

/* Headers of this message; NULL without memory. */
static struct curl_slist *headers_of(const struct wane__post *post, const struct wane__hook_message *m) {
    char signature[112], line[160];
    struct curl_slist *list = NULL, *more = NULL;
    const char *const plain[] = {"Content-Type: application/json", "Expect:"};
    for (int i = 0; i < 2; i++) {
        if ((more = curl_slist_append(list, plain[i])) == NULL) goto none;
        list = more;
    }
    if (post->secret == NULL) return list;
    wane__post_sign(post->secret, post->secret_size, wane__date_ms() / 1000, m->body, m->body_size,
                    signature);
    snprintf(line, sizeof line, "Wane-Signature: %s", signature);
    if ((more = curl_slist_append(list, line)) == NULL) goto none;
    return more;
none:
    curl_slist_free_all(list);
    return NULL;
}

static bool only_http(CURL *curl) {
#if LIBCURL_VERSION_NUM >= 0x075500
    return curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
#else
    return curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS)) == CURLE_OK;
#endif
}

static bool set_up(CURL *curl, const struct wane__post *post, const struct wane__hook *hook,
                   const struct wane__hook_message *m, struct curl_slist *headers, struct reply *reply) {
    long connect = post->timeout_ms < CONNECT_MS_MOST ? post->timeout_ms : CONNECT_MS_MOST;
    return only_http(curl) && curl_easy_setopt(curl, CURLOPT_URL, post->url) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, connect) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)post->timeout_ms) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_USERAGENT, "wane/" WANE_VERSION) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)m->body_size) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_POSTFIELDS, m->body) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_WRITEDATA, reply) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, look) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_XFERINFODATA, hook) == CURLE_OK;
}

/* A connection for each message: changes are rare, and nothing of an earlier one is in the way. */
enum wane__hook_result wane__post_send(void *user, const struct wane__hook *hook,
                                       const struct wane__hook_message *message, char why[200]) {
    const struct wane__post *post = user;
    struct reply reply = {0};
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = headers_of(post, message);
    enum wane__hook_result result = WANE__HOOK_LATER;
    long status = 0;
    if (curl == NULL || headers == NULL || !set_up(curl, post, hook, message, headers, &reply)) {
        snprintf(why, 200, "libcurl could not be set up");
    } else {
        CURLcode code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && reply.cut)) {
            result = wane__post_verdict(status);
            snprintf(why, 200, "%s answered %ld%s", post->target, status,
                     status >= 300 && status < 400 ? ", and redirections are not followed" : "");
        } else {
            snprintf(why, 200, "%s: %s", post->target, curl_easy_strerror(code));
        }
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return result;
}
