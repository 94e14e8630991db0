/*
 * http_get.c - a small client for /ready and /metrics. Owns its socket for one request. Refuses redirects, encryption and answers
 * without end: who scrapes over the network puts a proxy in front, and that has a client of its own.
 */
#include "http_get.h"

#include "cli.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BODY_MOST = 16 << 20, TIMED_OUT = -2 };

struct address {
    char host[256], port[8], base[512];
};

static bool fail(struct http_page *page, const char *what, const char *detail) {
    snprintf(page->why, sizeof page->why, "%s%s%s", what, detail[0] != '\0' ? ": " : "", detail);
    return false;
}

/* "http://host:port/base", "http://[::1]:8080". */
static bool parse_url(const char *url, struct address *a, struct http_page *page) {
    static const char scheme[] = "http://";
    if (strncasecmp(url, scheme, sizeof scheme - 1) != 0)
        return fail(page, "the URL must begin with http://, without encryption", url);
    const char *at = url + sizeof scheme - 1, *host = at;
    bool brackets = *at == '[';
    size_t length = brackets ? strcspn(++host, "]") : strcspn(at, ":/");
    const char *rest = host + length + (brackets && host[length] == ']');
    size_t digits = *rest == ':' ? strspn(rest + 1, "0123456789") : 0;
    if (length == 0 || length >= sizeof a->host || digits > 5 || (*rest == ':' && digits == 0))
        return fail(page, "that is no URL of a server", url);
    snprintf(a->host, sizeof a->host, "%.*s", (int)length, host);
    snprintf(a->port, sizeof a->port, "%.*s", (int)(digits > 0 ? digits : 2), digits > 0 ? rest + 1 : "80");
    const char *base = *rest == ':' ? rest + 1 + digits : rest;
    size_t size = strlen(base);
    while (size > 0 && base[size - 1] == '/') size--;
    if (size >= sizeof a->base || (size > 0 && base[0] != '/') || base[strcspn(base, " \r\n?#")] != '\0')
        return fail(page, "that is no URL of a server", url);
    snprintf(a->base, sizeof a->base, "%.*s", (int)size, base);
    return true;
}

static int left(double until) {
    double ms = until - now_ms();
    return ms > 0 ? (int)ms + 1 : 0;
}

/* 0, or an errno. */
static int wait_for(int fd, short events, double until) {
    struct pollfd poller = {.fd = fd, .events = events};
    for (;;) {
        int found = poll(&poller, 1, left(until));
        if (found > 0) return 0;
        if (found == 0) return ETIMEDOUT;
        if (errno != EINTR) return errno;
    }
}

static int connect_one(const struct addrinfo *to, double until, int *why) {
    int fd = socket(to->ai_family, SOCK_STREAM, 0);
    *why = errno;
    if (fd < 0) return -1;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    *why = connect(fd, to->ai_addr, to->ai_addrlen) == 0 ? 0 : errno;
    if (*why == EINPROGRESS) {
        socklen_t size = sizeof *why;
        *why = wait_for(fd, POLLOUT, until);
        if (*why == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, why, &size) != 0) *why = errno;
    }
    if (*why == 0) return fd;
    close(fd);
    return -1;
}

static int connect_to(const struct address *a, double until, struct http_page *page) {
    struct addrinfo wish = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int why = getaddrinfo(a->host, a->port, &wish, &list), fd = -1;
    if (why != 0) {
        fail(page, "there is no such host", gai_strerror(why));
        return -1;
    }
    for (const struct addrinfo *one = list; one != NULL && fd < 0; one = one->ai_next)
        fd = connect_one(one, until, &why);
    freeaddrinfo(list);
    if (fd < 0) fail(page, "no connection", strerror(why));
    return fd;
}

static int send_all(int fd, const char *text, double until) {
    for (size_t size = strlen(text); size > 0;) {
        ssize_t wrote = send(fd, text, size, 0);
        int why = wrote >= 0 || errno == EINTR ? 0 : errno == EAGAIN ? wait_for(fd, POLLOUT, until) : errno;
        if (why != 0) return why;
        if (wrote < 0) continue;
        text += wrote;
        size -= (size_t)wrote;
    }
    return 0;
}

