"""
wane inside vLLM. Each module imports vLLM only where vLLM calls it, so that it loads without.

    tokens    a Hugging Face tokenizer's vocabulary, as tables and traces name it
    drafts    tokens ahead, from a table and from the running text
    copies    where the running text was there before
    worker    vLLM's worker, which tells the proposer whose row is whose
"""
