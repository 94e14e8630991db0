/*
 * server.c - starts and stops: options, the listening socket, the scheduler behind it, libmicrohttpd in front.
 *
 * Refused: listening beyond this machine without keys, unless told to. Stopping goes from the outside in: no new
 * connections, then the scheduler, whose tickets end in words; only when their last bytes are out do connections close.
 */
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"
#include "model.h"
#include "server/alerts.h"
#include "server/http.h"
#include "server/http_rollout.h"
#include "server/live.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long a stopping server waits for the last bytes of ended replies to leave. */
#define LAST_BYTES_SECONDS 2.0
/* Connections beyond the limit that are still heard: to be refused in words, and for /health and /ready. */
#define SPARE_CONNECTIONS 16u

void wane_server_options_init(wane_server_options *options) {
    *options = (wane_server_options){
        .size = sizeof *options,
        .host = "127.0.0.1",
        .port = 8080,
        .max_connections = 256,
        .max_body = (size_t)8 << 20,
        .ping_ms = 5000,
        .max_tokens = 1024,
        .ssp_domain = WANE_SSP_DOMAIN_CHECK,
    };
    wane_generation generation;
    wane_generation_init(&generation);
    options->sampling = generation.sampling;
    wane_scheduler_options_init(&options->scheduler);
}

/* --------------------------------------------------------------- listening */

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *v6 = (const void *)address;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* The first address of a host; "localhost" is 127.0.0.1, "*" is all of IPv4, "[::1]" may have its brackets. */
static int resolve(const char *host, int port, struct addrinfo **found, wane_error *error) {
    char name[256], service[16];
    size_t size = strlen(host);
    bool brackets = size > 2 && host[0] == '[' && host[size - 1] == ']';
    snprintf(name, sizeof name, "%.*s", (int)(brackets ? size - 2 : size), host + brackets);
    if (strcmp(name, "localhost") == 0) snprintf(name, sizeof name, "127.0.0.1");
    if (strcmp(name, "*") == 0) snprintf(name, sizeof name, "0.0.0.0");
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    int fault = getaddrinfo(name, service, &hints, found);
    if (fault == 0) return WANE_OK;
    return wane__fail(error, WANE_EADDRESS, "the host %s is not an address of this machine: %s", host,
                      gai_strerror(fault));
}

static int fail_to_listen(const char *host, int port, wane_error *error) {
    const char *help = errno == EADDRINUSE
                           ? "another program listens there; choose another port, or 0 for any"
                       : errno == EACCES        ? "ports below 1024 need privileges; choose a higher one"
                       : errno == EADDRNOTAVAIL ? "this machine does not have that address"
                                                : "choose another address";
    return wane__fail(error, WANE_EADDRESS, "cannot listen on %s, port %d: %s (%s)", host, port,
                      strerror(errno), help);
}

static int bind_to(const struct addrinfo *address, int *listener) {
    int on = 1;
    int fd = wane__os_socket(address->ai_family);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, 128) != 0) {
        int kept = errno;
        close(fd);
        errno = kept;
        return -1;
    }
    *listener = fd;
    return 0;
}

static int port_of(int listener) {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address;
    socklen_t size = sizeof address;
    memset(&address, 0, sizeof address);
    if (getsockname(listener, &address.any, &size) != 0) return 0;
    return ntohs(address.any.sa_family == AF_INET ? address.four.sin_port : address.six.sin6_port);
}

static int open_listener(const wane_server_options *options, int *listener, bool *local, wane_error *error) {
    struct addrinfo *address = NULL;
    int code = resolve(options->host, options->port, &address, error);
    if (code != WANE_OK) return code;
    *local = is_loopback(address->ai_addr);
    if (!*local && options->key_file == NULL && !options->open) {
        code = wane__fail(
            error, WANE_EINVAL,
            "%s can be reached from other machines and no keys are set: give a key file, or say that "
            "the server is open, or listen on 127.0.0.1",
            options->host);
    } else if (bind_to(address, listener) != 0) {
        code = fail_to_listen(options->host, options->port, error);
    }
    freeaddrinfo(address);
    return code;
}

/* ------------------------------------------------------------------- start */

