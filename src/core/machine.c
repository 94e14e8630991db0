/*
 * machine.c - what can be known of the machine without being its owner: processor, limits, memory, load, clock, disks.
 *
 * Owns nothing and keeps nothing. Refuses to judge, and to fail: a file that is not there, or says something else than it should,
 * leaves a fact unknown. All of /proc, /sys and /dev is read below a root that tests choose.
 */
#include "core/clock.h"
#include "core/error.h"
#include "core/os.h"
#include "wane.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <sched.h>
#include <sys/timex.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

/* -------------------------------------------------------------------- files */

static FILE *open_below(const char *root, const char *path) {
    char whole[2048];
    int length = snprintf(whole, sizeof whole, "%s%s", root, path);
    return length > 0 && (size_t)length < sizeof whole ? fopen(whole, "re") : NULL;
}

/* The first line, without its end; false when there is none. */
static bool first_line(const char *root, const char *path, char *out, size_t size) {
    FILE *file = open_below(root, path);
    out[0] = '\0';
    if (file == NULL) return false;
    bool read = fgets(out, (int)size, file) != NULL;
    fclose(file);
    out[strcspn(out, "\r\n")] = '\0';
    return read;
}

/* A file that is one number; "max" is no limit. */
static uint64_t bytes_in(const char *root, const char *path) {
    char text[64], *end;
    if (!first_line(root, path, text, sizeof text)) return WANE_UNKNOWN;
    if (strcmp(text, "max") == 0) return WANE_UNLIMITED;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end != '\0') return WANE_UNKNOWN;
    return value >= (uint64_t)1 << 62 ? WANE_UNLIMITED : (uint64_t)value; /* how the first version says so */
}

static double number_in(const char *root, const char *path) {
    char text[64], *end;
    if (!first_line(root, path, text, sizeof text)) return NAN;
    double value = strtod(text, &end);
    return end != text && isfinite(value) ? value : NAN;
}

/* The text behind "key" and a colon, of the first line that begins so. */
static bool value_of(const char *root, const char *path, const char *key, char *out, size_t size) {
    FILE *file = open_below(root, path);
    char *line = NULL;
    size_t room = 0, length = strlen(key);
    bool found = false;
    out[0] = '\0';
    if (file == NULL) return false;
    while (!found && getline(&line, &room, file) > 0) {
        const char *rest = line + length;
        if (strncmp(line, key, length) != 0) continue;
        rest += strspn(rest, " \t");
        if (*rest++ != ':') continue;
        rest += strspn(rest, " \t");
        snprintf(out, size, "%.*s", (int)strcspn(rest, "\n"), rest);
        found = true;
    }
    free(line);
    fclose(file);
    return found;
}

/* ---------------------------------------------------------------- processor */

/* Those that some kernel of the engine or of the head asks for. */
static const char *const wanted_features[] = {"sse3",        "ssse3",       "sse4_1",   "avx",
                                              "avx2",        "fma",         "f16c",     "bmi2",
                                              "avx_vnni",    "avx512f",     "avx512bw", "avx512vl",
                                              "avx512_vnni", "avx512_bf16", "amx_int8", "asimd",
                                              "asimddp",     "asimdhp",     "i8mm",     "sve",
                                              "sve2"};

static void read_features(const char *all, char *out, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < sizeof wanted_features / sizeof *wanted_features; i++) {
        const char *name = wanted_features[i];
        size_t length = strlen(name);
        for (const char *at = all; (at = strstr(at, name)) != NULL; at += length) {
            bool begins = at == all || at[-1] == ' ';
            if (!begins || (at[length] != ' ' && at[length] != '\0')) continue;
            int wrote = snprintf(out + used, size - used, "%s%s", used > 0 ? " " : "", name);
            if (wrote > 0 && (size_t)wrote < size - used) used += (size_t)wrote;
            break;
        }
    }
}

static void read_processor(const char *root, wane_machine *m) {
    static const char info[] = "/proc/cpuinfo";
    char all[8192];
    if (!value_of(root, info, "model name", m->processor, sizeof m->processor))
        value_of(root, info, "Processor", m->processor, sizeof m->processor);
    if (value_of(root, info, "flags", all, sizeof all) || value_of(root, info, "Features", all, sizeof all))
        read_features(all, m->features, sizeof m->features);
    static const char frequency[] = "/sys/devices/system/cpu/cpu0/cpufreq/";
    char path[120];
    snprintf(path, sizeof path, "%sscaling_governor", frequency);
    first_line(root, path, m->governor, sizeof m->governor);
    snprintf(path, sizeof path, "%sscaling_cur_freq", frequency);
    m->mhz = number_in(root, path) / 1e3;
    snprintf(path, sizeof path, "%scpuinfo_max_freq", frequency);
    m->mhz_most = number_in(root, path) / 1e3;
    if (isnan(m->mhz) && value_of(root, info, "cpu MHz", all, sizeof all)) m->mhz = strtod(all, NULL);
}

