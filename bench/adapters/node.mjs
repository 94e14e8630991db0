// node.mjs - a program on node-llama-cpp that answers requests, one JSON line in, one JSON line out: what bench/adapters/run.py
// measures and tests/exec compares, with `wane exec` in front and without. Nothing of wane is in it.
//
//     node node.mjs MODEL.gguf THREADS STREAMS
//
// in   {"prompts": [text…], "tokens": n, "options": {…of evaluate()}, "grammar": "json", "embed": true, "fresh": true}
//      one prompt a stream, at most STREAMS; `fresh`: in a new context; `embed`: vectors of the prompts and nothing else
// out  {"ids": [[token…]…], "ms": decoding of all streams, "counted": tokens in it, "rss": bytes}, or {"vectors": [[…]…]}
//
// Decoding is timed from the moment at which each stream has its first token. End tokens do not end a reply.
import {createInterface} from "node:readline";
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

// The package lies where the program was started, not where this file is.
const wanted = createRequire(process.cwd() + "/").resolve("node-llama-cpp");
const {getLlama, LlamaGrammarEvaluationState, TokenBias} = await import(pathToFileURL(wanted).href);
const [path, threads, streams] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const llama = await getLlama({gpu: false, build: "never", maxThreads: threads, logLevel: "error"});
const model = await llama.loadModel({modelPath: path});
const sizes = {contextSize: 512, sequences: streams, threads};
let context = await model.createContext(sizes);
let vectors = null;

function options(request) {
    const given = {...request.options};
    if (request.bias != null) {
        given.tokenBias = new TokenBias(model.tokenizer);
        for (const [token, by] of request.bias)
            given.tokenBias.set(token, {logit: by});
    }
    return given;
}

async function stream(prompt, request, times) {
    const sequence = context.getSequence(), given = options(request), ids = [];
    const said = ids; // what a penalty looks at
    if (request.grammar != null)
        given.grammarEvaluationState = new LlamaGrammarEvaluationState({model, grammar: await llama.getGrammarFor(request.grammar)});
    if (given.repeatPenalty != null)
        given.repeatPenalty = {...given.repeatPenalty, punishTokens: () => said.slice(-64)};
    const tokens = model.tokenize(prompt);
    if (model.tokens.shouldPrependBosToken)
        tokens.unshift(model.tokens.bos);
    for await (const token of sequence.evaluate(tokens, {...given, yieldEogToken: request.grammar == null})) {
        ids.push(token);
        times.push(performance.now());
        if (ids.length >= request.tokens)
            break;
    }
    sequence.dispose();
    return ids;
}

async function answer(request) {
    if (request.embed) {
        vectors ??= await model.createEmbeddingContext({contextSize: 512, threads});
        return {vectors: await Promise.all(request.prompts.map(async (text) => (await vectors.getEmbeddingFor(text)).vector))};
    }
    if (request.fresh) {
        await context.dispose();
        context = await model.createContext(sizes);
    }
    const times = request.prompts.map(() => []);
    const ids = await Promise.all(request.prompts.map((prompt, i) => stream(prompt, request, times[i])));
    globalThis.gc?.(); // so that `rss` is not about garbage
    const begun = Math.max(...times.map((one) => one[0])), all = times.flat();
    return {ids, ms: Math.max(...all) - begun, counted: all.filter((at) => at > begun).length, rss: process.memoryUsage.rss()};
}

console.log(JSON.stringify({ready: true}));
for await (const line of createInterface({input: process.stdin}))
    console.log(JSON.stringify(await answer(JSON.parse(line))));
await llama.dispose();
