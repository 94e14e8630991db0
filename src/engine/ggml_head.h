/*
 * ggml_head.h - the LM head as ggml holds it: recognised in a graph, its rows read, single rows of it computed exactly.
 *
 * Knows no context and no model of libllama, and calls ggml through a table, so that it serves the engine, which is
 * linked to its own ggml, and the library that is loaded into programs which bring theirs (src/preload/).
 */
#ifndef WANE_ENGINE_GGML_HEAD_H
#define WANE_ENGINE_GGML_HEAD_H

#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is asked of ggml. */
struct wane__ggml {
    ggml_backend_dev_t (*dev_by_type)(enum ggml_backend_dev_type type);
    ggml_backend_reg_t (*dev_reg)(ggml_backend_dev_t device);
    void *(*reg_function)(ggml_backend_reg_t reg, const char *name);
    const struct ggml_type_traits *(*type_traits)(enum ggml_type type);
    size_t (*type_size)(enum ggml_type type);
    size_t (*row_size)(enum ggml_type type, int64_t count);
    bool (*buffer_is_host)(ggml_backend_buffer_t buffer);
    const char *(*buffer_name)(ggml_backend_buffer_t buffer);
};

/*
 * Bytes of a hidden row in the form that the head's product takes: it lies on the stack of whoever rescores. Enough for
 * 8,192 floats, or 30,000 weights of 8 bits; a wider head is not rescored.
 */
#define WANE__GGML_MOST_PREPARED 32768

/* The LM head as an observed graph showed it, and how to compute single rows of it. */
struct wane__ggml_head {
    const struct wane__ggml *ggml;
    const struct ggml_tensor *norm;    /* `result_norm` of the graph being observed, else NULL */
    const struct ggml_tensor *weights; /* NULL: not found                                      */
    bool plain;                 /* their product with `norm`, and at most a scale, is all that there is */
    float scale;                /* 1 where there is none; above 0 */
    bool readable;              /* rows lie in host memory in the type's own layout */
    bool exact_one;             /* self-check, one row in a batch: bit for bit      */
    bool exact_many;            /* the same, four rows in a batch                   */
    void *library;              /* the CPU plug-in, held open                       */
    ggml_from_float_t quantise; /* NULL: `dot` takes floats */
    ggml_vec_dot_t dot;
    enum ggml_type row_type; /* that `dot` takes for the hidden row */
    size_t quantised_size;   /* of one hidden row in the type that `dot` takes */
};

/* Called for each node of an observed graph before it is computed. */
void wane__ggml_head_observe(struct wane__ggml_head *head, const struct ggml_tensor *node);
/* After that: sets `readable` where rows of a head of vocab × d can be read and computed. */
void wane__ggml_head_open(struct wane__ggml_head *head, int d, int vocab);
void wane__ggml_head_close(struct wane__ggml_head *head);

/* As the engine's rescore… and head_rows (engine.h); WANE_EUNSUPPORTED where it is not readable. From any thread. */
int wane__ggml_head_prepare(const struct wane__ggml_head *head, const float *hidden, void *prepared);
int wane__ggml_head_seen(const struct wane__ggml_head *head, const void *prepared, float *out);
int wane__ggml_head_prepared(const struct wane__ggml_head *head, const void *prepared, const int32_t *ids,
                             int count, float *logits);
int wane__ggml_head_rescore(const struct wane__ggml_head *head, const float *hidden, const int32_t *ids,
                            int count, float *logits);
int wane__ggml_head_rows(const struct wane__ggml_head *head, int first, int count, float *out);
/*
 * Self-check of one hidden row: are the dense head's logits, all of a small head or a spread over a large one (about 0.1 s of
 * work), those of single rows, bit for bit?
 */
bool wane__ggml_head_equal(const struct wane__ggml_head *head, const float *hidden, const float *dense);

#endif
