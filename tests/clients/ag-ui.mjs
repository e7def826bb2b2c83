// An unmodified AG-UI client: node ag-ui.mjs PACKAGE SCENARIO SERVER
import { ask, later, play } from "./talk.mjs";

const [, , pkg, scenario, server] = process.argv;
const { HttpAgent, randomUUID = () => crypto.randomUUID() } = await import(pkg);

const THREAD = "thread of a page";

function agent(messages = []) {
  return new HttpAgent({ url: `${server}/ag-ui/main`, threadId: THREAD, initialMessages: messages });
}

const says = (content) => ({ id: randomUUID(), role: "user", content });

/** Runs, and gives what the client heard. */
async function run(client, parameters = {}, hear = () => {}) {
  const heard = { events: [], errors: [], outcome: null, interrupts: [], pending: [], usage: null };
  const subscriber = {
    onEvent: ({ event, messages }) => {
      heard.events.push(event);
      hear(event, messages);
    },
    onRunFinishedEvent: ({ event, outcome, interrupts, pendingToolCallIds }) => {
      heard.outcome = outcome;
      heard.interrupts = interrupts ?? [];
      heard.pending = pendingToolCallIds ?? [];
      heard.result = event.result;
      heard.usage = event.usage;
    },
    onRunErrorEvent: ({ event }) => heard.errors.push({ message: event.message, code: event.code }),
  };
  await client.runAgent(parameters, subscriber);
  return heard;
}

const kinds = (heard) => [...new Set(heard.events.map((event) => event.type))];

const resume = (interrupt, payload, status = "resolved") => ({
  resume: [{ interruptId: interrupt.id, status, ...(payload === undefined ? {} : { payload }) }],
});

