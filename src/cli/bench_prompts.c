/* bench_prompts.c - prompts of five kinds, because the tokens that follow differ: in entropy, in length, in script. */
#include "bench.h"

const struct bench_prompt bench_prompts[] = {
    {"chat", "I moved to a new city three weeks ago for work and I only know my colleagues so far. I like "
             "hiking, board "
             "games and cooking, but I am rather shy. How could I get to know people without it feeling "
             "forced? Please "
             "give me a few concrete ideas and say which one you would try first."},
    {"code",
     "Here is a function in Python:\n\n"
     "def merge(a, b):\n"
     "    out = []\n"
     "    while a and b:\n"
     "        if a[0] <= b[0]:\n"
     "            out.append(a.pop(0))\n"
     "        else:\n"
     "            out.append(b.pop(0))\n"
     "    return out + a + b\n\n"
     "It is slow for long lists. Rewrite it with two indices, keep it stable, and add a short docstring and "
     "three assertions that test it."},
    {"json",
     "Turn this note into a JSON object with the keys customer, items (a list of objects with name, quantity "
     "and unit_price), delivery and paid. Answer with the JSON only.\n\n"
     "\"Mrs Okafor ordered 3 oak shelves at 49.50 each, a box of 40 brackets for 18.00 and two tins of "
     "varnish, "
     "12.75 a tin. To be delivered on 14 March, before noon, to the workshop in Mill Lane. She has paid "
     "half.\""},
    {"chinese", "请用简单的语言解释为什么天空在白天是蓝色的，而在日落时变成红色。请先给出一个一句话的总结，"
                "然后分三点说明原因，最后举一个可以在家里做的小实验来演示这个现象。"},
    {"legal",
     "Clause 12.3 of a supply agreement reads: \"Neither party shall be liable to the other for any indirect "
     "or "
     "consequential loss, including loss of profit, arising out of or in connection with this agreement, "
     "save in the case of wilful misconduct or gross negligence.\" The supplier delivered six weeks late and "
     "the "
     "buyer lost a contract with its own customer. Set out the arguments of both parties on whether the "
     "buyer "
     "can recover that loss, and what evidence each of them would need."},
};
const int bench_prompt_count = (int)(sizeof bench_prompts / sizeof *bench_prompts);
