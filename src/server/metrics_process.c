/*
 * metrics_process.c - what /metrics says of the process and of the disks that it writes to. Owns copies of the disks' names; refuses
 * to guess: what the system does not tell is left out.
 */
#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"
#include "server/http.h"

#include <string.h>

void wane__metrics_write_process(const struct wane__metrics *metrics, const wane_disk *disks, size_t count,
                                 struct wane__buf *out) {
    static const char gauge[] = "gauge", disk[] = "wane_disk_free_bytes";
    struct wane__os_usage usage;
    wane__os_usage(&usage);
    wane__metric_head(out, "process_start_time_seconds", gauge, "When the server started, since 1970.");
    wane__buf_format(out, "process_start_time_seconds %.3f\n", metrics->date);
    wane__metric_real(out, "process_cpu_seconds_total", "counter", "Processor time of the process.",
                      usage.cpu_seconds);
    if (usage.resident_bytes > 0)
        wane__metric_whole(out, "process_resident_memory_bytes", gauge,
                           "Its memory, mapped weights included.", usage.resident_bytes);
    if (usage.open_files > 0)
        wane__metric_whole(out, "process_open_fds", gauge, "Its open files and connections.",
                           usage.open_files);
    if (usage.most_files > 0)
        wane__metric_whole(out, "process_max_fds", gauge, "So many it may have.", usage.most_files);
    if (count > 0)
        wane__metric_head(out, disk, gauge, "Free bytes of the disk that holds what is written, by what.");
    for (size_t i = 0; i < count; i++) {
        unsigned long long bytes;
        if (!wane__os_disk_free(disks[i].path, &bytes)) continue;
        wane__buf_format(out, "%s{what=", disk);
        wane__metric_label(out, disks[i].what);
        wane__buf_format(out, "} %llu\n", bytes);
    }
}

void wane__metrics_write_log(const struct wane_server *server, struct wane__buf *out) {
    if (server->log_lost == NULL) return;
    wane__metric_whole(out, "wane_log_lost_total", "counter", "Log lines that could not be written.",
                       server->log_lost(server->log.user));
}

int wane__server_set_disks(struct wane_server *server, const wane_server_options *options,
                           wane_error *error) {
    if (options->disk_count > WANE_DISKS_MOST)
        return wane__fail(error, WANE_EINVAL, "disks: there are %zu; at most %d are watched",
                          options->disk_count, WANE_DISKS_MOST);
    if (options->disk_count == 0) return WANE_OK;
    server->disks = wane__alloc_zero(options->disk_count, sizeof *server->disks);
    for (size_t i = 0; server->disks != NULL && i < options->disk_count; i++) {
        const wane_disk *disk = &options->disks[i];
        if (disk->what == NULL || disk->what[0] == '\0' || disk->path == NULL)
            return wane__fail(error, WANE_EINVAL, "disks: number %zu has no name or no path", i + 1);
        for (size_t j = 0; j < i; j++)
            if (strcmp(disk->what, options->disks[j].what) == 0)
                return wane__fail(error, WANE_EINVAL, "disks: there are two of the name %s", disk->what);
        server->disk_count = i + 1;
        server->disks[i] = (wane_disk){wane__copy_string(disk->what), wane__copy_string(disk->path)};
        if (server->disks[i].what == NULL || server->disks[i].path == NULL)
            return wane__fail(error, WANE_ENOMEM, "no memory for the names of disks");
    }
    return server->disks != NULL ? WANE_OK
                                 : wane__fail(error, WANE_ENOMEM, "no memory for the names of disks");
}

void wane__server_free_disks(struct wane_server *server) {
    for (size_t i = 0; i < server->disk_count; i++) {
        wane__free((char *)(uintptr_t)server->disks[i].what);
        wane__free((char *)(uintptr_t)server->disks[i].path);
    }
    wane__free(server->disks);
}
