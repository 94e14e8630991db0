/*
 * metrics_quality.c - what /metrics says of what may change answers: the gate and its wakes, the breaker, corrections of tokens, the
 * governor and its fuse, SSPs, text preparation; and of the cache that all of them stand on.
 *
 * `sfcl_fallback_total` is the name that dashboards know for wakes, by reason.
 */
#include "server/metrics.h"

static void by_reason(struct wane__buf *out, const char *name, const char *model, const char *help,
                      const uint64_t *count) {
    wane__metric_head(out, name, "counter", help);
    for (int i = WANE_WAKE_NONE + 1; i < WANE_WAKES; i++) {
        wane__buf_format(out, "%s{", name);
        if (model != NULL) {
            wane__buf_text(out, "model=");
            wane__metric_label(out, model);
            wane__buf_text(out, ",");
        }
        wane__buf_format(out, "reason=\"%s\"} %llu\n", wane_wake_name(i), (unsigned long long)count[i]);
    }
}

void wane__metrics_write_gate(const wane_gate_state *g, const char *model, struct wane__buf *out) {
    static const char gauge[] = "gauge", counter[] = "counter";
    by_reason(out, "sfcl_fallback_total", model, "Wakes of the vote over answers, by reason.", g->wakes);
    by_reason(out, "wane_gate_rejects_total", NULL, "Tokens in doubt, by reason.", g->rejects_by);
    wane__metric_whole(out, "wane_gate_revoted_total", counter, "Of these, drawn by more votes.", g->revoted);
    wane__metric_whole(out, "wane_gate_revoted_changed_total", counter,
                       "Of those, tokens that more votes changed.", g->revoted_changed);
    wane__metric_whole(out, "wane_gate_on", gauge, "1 while the model has a gate.", g->given);
    wane__metric_whole(out, "wane_gate_patterns", gauge, "Patterns in its table.", g->patterns);
    wane__metric_whole(out, "wane_gate_judged_total", counter, "Tokens that it judged.", g->judged);
    wane__metric_whole(out, "wane_gate_lookups_total", counter, "Tokens looked up in its table.", g->lookups);
    wane__metric_whole(out, "wane_gate_hits_total", counter,
                       "Of these, found there; its net ran for the others.", g->lut_hits);
    wane__metric_whole(out, "wane_gate_table_passed_total", counter,
                       "Tokens passed because the table knows their context.", g->table_passed);
    wane__metric_whole(out, "wane_gate_revival_total", counter,
                       "Tokens far into a reply that the net looked at.", g->revival);
    wane__metric_whole(out, "wane_gate_forced_total", counter,
                       "Tokens of hot requests that were checked whatever the table said.", g->forced);
    wane__metric_whole(out, "wane_breaker_out", gauge, "1 while too many wakes keep temperatures down.",
                       g->breaker_out);
    wane__metric_whole(out, "wane_breaker_trips_total", counter, "Times that it went out.", g->breaker_trips);
    wane__metric_whole(out, "wane_breaker_recent_wakes", gauge, "Wakes in its window.",
                       (uint64_t)g->breaker_recent);
}

void wane__metrics_write_corrections(const wane_correction_state *c, struct wane__buf *out) {
    static const char counter[] = "counter";
    const struct {
        const char *name;
        const wane_correction_part *part;
    } parts[] = {{"clamp", &c->clamp}, {"dialogue", &c->dialogue}, {"vote", &c->vote}, {"rules", &c->rules}};
    wane__metric_whole(out, "wane_corrected_tokens_total", counter, "Tokens drawn with a correction at work.",
                       c->tokens);
    wane__metric_whole(out, "wane_changed_tokens_total", counter, "Of these, other ones than without.",
                       c->changed);
    wane__metric_whole(out, "wane_correction_draws_total", counter, "Random numbers that went into them.",
                       c->draws);
    wane__metric_head(out, "wane_correction_ran_total", counter, "Tokens at which a part was at work.");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        wane__buf_format(out, "wane_correction_ran_total{part=\"%s\"} %llu\n", parts[i].name,
                         (unsigned long long)parts[i].part->ran);
    wane__metric_head(out, "wane_correction_changed_total", counter, "Of these, changed by it.");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        wane__buf_format(out, "wane_correction_changed_total{part=\"%s\"} %llu\n", parts[i].name,
                         (unsigned long long)parts[i].part->changed);
    wane__metric_whole(out, "wane_rules_loaded", "gauge", "Rules that the model has.",
                       (uint64_t)c->rules_loaded);
    wane__metric_whole(out, "wane_rules_failures_total", counter, "Patterns that ran out of their time.",
                       c->failures);
}

void wane__metrics_policy(struct wane__metrics *metrics, const wane_ssp *ssp, unsigned steps,
                          const wane_prepared *prepared) {
    if (!ssp->given && steps == 0) return;
    pthread_mutex_lock(&metrics->lock);
    metrics->ssp_requests += ssp->given;
    for (int key = 0; key < WANE_SSP_KEYS && ssp->given; key++) metrics->ssp[key][ssp->value[key]]++;
    metrics->prepared_requests += steps != 0;
    for (int i = 0; i < WANE_PREPARE_STEPS; i++) metrics->prepared[i] += prepared->changes[i];
    pthread_mutex_unlock(&metrics->lock);
}