static int check_options(const wane_server_options *o, wane_error *error) {
    if (o->size != sizeof *o)
        return wane__fail(error, WANE_EINVAL, "the server options were not initialised");
    if (o->host == NULL || o->host[0] == '\0') return wane__fail(error, WANE_EINVAL, "host: it is empty");
    if (o->port < 0 || o->port > 65535) {
        return wane__fail(error, WANE_EINVAL, "port: %d is not allowed; it must be 0 to 65535", o->port);
    }
    if (o->max_connections < 1 || o->max_connections > 65536) {
        return wane__fail(error, WANE_EINVAL, "max_connections: %d is not allowed; it must be 1 to 65536",
                          o->max_connections);
    }
    if (o->max_body < 1024 || o->max_body > (size_t)1 << 30) {
        return wane__fail(error, WANE_EINVAL, "max_body: %zu is not allowed; it must be 1 KiB to 1 GiB",
                          o->max_body);
    }
    if (o->ping_ms < 10) {
        return wane__fail(error, WANE_EINVAL, "ping_ms: %d is not allowed; it must be at least 10",
                          o->ping_ms);
    }
    if (o->max_tokens < 1) {
        return wane__fail(error, WANE_EINVAL, "max_tokens: %d is not allowed; it must be at least 1",
                          o->max_tokens);
    }
    return WANE_OK;
}

/* MHD's own remarks: a client that reset its connection is no warning. */
static void log_mhd(void *user, const char *format, va_list args) {
    struct wane_server *server = user;
    char line[400];
    vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\r\n")] = '\0';
    wane__log(&server->log, WANE_LOG_DEBUG, "http: %s", line);
}

static void describe_model(struct wane_server *server) {
    const wane_model_facts *facts = wane_model_get_facts(server->model);
    struct stat status;
    bool there = facts->path != NULL && facts->path[0] != '\0' && stat(facts->path, &status) == 0;
    server->created = there ? status.st_mtime : time(NULL);
    char text[512];
    unsigned char hash[16];
    snprintf(text, sizeof text, "%s|%s|%s|%s|%llu", wane_version(), wane_engine_version(), facts->name,
             facts->description ? facts->description : "", (unsigned long long)facts->file_bytes);
    crypto_generichash(hash, sizeof hash, (const unsigned char *)text, strlen(text), NULL, 0);
    snprintf(server->fingerprint, sizeof server->fingerprint, "fp_%02x%02x%02x%02x%02x", hash[0], hash[1],
             hash[2], hash[3], hash[4]);
}

static int start_http(struct wane_server *server, const wane_server_options *options, int listener,
                      wane_error *error) {
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
                     MHD_USE_ITC | MHD_USE_ERROR_LOG;
    server->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, wane__http_access, server, MHD_OPTION_EXTERNAL_LOGGER, log_mhd,
                         server, MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)options->max_connections + SPARE_CONNECTIONS,
                         MHD_OPTION_CONNECTION_TIMEOUT, 60u, MHD_OPTION_THREAD_STACK_SIZE,
                         wane__os_thread_stack(), MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)64 << 10,
                         MHD_OPTION_NOTIFY_CONNECTION, wane__http_connection, server,
                         MHD_OPTION_NOTIFY_COMPLETED, wane__http_completed, server, MHD_OPTION_END);
    if (server->daemon == NULL) return wane__fail(error, WANE_EIO, "cannot start the HTTP threads");
    return WANE_OK;
}

static struct wane_server *make_server(wane_model *model, const wane_server_options *options) {
    struct wane_server *server = wane__alloc_zero(1, sizeof *server);
    if (server == NULL) return NULL;
    server->model = model;
    server->max_body = options->max_body;
    server->max_connections = options->max_connections;
    server->ping_ms = (uint32_t)options->ping_ms;
    server->classifier = options->classifier;
    server->ssp_domain = options->ssp_domain;
    server->defaults = (struct wane__call_defaults){
        .sampling = options->sampling,
        .max_tokens = options->max_tokens,
        .vocab_size = wane_model_get_facts(model)->vocab_size,
    };
    /* Lists belong to a request: the caller's would have to outlive the server. */
    server->defaults.sampling.bias = NULL;
    server->defaults.sampling.bias_count = 0;
    wane__log_init(&server->log, options->log, options->log_user);
    server->log_lost = options->log_lost;
    wane__metrics_init(&server->metrics);
    return server;
}

/* A feature broke: its rollout, if there is one, steps back at once. */
static void step_back(void *user, const char *feature, const char *reason) {
    int which = wane_feature_from(feature);
    if (which >= 0) wane__server_rollout_break(user, which, reason);
}

