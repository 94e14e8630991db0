/* other.h - a libllama of a version that nobody knows: its structures are not those of the headers that wane has. */
#ifndef OTHER_H
#define OTHER_H

struct llama_model;
struct llama_context;

struct other_params {
    double first[30];
    int last;
};

struct other_batch {
    int count;
    long more[4];
};

const char *llama_version(void);
struct llama_context *llama_init_from_model(struct llama_model *model, struct other_params params);
int llama_decode(struct llama_context *context, struct other_batch batch);

#endif