void wane__metrics_write_policy(struct wane__metrics *metrics, struct wane__buf *out) {
    static const char counter[] = "counter";
    pthread_mutex_lock(&metrics->lock);
    wane__metric_whole(out, "wane_ssp_requests_total", counter, "Requests with an SSP.",
                       metrics->ssp_requests);
    wane__metric_head(out, "wane_ssp_values_total", counter, "Requests by what their SSP says.");
    for (int key = 0; key < WANE_SSP_KEYS; key++)
        for (int value = 1; wane_ssp_value_name(key, value) != NULL; value++)
            wane__buf_format(out, "wane_ssp_values_total{%s=\"%s\"} %llu\n", wane_ssp_key_name(key),
                             wane_ssp_value_name(key, value), (unsigned long long)metrics->ssp[key][value]);
    wane__metric_whole(out, "wane_prepared_requests_total", counter, "Requests whose texts were prepared.",
                       metrics->prepared_requests);
    wane__metric_head(out, "wane_prepare_changes_total", counter, "What was changed in them, by step.");
    for (int i = 0; i < WANE_PREPARE_STEPS; i++)
        wane__buf_format(out, "wane_prepare_changes_total{step=\"%s\"} %llu\n", wane_prepare_name(i),
                         (unsigned long long)metrics->prepared[i]);
    pthread_mutex_unlock(&metrics->lock);
}

static double ratio(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

void wane__metrics_write_governor(const wane_governor_state *g, struct wane__buf *out) {
    static const char gauge[] = "gauge", counter[] = "counter";
    uint64_t all = 0;
    for (int i = 0; i < WANE_STATES; i++) all += g->tokens[i];
    wane__metric_real(out, "ssp_state_machine_active_ratio", gauge,
                      "Of tokens drawn under a profile, the share in another state than normal.",
                      ratio(all - g->tokens[WANE_STATE_NORMAL], all));
    wane__metric_real(out, "temp_command_drop_rate", gauge,
                      "Of commands to samplers, the share that came after their tokens.",
                      ratio(g->dropped, g->commands));
    wane__metric_real(out, "semantic_entropy_std_5tokens", gauge,
                      "Standard deviation of the last entropies, nats, where they were last looked at (every "
                      "token: entropies = on); 0: not yet.",
                      (double)g->entropy_spread);
    wane__metric_real(out, "cross_block_consistency_score", gauge,
                      "Cosine of two blocks' outputs at the newest token; 0: not looked at.",
                      (double)g->last_consistency);
    wane__metric_whole(out, "wane_governor_on", gauge, "1 while the model has a profile with a signal.",
                       g->on);
    wane__metric_head(out, "wane_governor_tokens_total", counter, "Tokens drawn under a profile, by state.");
    for (int i = 0; i < WANE_STATES; i++)
        wane__buf_format(out, "wane_governor_tokens_total{state=\"%s\"} %llu\n", wane_state_name(i),
                         (unsigned long long)g->tokens[i]);
    wane__metric_whole(out, "wane_governor_missing_total", counter, "Of these, without a signal.",
                       g->missing);
    wane__metric_whole(out, "wane_governor_commands_total", counter, "Commands to samplers.", g->commands);
    wane__metric_whole(out, "wane_governor_commands_dropped_total", counter,
                       "Of these, for tokens that were drawn already, or came without a draw.", g->dropped);
    wane__metric_head(out, "wane_fuse_total", counter, "Replies that the fuse ended, by its rule.");
    for (int i = WANE_FUSE_OFF + 1; i < WANE_FUSES; i++)
        wane__buf_format(out, "wane_fuse_total{rule=\"%s\"} %llu\n", wane_fuse_name(i),
                         (unsigned long long)g->fused[i]);
    wane__metric_whole(out, "wane_fuse_tokens_total", counter, "Tokens that it looked at.", g->fuse_tokens);
    wane__metric_whole(out, "wane_entropies_total", counter, "Rows whose entropy was taken.", g->entropies);
    wane__metric_whole(out, "wane_consistency_tokens_total", counter, "Tokens with a consistency.",
                       g->judged);
    wane__metric_whole(out, "wane_consistency_redrawn_total", counter,
                       "Of these, below the limit and drawn twice.", g->inconsistent);
    wane__metric_whole(out, "wane_consistency_changed_total", counter,
                       "Of these, those of which the second draw stood.", g->changed);
}

void wane__metrics_write_cache(const wane_scheduler_state *s, struct wane__buf *out) {
    wane__metric_real(out, "kv_cache_fragmentation_rate", "gauge",
                      "Of the cells of sequences that hold something, the share that is empty.",
                      s->kv_cells > 0 ? 1 - ratio(s->kv_held, s->kv_cells) : 0);
    wane__metric_real(out, "kv_cache_hit_rate", "gauge",
                      "Of all prompt tokens since the start, the share kept from earlier requests.",
                      ratio(s->reused_tokens, s->prompt_tokens));
}

void wane__metrics_repeat(struct wane__metrics *metrics, bool on, double score) {
    pthread_mutex_lock(&metrics->lock);
    metrics->repeats[on]++;
    metrics->repeat_score[on] += score;
    pthread_mutex_unlock(&metrics->lock);
}

void wane__metrics_write_repeats(struct wane__metrics *metrics, struct wane__buf *out) {
    static const char name[] = "wane_consistency_repeat_score";
    static const char *const sides[] = {"off", "on"};
    wane__metric_head(
        out, name, "summary",
        "How much answers to a question that came again are alike, 0 to 1, by side of the rollout.");
    pthread_mutex_lock(&metrics->lock);
    for (int on = 0; on < 2; on++)
        wane__buf_format(out, "%s_sum{side=\"%s\"} %.9g\n%s_count{side=\"%s\"} %llu\n", name, sides[on],
                         metrics->repeat_score[on], name, sides[on],
                         (unsigned long long)metrics->repeats[on]);
    pthread_mutex_unlock(&metrics->lock);
}