static int start(struct wane_server *server, const wane_server_options *options, int *listener,
                 wane_error *error) {
    wane_generation trial;
    wane_generation_init(&trial);
    trial.sampling = server->defaults.sampling;
    bool local = false;
    int code = wane_generation_check(&trial, server->defaults.vocab_size, error);
    if (code == WANE_OK) code = wane__server_set_disks(server, options, error);
    if (code == WANE_OK) code = wane__server_set_quality(server, options, error);
    if (code == WANE_OK) code = wane__server_set_prepare(server, options, error);
    if (code == WANE_OK && options->key_file != NULL) {
        code = wane__keys_load(options->key_file, &server->log, &server->keys, error);
        if (code == WANE_OK) code = wane__server_check_keys(server, options->key_file, error);
    }
    if (code == WANE_OK) code = wane__server_open_feedback(server, options->feedback, error);
    if (code == WANE_OK) code = wane__server_open_alerts(server, options->alerts, error);
    if (code == WANE_OK) code = wane__server_open_ab(server, options->ab_governor, error);
    if (code == WANE_OK) code = open_listener(options, listener, &local, error);
    if (code != WANE_OK) return code;
    server->port = port_of(*listener);
    server->keyless_admin = local && server->keys == NULL;
    describe_model(server);
    code = wane__server_open_audit(server, options->audit, error);
    if (code != WANE_OK) return code;
    wane_scheduler_options scheduler = options->scheduler;
    if (scheduler.log == NULL) {
        scheduler.log = options->log;
        scheduler.log_user = options->log_user;
    }
    scheduler.drill = scheduler.drill || wane__server_may_vote(server);
    code = wane_scheduler_new(server->model, &scheduler, &server->scheduler, error);
    if (code == WANE_OK) code = wane__server_open_rollout(server, options, error);
    wane__board_on_break(wane__server_board(server), step_back, server);
    if (code == WANE_OK) code = wane__server_watch(server, error);
    if (code == WANE_OK) code = wane__http_live_start(server, error);
    return code == WANE_OK ? start_http(server, options, *listener, error) : code;
}

int wane_server_start(wane_model *model, const wane_server_options *options, wane_server **server,
                      wane_error *error) {
    *server = NULL;
    int listener = -1;
    int code = check_options(options, error);
    if (code != WANE_OK) return code;
    if (sodium_init() < 0) return wane__fail(error, WANE_EINTERNAL, "libsodium cannot start");
    struct wane_server *made = make_server(model, options);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for the server");
    code = start(made, options, &listener, error);
    if (code != WANE_OK) {
        if (listener >= 0) close(listener); /* without a daemon it is still ours */
        wane_server_free(made);
        return code;
    }
    wane__log(&made->log, WANE_LOG_INFO, "listening on %s, port %d", options->host, made->port);
    *server = made;
    return WANE_OK;
}

int wane_server_port(const wane_server *server) {
    return server->port;
}

/* -------------------------------------------------------------------- stop */

static void wait_for_last_bytes(struct wane_server *server) {
    double until = wane__now() + LAST_BYTES_SECONDS;
    while (atomic_load(&server->replies) > 0 && wane__now() < until) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

void wane_server_stop(wane_server *server, uint32_t grace_ms) {
    if (server == NULL || server->stopped) return;
    server->stopped = true;
    atomic_store(&server->stopping, true);
    int listener = server->daemon ? MHD_quiesce_daemon(server->daemon) : -1;
    if (listener >= 0) close(listener);
    if (server->scheduler != NULL) wane_scheduler_stop(server->scheduler, grace_ms);
    wait_for_last_bytes(server);
    wane__http_live_stop(server);                                /* those who watch would else stay */
    if (server->daemon != NULL) MHD_stop_daemon(server->daemon); /* joins the connections' threads */
    server->daemon = NULL;
}

void wane_server_free(wane_server *server) {
    if (server == NULL) return;
    wane_server_stop(server, 0);
    wane__server_unwatch(server);
    wane__server_close_rollout(server);
    wane_scheduler_free(server->scheduler);
    wane__keys_free(server->keys);
    wane__server_free_disks(server);
    wane__server_free_quality(server);
    wane__server_close_feedback(server);
    wane__server_close_audit(server);
    wane__server_close_alerts(server);
    wane__server_close_ab(server);
    wane__live_free(server->live);
    wane__metrics_close(&server->metrics);
    wane__log_close(&server->log);
    wane__free(server);
}