/* The engine's plug-ins are files of their own: the one that was mapped is the one that computes. */
static void read_kernels(const char *root, wane_machine *m) {
    FILE *file = open_below(root, "/proc/self/maps");
    char *line = NULL;
    size_t room = 0;
    if (file == NULL) return;
    while (m->kernels[0] == '\0' && getline(&line, &room, file) > 0) {
        const char *name = strrchr(line, '/');
        if (name == NULL || strstr(name, "ggml-cpu") == NULL) continue;
        snprintf(m->kernels, sizeof m->kernels, "%.*s", (int)strcspn(name + 1, "\n"), name + 1);
    }
    free(line);
    fclose(file);
}

/* ------------------------------------------------------------ control groups */

/* Of this process's own group and, where that says nothing, of the root of what it sees. */
static uint64_t group_bytes(const char *root, const char *group, const char *v2, const char *v1) {
    char path[1400];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", group, v2);
    uint64_t value = bytes_in(root, path);
    if (value == WANE_UNKNOWN) {
        snprintf(path, sizeof path, "/sys/fs/cgroup/%s", v2);
        value = bytes_in(root, path);
    }
    if (value == WANE_UNKNOWN) {
        snprintf(path, sizeof path, "/sys/fs/cgroup/memory/%s", v1);
        value = bytes_in(root, path);
    }
    return value;
}

static double quota_in(const char *root, const char *path) {
    char text[80];
    double share = NAN, period = NAN;
    if (!first_line(root, path, text, sizeof text)) return NAN;
    return sscanf(text, "%lf %lf", &share, &period) == 2 && share > 0 && period > 0 ? share / period : NAN;
}

static void read_groups(const char *root, wane_machine *m) {
    char group[1200] = "", path[1400];
    if (first_line(root, "/proc/self/cgroup", path, sizeof path) && strncmp(path, "0::/", 4) == 0)
        snprintf(group, sizeof group, "%.1000s", strcmp(path, "0::/") == 0 ? "" : path + 3);
    m->group_memory = group_bytes(root, group, "memory.max", "memory.limit_in_bytes");
    m->group_used = group_bytes(root, group, "memory.current", "memory.usage_in_bytes");
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
    m->quota = quota_in(root, path);
    if (isnan(m->quota)) m->quota = quota_in(root, "/sys/fs/cgroup/cpu.max");
    double share = number_in(root, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    double period = number_in(root, "/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    if (isnan(m->quota) && share > 0 && period > 0) m->quota = share / period;
}

/* ------------------------------------------------------------ memory, limits */

static uint64_t kilobytes(const char *root, const char *key) {
    char text[64], *end;
    if (!value_of(root, "/proc/meminfo", key, text, sizeof text)) return WANE_UNKNOWN;
    unsigned long long value = strtoull(text, &end, 10);
    return end != text && value < (1ULL << 50) ? (uint64_t)value * 1024 : WANE_UNKNOWN;
}

/* `status` is what getrlimit returned: the type of its first argument is each system's own. */
static uint64_t limit_of(int status, const struct rlimit *limit) {
    if (status != 0) return WANE_UNKNOWN;
    return limit->rlim_cur == RLIM_INFINITY ? WANE_UNLIMITED : (uint64_t)limit->rlim_cur;
}

static void read_memory(const char *root, wane_machine *m) {
    char path[2048];
    struct statvfs volume;
    m->memory = kilobytes(root, "MemTotal");
    m->memory_free = kilobytes(root, "MemAvailable");
#ifdef __APPLE__
    size_t size = sizeof m->memory;
    if (sysctlbyname("hw.memsize", &m->memory, &size, NULL, 0) != 0) m->memory = WANE_UNKNOWN;
#endif
    m->shared = m->shared_free = WANE_UNKNOWN;
    snprintf(path, sizeof path, "%s/dev/shm", root);
    if (statvfs(path, &volume) == 0) {
        m->shared = (uint64_t)volume.f_blocks * volume.f_frsize;
        m->shared_free = (uint64_t)volume.f_bavail * volume.f_frsize;
    }
    struct rlimit limit;
    m->lock_most = limit_of(getrlimit(RLIMIT_MEMLOCK, &limit), &limit);
    m->files_most = limit_of(getrlimit(RLIMIT_NOFILE, &limit), &limit);
    m->space_most = limit_of(getrlimit(RLIMIT_AS, &limit), &limit);
}

/* --------------------------------------------------------------------- load */

/* Ticks of all CPUs, and this process's own seconds. */
struct ticks {
    double busy, idle, steal, own;
    bool known;
};

static struct ticks ticks_now(const char *root) {
    double t[8] = {0};
    char line[400];
    struct ticks now = {0};
    struct rusage own;
    if (!first_line(root, "/proc/stat", line, sizeof line)) return now;
    int found = sscanf(line, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5],
                       &t[6], &t[7]);
    if (found < 5 || getrusage(RUSAGE_SELF, &own) != 0) return now;
    now.busy = t[0] + t[1] + t[2] + t[5] + t[6];
    now.idle = t[3] + t[4];
    now.steal = t[7];
    now.own = (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
              1e-6 * (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec);
    now.known = true;
    return now;
}

static void read_busy(const char *root, int sample_ms, wane_machine *m) {
    struct ticks before = ticks_now(root);
    double began = wane__now(), hertz = (double)sysconf(_SC_CLK_TCK);
    struct timespec wait = {.tv_sec = sample_ms / 1000, .tv_nsec = (long)(sample_ms % 1000) * 1000000};
    if (sample_ms <= 0 || !before.known) return;
    nanosleep(&wait, NULL);
    struct ticks after = ticks_now(root);
    double seconds = wane__now() - began, busy = after.busy - before.busy, steal = after.steal - before.steal,
           all = busy + steal + after.idle - before.idle;
    if (!after.known || !(seconds > 0) || !(hertz > 0)) return;
    m->busy = fmax(busy / hertz - (after.own - before.own), 0) / seconds;
    m->steal = all > 0 ? fmax(steal, 0) / all : 0;
}

static void read_load(const char *root, wane_machine *m) {
    char text[200];
    if (root[0] == '\0') {
        if (getloadavg(m->load, 3) != 3) m->load[0] = m->load[1] = m->load[2] = NAN;
    } else if (!first_line(root, "/proc/loadavg", text, sizeof text) ||
               sscanf(text, "%lf %lf %lf", &m->load[0], &m->load[1], &m->load[2]) != 3) {
        m->load[0] = m->load[1] = m->load[2] = NAN;
    }
    if (!first_line(root, "/proc/pressure/cpu", text, sizeof text) ||
        sscanf(text, "some avg10=%lf", &m->pressure) != 1)
        m->pressure = NAN;
    m->pressure /= 100;
}

/* -------------------------------------------------------------------- clock */

static void read_clock(wane_machine *m) {
    double before = wane__now();
    m->date_ms = wane__date_ms();
    m->monotonic = true;
    for (int i = 0; i < 1000; i++) {
        double now = wane__now();
        if (now < before) m->monotonic = false;
        before = now;
    }
    m->synchronised = -1;
    m->date_error = NAN;
#if defined(__linux__)
    struct timex state = {.modes = 0};
    int answer = adjtimex(&state);
    if (answer < 0) return;
    m->synchronised = answer != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
    m->date_error = 1e-6 * (double)state.maxerror;
#endif
}

/* ----------------------------------------------------------------- together */

static int allowed_cpus(int all) {
#if defined(__linux__)
    cpu_set_t mine;
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof mine, &mine) == 0) return CPU_COUNT(&mine);
#endif
    return all;
}

