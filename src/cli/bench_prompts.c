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

/* Short enough that prompt and reply stay within 256 tokens, where blocks are exact with every setting. */
const struct bench_prompt bench_copies[] = {
    {"list", "Here is a packing list:\n- rain jacket (blue), 1\n- wool socks (grey), 4 pairs\n- water bottle "
             "(steel), 2\n- head torch "
             "with spare batteries, 1\n- first aid kit (small), 1\n- map of the northern valley, 1\n- "
             "notebook and two pencils, 1\n"
             "Write the list again, exactly as it is."},
    {"json", "Copy these records, without any change, as one JSON array:\n"
             "[{\"id\": 1041, \"name\": \"Amara Okafor\", \"city\": \"Lagos\", \"paid\": true},\n"
             " {\"id\": 1042, \"name\": \"Jonas Weber\", \"city\": \"Bremen\", \"paid\": false},\n"
             " {\"id\": 1043, \"name\": \"Mei Tanaka\", \"city\": \"Kobe\", \"paid\": true}]"},
    {"table", "Write this table again with a comma between the columns:\n\nid; name; city; paid\n1041; Amara "
              "Okafor; Lagos; yes\n"
              "1042; Jonas Weber; Bremen; no\n1043; Mei Tanaka; Kobe; yes\n1044; Ana Costa; Porto; no\n1045; "
              "Leo Martin; Lyon; yes"},
    {"letter", "Repeat these letters, to Clara instead of Anna and to David instead of Boris:\n\n"
               "Dear Anna,\nyour parcel 4711 has left our warehouse today and will be with you on Monday. "
               "Thank you for your order.\n"
               "Kind regards, the shop\n\n"
               "Dear Boris,\nyour parcel 4712 has left our warehouse today and will be with you on Tuesday. "
               "Thank you for your order.\n"
               "Kind regards, the shop\n"},
    {"code", "Print this function again with the name invoice changed to make_invoice:\n\n```python\n"
             "def invoice(lines, rate, currency):\n    total = 0\n    for line in lines:\n"
             "        total += line.price * line.count\n    total += total * rate\n"
             "    return format_money(round(total, 2), currency)\n```"},
};
const int bench_copy_count = (int)(sizeof bench_copies / sizeof *bench_copies);

const struct bench_prompt bench_novel[] = {
    {"story", "Write the opening of a story about a lighthouse keeper who finds a letter in a bottle. Make "
              "it strange."},
    {"letter",
     "Write to an old friend whom you have not seen for ten years and tell her what has become of you."},
    {"essay", "Why do people keep diaries? Give your own thoughts in a few paragraphs, without a list."},
    {"scene", "Describe a market in a harbour town early in the morning, before the first customers come."},
};
const int bench_novel_count = (int)(sizeof bench_novel / sizeof *bench_novel);
