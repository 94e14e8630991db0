/*
 * doctor_place.c - whether a server could listen, whether what is written has a place, and how a running one is. Owns a socket for a
 * moment. Refuses to write: a place is looked at, never tried.
 */
#include "cli.h"
#include "doctor.h"
#include "http_get.h"
#include "os.h"
#include "text.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SERVER_WAIT_MS = 5000 };

/* ---- ports --------------------------------------------------------------------------------------------------------------- */

/* 0, or why nobody could listen there. */
static int try_bind(const struct addrinfo *to) {
    int fd = socket(to->ai_family, SOCK_STREAM, 0), on = 1;
    if (fd < 0) return errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int why = bind(fd, to->ai_addr, to->ai_addrlen) == 0 && listen(fd, 1) == 0 ? 0 : errno;
    close(fd);
    return why;
}

static bool is_loopback(const char *host) {
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

void doctor_ports(struct checkup *checkup, const struct settings *settings) {
    static const char name[] = "PORTS";
    const char *host = setting_text(settings, SET_HOST);
    struct addrinfo wish = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    char port[12];
    snprintf(port, sizeof port, "%d", setting_int(settings, SET_PORT));
    int why = getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, port, &wish, &list);
    if (why != 0) {
        checkup_add(checkup, name, CHECK_CRITICAL, "give --host an address of this machine", "%s: %s", host,
                    gai_strerror(why));
        return;
    }
    why = try_bind(list);
    freeaddrinfo(list);
    if (why == EADDRINUSE && setting_text(settings, SET_URL) != NULL)
        checkup_add(checkup, name, CHECK_PASSED, NULL,
                    "%s port %s is in use, by the server that was asked for", host, port);
    else if (why == EADDRINUSE)
        checkup_add(checkup, name, CHECK_WARNING, "ss -ltnp shows by whom; wane serve --port N takes another",
                    "%s port %s is in use", host, port);
    else if (why != 0)
        checkup_add(checkup, name, CHECK_CRITICAL,
                    why == EACCES ? "ports below 1024 are the system's: wane serve --port 8080"
                                  : "give --host an address of this machine",
                    "%s port %s: %s", host, port, strerror(why));
    else if (!is_loopback(host) && setting_text(settings, SET_KEY_FILE) == NULL &&
             !setting_on(settings, SET_OPEN))
        checkup_add(checkup, name, CHECK_CRITICAL, "give --key-file FILE, or --open to let everybody in",
                    "%s is beyond loopback, and no keys are asked for: wane serve would refuse", host);
    else
        checkup_add(checkup, name, CHECK_PASSED, NULL, "%s port %s is free", host,
                    setting_int(settings, SET_PORT) > 0 ? port : "of the system's choice");
}

/* ---- disk ------------------------------------------------------------------------------------------------------------------ */

struct disk {
    struct checkup *checkup;
    enum check_level worst;
    char *found; /* of all places */
    const char *next;
};

static void blame(struct disk *disk, enum check_level level, const char *next) {
    if (level <= disk->worst) return;
    disk->worst = level;
    disk->next = next;
}

/* `needed`: what is not written there is lost; else only time is. */
static void look_at(struct disk *disk, const char *what, const char *path, bool needed) {
    wane_place place;
    wane_error error = {0};
    char *longer, said[200];
    if (wane_place_look(path, &place, &error) != WANE_OK) {
        snprintf(said, sizeof said, "%.190s", error.text);
        blame(disk, CHECK_WARNING, "look at that folder: ls -ld");
    } else {
        const char *fault = place.read_only ? "read-only" : !place.writable ? "not writable" : "";
        snprintf(said, sizeof said, "%.1f GB free%s%s", (double)place.free_bytes / 1e9,
                 fault[0] != '\0' ? ", " : "", fault);
        if (fault[0] != '\0')
            blame(disk, needed ? CHECK_CRITICAL : CHECK_WARNING,
                  needed ? "give that folder to the user that wane runs as, or name another one"
                         : "set WANE_CACHE to a folder that can be written: without a sketch the dense head "
                           "gives the same tokens in more time");
        if (place.free_bytes < 100000000 || place.free_files == 0)
            blame(disk, CHECK_CRITICAL, "make room on that disk");
        else if (place.free_bytes < 1000000000)
            blame(disk, CHECK_WARNING, "make room on that disk: less than 1 GB is left");
    }
    longer = text_format("%s%s%s %s: %s", disk->found, disk->found[0] != '\0' ? "; " : "", what, path, said);
    free(disk->found);
    disk->found = longer;
}

void doctor_disk(struct checkup *checkup, const struct settings *settings) {
    struct disk disk = {.checkup = checkup, .worst = CHECK_PASSED, .found = text_copy("")};
    char *folder = models_folder();
    look_at(&disk, "cache", folder, false);
    free(folder);
    for (int i = 0; i < WRITTEN; i++) {
        const char *path = setting_text(settings, settings_written[i].id);
        if (path != NULL) look_at(&disk, settings_written[i].name, path, true);
    }
    checkup_add(checkup, "DISK", disk.worst, disk.next, "%s", disk.found);
    free(disk.found);
}

/* ---- a running server ------------------------------------------------------------------------------------------------------- */

void doctor_server(struct checkup *checkup, const struct settings *settings) {
    const char *url = setting_text(settings, SET_URL), *key = getenv("WANE_KEY");
    struct http_page ready = {0}, metrics = {0};
    if (url == NULL) {
        checkup_add(checkup, "SERVER", CHECK_SKIPPED, "--url http://127.0.0.1:8080 looks at a running one",
                    "no --url was given");
        return;
    }
    if (!http_get(url, "/ready", key, SERVER_WAIT_MS, &ready))
        checkup_add(checkup, "SERVER", CHECK_CRITICAL,
                    "is it running? its log, and systemctl status wane, say more", "%s: %s", url, ready.why);
    else if (!http_get(url, "/metrics", key, SERVER_WAIT_MS, &metrics) || metrics.status != 200)
        checkup_add(checkup, "SERVER", CHECK_CRITICAL,
                    "set WANE_KEY to a key of its key file, if it asks for one", "%s: /metrics: %s", url,
                    metrics.body == NULL    ? metrics.why
                    : metrics.status == 401 ? "it asks for a key"
                                            : "no metrics");
    else
        doctor_metrics(checkup, url, ready.status, ready.body, metrics.body);
    struct http_page alerts = {0};
    if (metrics.status == 200 && http_get(url, "/v1/wane/alerts", key, SERVER_WAIT_MS, &alerts) &&
        alerts.status == 200)
        doctor_alerts(checkup, alerts.body);
    free(ready.body);
    free(metrics.body);
    free(alerts.body);
}

int64_t doctor_built_ms(void) {
    char *folder = os_program_folder();
    if (folder == NULL) return 0;
    char *path = text_format("%s/wane", folder);
    struct stat status;
    int64_t when = stat(path, &status) == 0 ? (int64_t)status.st_mtime * 1000 : 0;
    free(path);
    free(folder);
    return when;
}
