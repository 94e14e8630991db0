"""
wane as plug-ins of vLLM; see docs/vllm.md. Installing is enough, the environment variable WANE_VLLM says what is to be on.

    processor.Wane           corrections, gate, governor, fuse, traces, audit: a logits processor (entry point vllm.logits_processors)
    drafts.Drafts            drafts from tables and from the running text: speculative_config's "custom_class"
    worker.Worker            names rows, so that drafts know their tenants (--worker-cls)
    system_text.SystemText   instructions in system texts, tenants by key: an ASGI middleware (--middleware)
    stats.Stats              wane's numbers in vLLM's registry (entry point vllm.stat_logger_plugins)

Nothing here changes vLLM: each part stands at a place that vLLM has for it.
"""
