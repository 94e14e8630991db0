/*
 * template.cpp - a thin shim over the engine's Jinja interpreter; the only C++ in wane.
 *
 * Owns a parsed template. Every exception ends here and becomes a code and a sentence. What a template
 * sees: messages (role, content), add_generation_prompt, bos_token, eos_token; strftime_now, raise_exception
 * and the rest of the built-ins come with the interpreter. Content goes in as a string, or as a list with
 * one text part for those templates that only know lists.
 */
#include "engine/template.h"

extern "C" {
#include "core/buf.h"
}

#include <jinja/caps.h>
#include <jinja/parser.h>
#include <jinja/runtime.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <string>

struct wane__template {
    jinja::program program;
    std::string source, bos, eos;
    bool typed_content = false;
    mutable std::mutex lock; /* the interpreter does not promise that a program may run twice at once */
};

namespace {

void say(char *message, size_t size, const char *text) {
    if (message != nullptr && size > 0) std::snprintf(message, size, "%s", text);
}

/* The interpreter wraps an error in an excerpt of the template; people want what was raised. */
std::string innermost(const char *what) {
    std::string text = what != nullptr ? what : "";
    for (const char *prefix : {"Jinja Exception: ", "Error: "}) {
        size_t at = text.rfind(prefix);
        if (at != std::string::npos) return text.substr(at + std::strlen(prefix));
    }
    return text;
}

jinja::value text_value(const std::string &text) {
    return jinja::mk_val<jinja::value_string>(text);
}

jinja::value content_value(const wane__template &parsed, const std::string &text) {
    if (!parsed.typed_content) return text_value(text);
    auto part = jinja::mk_val<jinja::value_object>();
    part->insert("type", text_value("text"));
    part->insert("text", text_value(text));
    auto list = jinja::mk_val<jinja::value_array>();
    list->push_back(part);
    return list;
}

std::string render(const wane__template &parsed, const wane_message *messages, size_t count, bool generate) {
    jinja::context context(parsed.source);
    auto list = jinja::mk_val<jinja::value_array>();
    for (size_t i = 0; i < count; i++) {
        auto message = jinja::mk_val<jinja::value_object>();
        message->insert("role", text_value(messages[i].role));
        std::string content;
        if (messages[i].content_size > 0) content.assign(messages[i].content, messages[i].content_size);
        message->insert("content", content_value(parsed, content));
        list->push_back(message);
    }
    context.set_val("messages", list);
    context.set_val("bos_token", text_value(parsed.bos));
    context.set_val("eos_token", text_value(parsed.eos));
    context.set_val("add_generation_prompt", jinja::mk_val<jinja::value_bool>(generate));
    jinja::runtime runtime(context);
    jinja::value result = runtime.execute(parsed.program);
    return jinja::runtime::gather_string_parts(result)->as_string().str();
}

} // namespace

extern "C" int wane__template_parse(const char *source, const char *bos, const char *eos,
                                    struct wane__template **out, char *message, size_t message_size) {
    *out = nullptr;
    wane__template *parsed = nullptr;
    int code = WANE_EFORMAT;
    try {
        parsed = new wane__template;
        jinja::lexer lexer;
        jinja::lexer_result tokens = lexer.tokenize(source);
        parsed->program = jinja::parse_from_tokens(tokens);
        parsed->source = tokens.source;
        parsed->bos = bos;
        parsed->eos = eos;
        jinja::caps caps = jinja::caps_get(parsed->program);
        parsed->typed_content = !caps.supports_string_content && caps.supports_typed_content;
        *out = parsed;
        return WANE_OK;
    } catch (const std::bad_alloc &) {
        code = WANE_ENOMEM;
        say(message, message_size, "no memory");
    } catch (const std::exception &e) {
        say(message, message_size, e.what());
    } catch (...) {
        say(message, message_size, "unknown error");
    }
    delete parsed;
    return code;
}

extern "C" void wane__template_free(struct wane__template *parsed) {
    delete parsed;
}

extern "C" int wane__template_render(const struct wane__template *parsed, const wane_message *messages,
                                     size_t count, bool generate, struct wane__buf *out, char *message,
                                     size_t message_size) {
    try {
        std::lock_guard<std::mutex> guard(parsed->lock);
        std::string text = render(*parsed, messages, count, generate);
        if (wane__buf_append(out, text.data(), text.size())) return WANE_OK;
        say(message, message_size, "no memory");
        return WANE_ENOMEM;
    } catch (const std::bad_alloc &) {
        say(message, message_size, "no memory");
        return WANE_ENOMEM;
    } catch (const std::exception &e) {
        say(message, message_size, innermost(e.what()).c_str());
    } catch (...) {
        say(message, message_size, "unknown error");
    }
    return WANE_EINVAL;
}
