/* other_host.c - a program on other.c: prints 3 5 9, and ends with 7. */
#include "other.h"

#include <stdio.h>

int main(void) {
    struct llama_context *context =
        llama_init_from_model(NULL, (struct other_params){.first = {[29] = 1}, .last = 2});
    int first = llama_decode(context, (struct other_batch){.count = 0});
    int second = llama_decode(context, (struct other_batch){.count = 2});
    int third = llama_decode(context, (struct other_batch){.more = {[3] = 4}});
    printf("%d %d %d\n", first, second, third);
    return 7;
}
