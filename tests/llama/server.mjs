// llama.cpp (node-llama-cpp) with a real model, behind Chat Completions: `node server.mjs MODEL.gguf` prints its address.
//
// What a mock cannot show comes from here: pieces of text as long as tokens are, arguments that a model wrote under a
// grammar, the engine's own token counts and stop reasons. Only what the tests need is offered.
import { createServer } from 'node:http';
import { getLlama, LlamaChat, LlamaLogLevel } from 'node-llama-cpp';

const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath: process.argv[2] });
// One thread: on a busy machine, threads that wait for each other at every token are slower than one.
const context = await model.createContext({ contextSize: 2048, threads: 1 });
const sequence = context.getSequence();
const chat = new LlamaChat({ contextSequence: sequence });

function history(messages) {
  const items = [];
  for (const message of messages) {
    const text = typeof message.content === 'string' ? message.content : (message.content ?? []).map((p) => p.text ?? '').join('');
    if (message.role === 'system' || message.role === 'developer') items.push({ type: 'system', text });
    else if (message.role === 'user') items.push({ type: 'user', text });
    else if (message.role === 'assistant') items.push({ type: 'model', response: text === '' ? [] : [text] });
    else if (message.role === 'tool') items.push({ type: 'user', text: `Result of the tool: ${text}` });
    else throw Object.assign(new Error(`unknown role ${message.role}`), { status: 400 });
  }
  items.push({ type: 'model', response: [] });
  return items;
}

async function complete(body, say) {
  const choice = body.tool_choice ?? 'auto';
  const wanted = typeof choice === 'object' ? choice.function.name : body.tools?.[0]?.function.name;
  const tool = choice === 'required' || typeof choice === 'object' ? body.tools.find((t) => t.function.name === wanted) : undefined;
  const id = `call_${Date.now()}`;
  if (tool) say({ tool_calls: [{ index: 0, id, type: 'function', function: { name: tool.function.name, arguments: '' } }] });
  const before = sequence.tokenMeter.getState();
  const { metadata } = await chat.generateResponse(history(body.messages), {
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? 64,
    temperature: body.temperature ?? 0,
    grammar: tool && (await llama.createGrammarForJsonSchema(tool.function.parameters)),
    onTextChunk: (text) => say(tool ? { tool_calls: [{ index: 0, function: { arguments: text } }] } : { content: text }),
  });
  const used = sequence.tokenMeter.diff(before);
  const finish_reason = metadata.stopReason === 'maxTokens' ? 'length' : tool ? 'tool_calls' : 'stop';
  const usage = {
    prompt_tokens: used.usedInputTokens,
    completion_tokens: used.usedOutputTokens,
    total_tokens: used.usedInputTokens + used.usedOutputTokens,
  };
  return { finish_reason, usage };
}

function answer(model, rest) {
  return JSON.stringify({ id: 'chatcmpl-llama', created: Math.floor(Date.now() / 1000), model, ...rest });
}

async function stream(body, response) {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (rest) => response.write(`data: ${answer(body.model, { object: 'chat.completion.chunk', ...rest })}\n\n`);
  const piece = (delta, finish_reason = null) => send({ choices: [{ index: 0, delta, finish_reason }] });
  piece({ role: 'assistant', content: '' });
  const { finish_reason, usage } = await complete(body, (delta) => piece(delta));
  piece({}, finish_reason);
  if (body.stream_options?.include_usage) send({ choices: [], usage });
  response.end('data: [DONE]\n\n');
}

async function whole(body, response) {
  const message = { role: 'assistant', content: null };
  const { finish_reason, usage } = await complete(body, ({ content, tool_calls }) => {
    if (content !== undefined) message.content = (message.content ?? '') + content;
    for (const call of tool_calls ?? []) {
      if (call.id) message.tool_calls = [{ id: call.id, type: 'function', function: { ...call.function } }];
      else message.tool_calls[0].function.arguments += call.function.arguments;
    }
  });
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(answer(body.model, { object: 'chat.completion', choices: [{ index: 0, message, finish_reason }], usage }));
}

// One answer at a time: there is one sequence.
let turn = Promise.resolve();

const server = createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    turn = turn.then(async () => {
      try {
        if (request.url !== '/v1/chat/completions') throw Object.assign(new Error('not found'), { status: 404 });
        const body = JSON.parse(Buffer.concat(chunks).toString());
        await (body.stream ? stream : whole)(body, response);
      } catch (error) {
        if (!response.headersSent) response.writeHead(error.status ?? 500, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ error: { message: String(error.message), type: 'server_error' } }));
      }
    });
  });
});
server.listen(0, '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