static int receive_all(int fd, char **bytes, size_t *size, double until) {
    size_t room = 65536;
    *size = 0;
    *bytes = text_alloc(room + 1);
    for (;;) {
        ssize_t got = recv(fd, *bytes + *size, room - *size, 0);
        if (got == 0) return 0;
        int why = got > 0 || errno == EINTR ? 0 : errno == EAGAIN ? wait_for(fd, POLLIN, until) : errno;
        if (why != 0) return why;
        if (got < 0) continue;
        *size += (size_t)got;
        (*bytes)[*size] = '\0';
        if (*size > BODY_MOST) return EFBIG;
        if (room - *size < 4096) *bytes = text_grow(*bytes, (room *= 2) + 1);
    }
}

/* Chunks, joined in place. */
static bool join_chunks(char *body, size_t *size) {
    size_t from = 0, to = 0;
    for (;;) {
        char *end;
        if (from >= *size || !((body[from] >= '0' && body[from] <= '9') ||
                               ((body[from] | 32) >= 'a' && (body[from] | 32) <= 'f')))
            return false;
        unsigned long long length = strtoull(body + from, &end, 16);
        char *line = strstr(end, "\r\n");
        if (line == NULL) return false;
        from = (size_t)(line - body) + 2;
        if (length > *size - from) return false;
        if (length == 0) break;
        memmove(body + to, body + from, (size_t)length);
        to += (size_t)length;
        from += (size_t)length + 2;
    }
    body[to] = '\0';
    *size = to;
    return true;
}

/* Does a header line of this name hold the word? */
static bool header_says(const char *head, const char *name, const char *word) {
    size_t length = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, length) != 0 || line[length] != ':') continue;
        const char *end = strstr(line, "\r\n");
        size_t rest = end != NULL ? (size_t)(end - line) : strlen(line);
        for (size_t i = length; i + strlen(word) <= rest; i++)
            if (strncasecmp(line + i, word, strlen(word)) == 0) return true;
    }
    return false;
}

bool http_read(char *bytes, size_t size, struct http_page *page) {
    int status = 0;
    char *gap = size > 0 ? strstr(bytes, "\r\n\r\n") : NULL;
    if (gap == NULL || sscanf(bytes, "HTTP/1.%*1[01] %3d", &status) != 1 || status < 100)
        return fail(page, "what answered is no HTTP server", "");
    page->status = status;
    page->body = gap + 4;
    page->size = size - (size_t)(page->body - bytes);
    gap[2] = '\0'; /* the head ends with its last line's end */
    if (header_says(bytes, "transfer-encoding", "chunked") && !join_chunks(page->body, &page->size))
        return fail(page, "the answer was cut", "");
    return true;
}

/* What goes over: a key and a body where there are some. */
static char *make_request(const struct address *a, const char *path, const char *key, const char *body) {
    bool brackets = strchr(a->host, ':') != NULL;
    char *length = body != NULL ? text_format("Content-Length: %zu\r\n", strlen(body)) : text_copy("");
    char *request =
        text_format("%s %s%s HTTP/1.1\r\nHost: %s%s%s:%s\r\nConnection: close\r\n%s%s%s%s\r\n%s",
                    body != NULL ? "POST" : "GET", a->base, path, brackets ? "[" : "", a->host,
                    brackets ? "]" : "", a->port, key != NULL ? "Authorization: Bearer " : "",
                    key != NULL ? key : "", key != NULL ? "\r\n" : "", length, body != NULL ? body : "");
    free(length);
    return request;
}

bool http_ask(const char *url, const char *path, const char *key, const char *body, int timeout_ms,
              struct http_page *page) {
    struct address address;
    double until = now_ms() + timeout_ms;
    char *bytes = NULL;
    size_t size = 0;
    *page = (struct http_page){0};
    if (!parse_url(url, &address, page)) return false;
    int fd = connect_to(&address, until, page);
    if (fd < 0) return false;
    char *request = make_request(&address, path, key, body);
    int why = send_all(fd, request, until);
    if (why == 0) why = receive_all(fd, &bytes, &size, until);
    close(fd);
    free(request);
    bool good = why == 0 ? http_read(bytes, size, page) : fail(page, "no answer", strerror(why));
    if (good) page->body = text_copy_part(page->body, page->size);
    if (!good) page->body = NULL;
    free(bytes);
    return good;
}

bool http_get(const char *url, const char *path, const char *key, int timeout_ms, struct http_page *page) {
    return http_ask(url, path, key, NULL, timeout_ms, page);
}