const scenarios = {
  async text() {
    const client = agent([says("Hi")]);
    const first = await run(client);
    client.addMessage(says("And now?"));
    const second = await run(client);
    return {
      messages: client.messages,
      outcomes: [first.outcome, second.outcome],
      usage: second.usage,
      version: first.events[0].protocolVersion ?? null,
      deltas: first.events.filter((event) => event.type === "TEXT_MESSAGE_CONTENT").length,
    };
  },

  // The same input again runs nothing, and gives the same messages.
  async again() {
    const messages = [says("Hi")];
    const first = agent(messages);
    await run(first);
    const second = agent(messages);
    const heard = await run(second);
    const third = agent();
    await run(third);
    return { messages: [first.messages, second.messages, third.messages], outcome: heard.outcome };
  },

  async tools() {
    const client = agent([says("Look it up")]);
    const heard = await run(client);
    return { messages: client.messages, outcome: heard.outcome, kinds: kinds(heard) };
  },

  async amend() {
    const client = agent([says("Pay")]);
    const first = await run(client);
    const [interrupt] = first.interrupts;
    const paused = structuredClone(client.messages);
    // A new message while a card is open is refused, by this client or by the server.
    let refused = null;
    client.addMessage(says("Never mind"));
    try {
      refused = (await run(client)).errors[0]?.code ?? "nothing";
    } catch {
      refused = "refused by the client";
    }
    client.setMessages(paused);
    const args = JSON.parse(paused.find((m) => m.toolCalls).toolCalls[0].function.arguments);
    const answer = resume(interrupt, { approved: true, editedArgs: { ...args, amount: 3 } });
    const second = await run(client, answer);
    return { interrupt, paused, refused, first, second, messages: client.messages };
  },

  async reject() {
    const client = agent([says("Pay")]);
    const first = await run(client);
    const answer = resume(first.interrupts[0], { approved: false, reason: "too much" });
    const second = await run(client, answer);
    return { outcomes: [first.outcome, second.outcome], messages: client.messages };
  },

  async cancel() {
    const client = agent([says("Pay")]);
    const first = await run(client);
    const second = await run(client, resume(first.interrupts[0], undefined, "cancelled"));
    return { outcomes: [first.outcome, second.outcome], messages: client.messages };
  },

  // A page that is loaded while a card waits.
  async card() {
    await run(agent([says("Pay")]));
    const client = agent();
    const shown = await run(client);
    const before = structuredClone(client.messages);
    const decided = resume(shown.interrupts[0], { approved: true });
    const second = await run(client, decided);
    const messages = structuredClone(client.messages);
    // The answer sent again, as after a lost response, acts once.
    const also = agent(before);
    also.pendingInterrupts = shown.interrupts;
    const third = await run(also, decided);
    return { shown, messages, repeated: also.messages, outcomes: [second.outcome, third.outcome] };
  },

  async reload() {
    const messages = [says("Wait for it")];
    const first = agent(messages);
    const began = later();
    const running = run(first, {}, (event) => event.type === "TOOL_CALL_END" && began.resolve());
    await began.promise;
    first.abortRun();
    await running.catch(() => {});
    // What the page had is kept by it, half a message and all.
    const second = agent(first.messages);
    const seen = later();
    const resumed = run(second, {}, (event) => event.type === "TOOL_CALL_END" && seen.resolve());
    await seen.promise;
    await ask("resumed");
    const heard = await resumed;
    return { messages: second.messages, outcome: heard.outcome, errors: heard.errors };
  },

  async stop() {
    const client = agent([says("Think")]);
    const began = later();
    const running = run(client, {}, (event) => event.type === "TEXT_MESSAGE_CONTENT" && began.resolve());
    await began.promise;
    const url = `${server}/ag-ui/main/${encodeURIComponent(THREAD)}/stop`;
    const stopped = await (await fetch(url, { method: "POST" })).json();
    const heard = await running;
    client.addMessage(says("Go on"));
    const next = await run(client);
    const { outcome, errors } = heard;
    return { stopped: stopped.state, outcome, errors, next: next.outcome, messages: client.messages };
  },

  async error() {
    const client = agent([says("Fail")]);
    const heard = await run(client);
    client.addMessage(says("Try again"));
    const next = await run(client);
    return { errors: heard.errors, outcome: heard.outcome, next: next.outcome, messages: client.messages };
  },

  // One tool that the agent says runs in the front end, and one that the front end brings.
  async client_tools() {
    const tools = [
      {
        name: "open_page",
        description: "Opens a page.",
        parameters: { type: "object", properties: { page: { type: "string" } }, required: ["page"] },
      },
      // It cannot take the place of the agent's own.
      { name: "look_up", description: "Mine.", parameters: { type: "object" } },
    ];
    const client = agent([says("Show me")]);
    const first = await run(client, { tools });
    const asked = client.messages.flatMap((message) => message.toolCalls ?? []);
    for (const call of asked) {
      const content = call.function.name === "open_page" ? JSON.stringify({ opened: true }) : "A form.";
      client.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content });
    }
    const second = await run(client, { tools });
    return { pending: first.pending, first: first.outcome, second: second.outcome, asked, messages: client.messages };
  },

  // Tools of the front end that a person must allow first.
  async approved_client_tools() {
    const parameters = { type: "object", properties: { page: { type: "string" } }, required: ["page"] };
    const tools = [{ name: "open_page", description: "Opens a page.", parameters }];
    const client = agent([says("Show me")]);
    const first = await run(client, { tools });
    const answers = first.interrupts.map((interrupt) => resume(interrupt, { approved: true }).resume[0]);
    const second = await run(client, { tools, resume: answers });
    for (const call of client.messages.flatMap((message) => message.toolCalls ?? [])) {
      const content = call.function.name === "open_page" ? JSON.stringify({ opened: true }) : "A form.";
      client.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content });
    }
    const third = await run(client, { tools });
    const outcomes = [first, second, third].map((heard) => heard.outcome);
    const errors = [first, second, third].flatMap((heard) => heard.errors);
    return { outcomes, errors, pending: second.pending, messages: client.messages };
  },
};

await play(scenarios, scenario);
