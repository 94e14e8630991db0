/*
 * doctor_machine.c - judgements on a machine's facts, and how findings are kept. Owns the list of findings. Refuses to look anything
 * up: what is not in the facts is not known, and what is not known is no fault.
 */
#include "doctor.h"

#include "metrics_text.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 2026-01-01: no clock that is right can say less. */
#define DATE_LEAST INT64_C(1767225600000)

#define MEGABYTES(bytes) ((double)(bytes) / 1e6)

/* ---- findings ---------------------------------------------------------------------------------------------------------- */

const char *check_level_name(enum check_level level) {
    static const char *const names[] = {"SKIPPED", "PASSED", "WARNING", "CRITICAL"};
    return names[level];
}

void checkup_add(struct checkup *checkup, const char *name, enum check_level level, const char *next,
                 const char *format, ...) {
    va_list arguments;
    char *text = NULL;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) text = text_copy(format);
    va_end(arguments);
    for (char *c = text; *c != '\0'; c++) /* one line a check */
        if (*c == '\n') *c = ' ';
    checkup->list = text_grow(checkup->list, ((size_t)checkup->count + 1) * sizeof *checkup->list);
    checkup->list[checkup->count++] = (struct check){name, level, text, text_copy(next != NULL ? next : "")};
}

void checkup_free(struct checkup *checkup) {
    for (int i = 0; i < checkup->count; i++) {
        free(checkup->list[i].text);
        free(checkup->list[i].next);
    }
    free(checkup->list);
    *checkup = (struct checkup){0};
}

enum check_level checkup_worst(const struct checkup *checkup) {
    enum check_level worst = CHECK_SKIPPED;
    for (int i = 0; i < checkup->count; i++)
        if (checkup->list[i].level > worst) worst = checkup->list[i].level;
    return worst;
}

int checkup_code(const struct checkup *checkup) {
    enum check_level worst = checkup_worst(checkup);
    return worst == CHECK_CRITICAL ? 2 : worst == CHECK_WARNING ? 1 : 0;
}

json_t *checkup_json(const struct checkup *checkup) {
    json_t *list = json_array();
    for (int i = 0; i < checkup->count; i++) {
        const struct check *c = &checkup->list[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "check", c->name, "level",
                                              check_level_name(c->level), "found", c->text, "next", c->next));
    }
    return list;
}

/* ---- processor ----------------------------------------------------------------------------------------------------------- */