void wane_machine_look(const char *root, int sample_ms, wane_machine *machine) {
    wane_machine *m = machine;
    struct utsname name;
    if (root == NULL) root = "";
    *m = (wane_machine){.quota = NAN, .mhz = NAN, .mhz_most = NAN, .busy = NAN, .steal = NAN};
    if (uname(&name) == 0)
        snprintf(m->system, sizeof m->system, "%.60s %.60s %.60s", name.sysname, name.release, name.machine);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    m->cpus = online > 0 && online < INT_MAX ? (int)online : -1;
    m->allowed = allowed_cpus(m->cpus);
    m->cores = wane__os_cores();
    read_processor(root, m);
    read_kernels(root, m);
    read_groups(root, m);
    read_memory(root, m);
    read_load(root, m);
    read_busy(root, sample_ms, m);
    read_clock(m);
}

/* -------------------------------------------------------------------- disks */

int wane_place_look(const char *path, wane_place *place, wane_error *error) {
    struct statvfs volume;
    struct stat status;
    *place = (wane_place){0};
    int length = snprintf(place->folder, sizeof place->folder, "%s", path);
    if (length <= 0 || (size_t)length >= sizeof place->folder)
        return wane__fail(error, WANE_EINVAL, "A path is empty or longer than %zu bytes: \"%.60s\".",
                          sizeof place->folder - 1, path);
    place->exists = stat(path, &status) == 0;
    while (stat(place->folder, &status) != 0 || !S_ISDIR(status.st_mode)) {
        char *slash = strrchr(place->folder, '/');
        if (slash == NULL)
            snprintf(place->folder, sizeof place->folder, ".");
        else
            slash[slash == place->folder] = '\0'; /* the root keeps its slash */
        if (strcmp(place->folder, "/") == 0 || strcmp(place->folder, ".") == 0) break;
    }
    if (statvfs(place->folder, &volume) != 0)
        return wane__fail(error, WANE_EIO, "Nothing is known of %s: %s.", place->folder, strerror(errno));
    place->read_only = (volume.f_flag & ST_RDONLY) != 0;
    place->writable = access(place->folder, W_OK | X_OK) == 0 && (!place->exists || access(path, W_OK) == 0);
    place->bytes = (uint64_t)volume.f_blocks * volume.f_frsize;
    place->free_bytes = (uint64_t)volume.f_bavail * volume.f_frsize;
    place->free_files = (uint64_t)volume.f_favail;
    return WANE_OK;
}
