// app.mjs - a program on node-llama-cpp, with nothing of wane in it: one question after the other in one conversation.
//
//     npm install node-llama-cpp
//     wane exec -- node app.mjs model.gguf "Name three colours." "And three more."
//
// docs/node.md says what the first three words do.
import {getLlama, LlamaChatSession} from "node-llama-cpp";

const [path, ...questions] = process.argv.slice(2);
if (path == null || questions.length === 0) {
    console.error("usage: node app.mjs MODEL.gguf QUESTION...");
    process.exit(2);
}
const llama = await getLlama({gpu: false, build: "never"});
const model = await llama.loadModel({modelPath: path});
const context = await model.createContext({contextSize: 1024});
const session = new LlamaChatSession({contextSequence: context.getSequence()});
for (const question of questions)
    console.log(await session.prompt(question, {maxTokens: 60}));
await llama.dispose();