static bool has(const char *features, const char *word) {
    size_t length = strlen(word);
    for (const char *at = features; (at = strstr(at, word)) != NULL; at += length)
        if ((at == features || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
    return false;
}

/* Plug-ins of the engine that do not know 512 bits. */
static bool is_narrow(const char *kernels) {
    static const char *const narrow[] = {"x64", "sse42", "sandybridge", "ivybridge", "piledriver", "haswell"};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        if (strstr(kernels, narrow[i]) != NULL) return true;
    return false;
}

void doctor_cpu(struct checkup *checkup, const wane_machine *m, const struct doctor_wish *wish) {
    static const char name[] = "CPU_FEATURES";
    const char *kernel = wish->kernel != NULL ? wish->kernel : "not known";
    char *found = text_format("%s (%s); kernels: engine %s, head %s",
                              m->processor[0] != '\0' ? m->processor : "processor not known",
                              m->features[0] != '\0' ? m->features : "features not known",
                              m->kernels[0] != '\0' ? m->kernels : "not known", kernel);
    bool known = m->features[0] != '\0', wide = has(m->features, "avx2") || has(m->features, "asimd");
    if (known && !wide)
        checkup_add(checkup, name, CHECK_WARNING,
                    "expect a tenth of the usual speed; run on a processor with AVX2 or NEON, or let the "
                    "virtual machine see the host's features",
                    "%s: no wide instructions", found);
    else if (known && strcmp(kernel, "plain") == 0)
        checkup_add(checkup, name, CHECK_WARNING,
                    "set head-kernel to auto: wane config shows where it comes from",
                    "%s: the head's scan does not use them", found);
    else if (has(m->features, "avx512f") && m->kernels[0] != '\0' && is_narrow(m->kernels))
        checkup_add(checkup, name, CHECK_WARNING,
                    "point --backends at a folder with the engine's plug-in for AVX-512",
                    "%s: the engine's plug-in does not use AVX-512", found);
    else
        checkup_add(checkup, name, CHECK_PASSED, NULL, "%s", found);
    free(found);
}

void doctor_threads(struct checkup *checkup, const wane_machine *m, const struct doctor_wish *wish) {
    static const char name[] = "THREADS";
    int threads = wish->threads > 0 ? wish->threads : m->cores;
    char quota[40] = "no quota";
    if (!isnan(m->quota)) snprintf(quota, sizeof quota, "a quota of %.3g", m->quota);
    char *found = text_format("%d threads for decoding; %d CPUs, %d allowed, %d cores, %s", threads, m->cpus,
                              m->allowed, m->cores, quota);
    if (m->allowed > 0 && threads > m->allowed)
        checkup_add(checkup, name, CHECK_CRITICAL, "set threads to 0, or to the CPUs that are allowed",
                    "%s: threads that spin on one CPU slow each other tenfold", found);
    else if (!isnan(m->quota) && threads > (int)ceil(m->quota))
        checkup_add(checkup, name, CHECK_CRITICAL,
                    "set threads to 0, or raise the control group's quota (cpu.max)",
                    "%s: the quota stops all of them again and again", found);
    else if (threads > m->cores)
        checkup_add(checkup, name, CHECK_WARNING, "set threads to 0: one a core",
                    "%s: two threads of one core share its arithmetic", found);
    else
        checkup_add(checkup, name, CHECK_PASSED, NULL, "%s", found);
    free(found);
}

/* ---- memory --------------------------------------------------------------------------------------------------------------- */

static char *bytes_text(uint64_t bytes) {
    return bytes == WANE_UNKNOWN     ? text_copy("not known")
           : bytes == WANE_UNLIMITED ? text_copy("no limit")
                                     : text_format("%.0f MB", MEGABYTES(bytes));
}

static bool below(uint64_t have, uint64_t need) {
    return have < WANE_UNLIMITED && have < need;
}

static char *memory_text(const wane_machine *m) {
    const uint64_t of[] = {m->memory_free, m->memory,    m->group_memory,
                           m->group_used,  m->lock_most, m->shared_free};
    char *t[6];
    for (int i = 0; i < 6; i++) t[i] = bytes_text(of[i]);
    char files[30] = "no limit";
    if (m->files_most < WANE_UNLIMITED) snprintf(files, sizeof files, "%" PRIu64, m->files_most);
    char *all = text_format("%s free of %s; control group: %s, used %s; locked: %s; shared memory free: %s; "
                            "open files: %s",
                            t[0], t[1], t[2], t[3], t[4], t[5], files);
    for (int i = 0; i < 6; i++) free(t[i]);
    return all;
}

void doctor_memory(struct checkup *checkup, const wane_machine *m, const struct doctor_wish *wish) {
    static const char name[] = "MEMORY_LIMITS";
    char *found = memory_text(m);
    /* Weights are mapped; beside them stand caches, the sketch and scratch: a quarter more is little. */
    uint64_t need = wish->model_bytes + wish->model_bytes / 4;
    uint64_t files = (uint64_t)wish->connections + 64;
    if (below(m->group_memory, need))
        checkup_add(checkup, name, CHECK_CRITICAL,
                    "raise the control group's memory.max, or take a smaller model",
                    "%s: a model of %.0f MB does not fit", found, MEGABYTES(wish->model_bytes));
    else if (below(m->space_most, 2 * need))
        checkup_add(checkup, name, CHECK_CRITICAL, "ulimit -v unlimited",
                    "%s: the address space is limited to %.0f MB", found, MEGABYTES(m->space_most));
    else if (wish->lock && below(m->lock_most, need))
        checkup_add(checkup, name, CHECK_WARNING, "raise LimitMEMLOCK (ulimit -l), or set mlock off",
                    "%s: mlock is on, and the weights are larger than what may be locked", found);
    else if (below(m->memory_free, need))
        checkup_add(checkup, name, CHECK_WARNING, "end what else takes memory, or take a smaller model",
                    "%s: a model of %.0f MB will push others out", found, MEGABYTES(wish->model_bytes));
    else if (below(m->files_most, files))
        checkup_add(checkup, name, CHECK_WARNING, "raise LimitNOFILE (ulimit -n), or lower max-connections",
                    "%s: %d connections need more", found, wish->connections);
    else
        checkup_add(checkup, name, CHECK_PASSED, NULL, "%s", found);
    free(found);
}

/* ---- clock, load --------------------------------------------------------------------------------------------------------------- */

void doctor_clock(struct checkup *checkup, const wane_machine *m, const struct doctor_wish *wish) {
    static const char name[] = "CLOCK", set[] = "set the date, and keep it right: timedatectl set-ntp true";
    const char *kept = m->synchronised > 0   ? "kept right by a time server"
                       : m->synchronised < 0 ? "not known whether a time server keeps it right"
                                             : "kept right by nobody";
    if (!m->monotonic)
        checkup_add(checkup, name, CHECK_CRITICAL,
                    "move to another machine: durations cannot be trusted here",
                    "the clock for durations goes backwards");
    else if (m->date_ms < DATE_LEAST)
        checkup_add(checkup, name, CHECK_CRITICAL, set,
                    "the date lies before this version of wane was written");
    else if (wish->built_ms > 0 && m->date_ms < wish->built_ms)
        checkup_add(checkup, name, CHECK_CRITICAL, set, "the date lies before this program was made");
    else if (m->synchronised == 0)
        checkup_add(checkup, name, CHECK_WARNING, set, "monotonic; %s", kept);
    else
        checkup_add(checkup, name, CHECK_PASSED, NULL, "monotonic; %s", kept);
}

void doctor_load(struct checkup *checkup, const wane_machine *m) {
    static const char name[] = "LOAD";
    double cpus = m->cpus > 0 ? m->cpus : 1;
    char frequency[80] = "frequency not known", busy[90] = "";
    if (!isnan(m->busy))
        snprintf(busy, sizeof busy, "others keep %.2f of %d CPUs busy, stolen %.1f %%, ", m->busy, m->cpus,
                 100 * m->steal);
    if (!isnan(m->mhz))
        snprintf(frequency, sizeof frequency, "%.0f MHz, governor %s", m->mhz,
                 m->governor[0] != '\0' ? m->governor : "not known");
    char *found = text_format("load %.2f, %s%s", m->load[0], busy, frequency);
    if (m->busy > 0.25 * cpus || (isnan(m->busy) && m->load[0] > 0.5 * cpus))
        checkup_add(checkup, name, CHECK_WARNING, "end what else runs before you measure: top -o %CPU",
                    "%s: the machine is busy", found);
    else if (m->steal > 0.02)
        checkup_add(checkup, name, CHECK_WARNING, "ask for CPUs of your own: the host gives them to others",
                    "%s: the host takes time away", found);
    else if (strcmp(m->governor, "powersave") == 0 || strcmp(m->governor, "conservative") == 0)
        checkup_add(checkup, name, CHECK_WARNING, "cpupower frequency-set -g performance",
                    "%s: the frequency follows the load too slowly", found);
    else
        checkup_add(checkup, name, CHECK_PASSED, NULL, "%s", found);
    free(found);
}

static json_t *real_json(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *bytes_json(uint64_t bytes) {
    return bytes >= WANE_UNLIMITED ? json_null() : json_integer((json_int_t)bytes);
}

json_t *machine_json(const wane_machine *m) {
    json_t *all =
        json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:s}", "system", m->system, "processor", m->processor,
                  "features", m->features, "engine_kernels", m->kernels, "cpus", m->cpus, "allowed",
                  m->allowed, "cores", m->cores, "frequency_governor", m->governor);
    json_object_set_new(all, "quota", real_json(m->quota));
    json_object_set_new(all, "mhz", real_json(m->mhz));
    json_object_set_new(all, "mhz_most", real_json(m->mhz_most));
    json_object_set_new(all, "load", real_json(m->load[0]));
    json_object_set_new(all, "busy", real_json(m->busy));
    json_object_set_new(all, "steal", real_json(m->steal));
    json_object_set_new(all, "memory", bytes_json(m->memory));
    json_object_set_new(all, "memory_free", bytes_json(m->memory_free));
    json_object_set_new(all, "pressure", real_json(m->pressure));
    json_object_set_new(all, "group_memory", bytes_json(m->group_memory));
    json_object_set_new(all, "group_used", bytes_json(m->group_used));
    json_object_set_new(all, "shared", bytes_json(m->shared));
    json_object_set_new(all, "shared_free", bytes_json(m->shared_free));
    json_object_set_new(all, "lock_most", bytes_json(m->lock_most));
    json_object_set_new(all, "files_most", bytes_json(m->files_most));
    json_object_set_new(all, "space_most", bytes_json(m->space_most));
    json_object_set_new(all, "synchronised",
                        m->synchronised >= 0 ? json_boolean(m->synchronised) : json_null());
    json_object_set_new(all, "date_error", real_json(m->date_error));
    json_object_set_new(all, "date_ms", json_integer((json_int_t)m->date_ms));
    return all;
}

/* ---- a server's metrics --------------------------------------------------------------------------------------------------------- */

static double counted(const char *metrics, const char *name) {
    double value = metrics_value(metrics, name, NULL);
    return isnan(value) ? 0 : value;
}

/* One line of SERVER: the worst that is found. */
void doctor_metrics(struct checkup *checkup, const char *url, int ready, const char *said,
                    const char *metrics) {
    static const char name[] = "SERVER";
    double checks = counted(metrics, "wane_shadow_checks_total"),
           parted = counted(metrics, "output_divergence_count");
    char engine[120] = "", version[60] = "", which[200];
    metrics_label(metrics, "wane_build_info", "engine", engine, sizeof engine);
    metrics_label(metrics, "wane_build_info", "version", version, sizeof version);
    char *found =
        text_format("%s: /ready %d; wane %s; %.0f replies, %.0f of %.0f checked tokens diverged", url, ready,
                    version, counted(metrics, "wane_requests_completed_total"), parted, checks);
    if (counted(metrics, "wane_engine_stuck") > 0)
        checkup_add(checkup, name, CHECK_CRITICAL,
                    "restart it; keep its log: one call of the engine does not come back",
                    "%s; the engine is stuck", found);
    else if (ready != 200)
        checkup_add(checkup, name, CHECK_CRITICAL, "wait while it loads or stops; else read its log",
                    "%s: %.120s", found, said);
    else if (metrics_which(metrics, "wane_feature_broken", "feature", which, sizeof which))
        checkup_add(checkup, name, CHECK_CRITICAL,
                    "wane diagnose --b \"--table FILE --table-meaning argmax\" PROMPT, or --a \"--head "
                    "dense\", names the cause",
                    "%s; off because it diverged: %s", found, which);
    else if (parted > 1e-5 * checks)
        checkup_add(
            checkup, name, CHECK_CRITICAL,
            "wane diagnose shows where; serve with --head dense and without --table until it is found",
            "%s: more than one in 100,000", found);
    else if (!metrics_good(metrics))
        checkup_add(checkup, name, CHECK_WARNING, "please report it", "%s; /metrics holds what is no number",
                    found);
    else if (metrics_which(metrics, "wane_alert", "name", which, sizeof which))
        checkup_add(checkup, name, CHECK_WARNING, "its log says since when; docs/troubleshooting.md",
                    "%s; alerts: %s", found, which);
    else if (parted > 0)
        checkup_add(checkup, name, CHECK_WARNING,
                    "wane diagnose --a \"--head dense\" --b \"--head always\" PROMPT", "%s", found);
    else if (counted(metrics, "wane_table_reload_failures_total") > 0)
        checkup_add(checkup, name, CHECK_WARNING, "wane table verify FILE; its log has the reason",
                    "%s; a table could not be taken in", found);
    else if (counted(metrics, "wane_breaker_out") > 0)
        checkup_add(checkup, name, CHECK_WARNING, "wane gate explain shows what the gate doubts",
                    "%s; the breaker is out: too many votes", found);
    else
        checkup_add(checkup, name, CHECK_PASSED, NULL, "%s", found);
    free(found);
}

/* ---- a server's alerts --------------------------------------------------------------------------------------------------------- */

/* Those that say that something is wrong now; the others, that something was taken back. */
static bool is_grave(const char *alert) {
    static const char *const mild[] = {"gate_breaker", "table_reload", "rollout_step_back"};
    for (size_t i = 0; i < sizeof mild / sizeof *mild; i++)
        if (strcmp(alert, mild[i]) == 0) return false;
    return true;
}

void doctor_alerts(struct checkup *checkup, const char *answer) {
    json_t *all = json_loads(answer, 0, NULL);
    const json_t *list = json_object_get(all, "alerts"), *one;
    enum check_level level = CHECK_PASSED;
    char *found = text_copy("");
    size_t i;
    json_array_foreach(list, i, one) {
        const char *name = json_string_value(json_object_get(one, "name")),
                   *why = json_string_value(json_object_get(one, "reason"));
        if (name == NULL || why == NULL || !json_is_true(json_object_get(one, "raised"))) continue;
        char *longer = text_format("%s%s%s: %s", found, found[0] != '\0' ? "; " : "", name, why);
        free(found);
        found = longer;
        if (level != CHECK_CRITICAL) level = is_grave(name) ? CHECK_CRITICAL : CHECK_WARNING;
    }
    if (list == NULL)
        checkup_add(checkup, "ALERTS", CHECK_SKIPPED, NULL, "the server does not say");
    else if (level == CHECK_PASSED)
        checkup_add(checkup, "ALERTS", level, NULL, "none of %zu is raised", json_array_size(list));
    else
        checkup_add(checkup, "ALERTS", level,
                    "docs/alerts.md has each alert, and how what switched itself off is armed again", "%s",
                    found);
    free(found);
    json_decref(all);
}
