/*
 * template.h - the engine's Jinja interpreter (libllama-common) behind a C interface.
 *
 * Only there when WANE_HAVE_JINJA is defined. Nothing throws across it. A parsed template may be rendered
 * from any thread; renderings of one template take turns.
 */
#ifndef WANE_ENGINE_TEMPLATE_H
#define WANE_ENGINE_TEMPLATE_H

#include "wane.h"

#ifdef __cplusplus
extern "C" {
#endif

struct wane__template;
struct wane__buf;

/* Parse. On failure: a WANE_E code, and the parser's words in `message`. */
int wane__template_parse(const char *source, const char *bos, const char *eos, struct wane__template **out,
                         char *message, size_t message_size);
void wane__template_free(struct wane__template *parsed);

/*
 * Render and append to `out`. `generate` asks for the start of an assistant's turn. WANE_EINVAL when the
 * template refuses the messages; `message` is then what the template says ("Conversation roles must
 * alternate …").
 */
int wane__template_render(const struct wane__template *parsed, const wane_message *messages, size_t count,
                          bool generate, struct wane__buf *out, char *message, size_t message_size);

#ifdef __cplusplus
}
#endif
#endif
