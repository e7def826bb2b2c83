// An unmodified AI SDK client: node ai-sdk.mjs VERSION SCENARIO SERVER PROFILE
import { ask, play } from "./talk.mjs";

const [, , version, scenario, server, profile] = process.argv;
const { Chat } = await import(`ai-sdk-react-${version}`);
const {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses: approved,
  lastAssistantMessageIsCompleteWithToolCalls: answered,
} = await import(`ai-${version}`);

const ID = "chat of a page";
const api = `${server}/ai-sdk/main${profile === "v7" ? "?profile=v7" : ""}`;

/** A chat, and what it heard. */
function chat(messages = [], more = {}) {
  const heard = { errors: [], data: [], finished: [], statuses: [] };
  const client = new Chat({
    id: ID,
    messages,
    transport: new DefaultChatTransport({ api, ...more.transport }),
    sendAutomaticallyWhen: more.automatic ?? approved,
    onError: (error) => heard.errors.push(error.message),
    onData: (part) => heard.data.push(part),
    onFinish: ({ finishReason, isAbort, isError, isDisconnect }) =>
      heard.finished.push({ finishReason, isAbort, isError, isDisconnect }),
    ...(more.onToolCall ? { onToolCall: (call) => more.onToolCall(call, client) } : {}),
  });
  return { client, heard };
}

/** Until the condition holds after a change of the messages or of the status. */
function until(client, condition) {
  return new Promise((resolve) => {
    const look = () => condition() && resolve();
    client["~registerMessagesCallback"](look);
    client["~registerStatusCallback"](look);
    look();
  });
}

const last = (client) => client.messages.at(-1);
const tool = (client) => last(client)?.parts.find((part) => part.toolCallId);
const asked = (client) => last(client)?.parts.find((part) => part.approval);
const idle = (client) => client.status === "ready" || client.status === "error";

/** The chat as a page loads it. */
async function load() {
  const response = await fetch(`${server}/ai-sdk/main/${encodeURIComponent(ID)}`);
  return (await response.json()).messages;
}

// Runs the front end's tools when the client is told to, and notes which.
const running = (called) => ({ toolCall }, client) => {
  if (toolCall.dynamic) return;
  called.push(toolCall.toolName);
  const output = toolCall.toolName === "open_page" ? { opened: true } : "A form.";
  client.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output });
};

const scenarios = {
  async text() {
    const { client, heard } = chat();
    await client.sendMessage({ text: "Hi" });
    await client.sendMessage({ text: "And now?" });
    return { messages: client.messages, finished: heard.finished, errors: heard.errors, loaded: await load() };
  },

  // The same message again runs nothing, and gives the same answer.
  async again() {
    const first = chat();
    await first.client.sendMessage({ text: "Hi" });
    const body = { id: ID, messages: first.client.messages.slice(0, 1), trigger: "submit-message" };
    const headers = { "content-type": "application/json" };
    const response = await fetch(api, { method: "POST", headers, body: JSON.stringify(body) });
    const chunks = (await response.text()).split("\n\n").filter((line) => line.startsWith("data: "));
    return { messages: first.client.messages, chunks: chunks.map((line) => line.slice(6)) };
  },

  async tools() {
    const { client, heard } = chat();
    await client.sendMessage({ text: "Look it up" });
    return { messages: client.messages, finished: heard.finished, errors: heard.errors, loaded: await load() };
  },

  async amend() {
    const { client, heard } = chat();
    await client.sendMessage({ text: "Pay" });
    const paused = structuredClone(client.messages);
    const { approval } = asked(client);
    const body = { amendments: { [approval.id]: { amount: 3 } } };
    await client.addToolApprovalResponse({ id: approval.id, approved: true, options: { body } });
    await until(client, () => idle(client) && last(client).parts.at(-1).type === "text");
    const { finished, errors } = heard;
    return { paused, messages: client.messages, finished, errors, loaded: await load() };
  },

  async reject() {
    const { client, heard } = chat();
    await client.sendMessage({ text: "Pay" });
    const { approval } = tool(client);
    await client.addToolApprovalResponse({ id: approval.id, approved: false, reason: "too much" });
    await until(client, () => idle(client) && last(client).parts.at(-1).type === "text");
    return { messages: client.messages, finished: heard.finished, errors: heard.errors, loaded: await load() };
  },

  // A page that is loaded while a card waits.
  async card() {
    await chat().client.sendMessage({ text: "Pay" });
    const { client, heard } = chat(await load());
    await client.resumeStream();
    const shown = structuredClone(client.messages);
    const { approval } = tool(client);
    await client.addToolApprovalResponse({ id: approval.id, approved: true });
    await until(client, () => idle(client) && last(client).parts.at(-1).type === "text");
    return { shown, messages: client.messages, errors: heard.errors, loaded: await load() };
  },

  async reload() {
    const cut = new AbortController();
    const fetching = (url, options) =>
      fetch(url, { ...options, signal: AbortSignal.any([cut.signal, options.signal].filter(Boolean)) });
    const first = chat([], { transport: { fetch: fetching } });
    const running = first.client.sendMessage({ text: "Wait for it" });
    await until(first.client, () => tool(first.client)?.state === "input-available");
    const had = structuredClone(first.client.messages);
    cut.abort();
    await running;
    // The page is loaded anew, and once more with what it had.
    const second = chat(await load());
    const resumed = second.client.resumeStream();
    await until(second.client, () => tool(second.client)?.state === "input-available");
    const third = chat(had);
    const also = third.client.resumeStream();
    await until(third.client, () => third.client.status === "streaming");
    await ask("resumed");
    await Promise.all([resumed, also]);
    const none = await fetch(`${server}/ai-sdk/main/${encodeURIComponent(ID)}/stream`);
    return {
      messages: second.client.messages,
      kept: third.client.messages,
      finished: second.heard.finished,
      errors: [...second.heard.errors, ...third.heard.errors],
      none: none.status,
      loaded: await load(),
    };
  },

  async stop() {
    const { client, heard } = chat();
    const running = client.sendMessage({ text: "Think" });
    await until(client, () => last(client)?.role === "assistant" && last(client).parts.some((part) => part.type === "text"));
    const stopped = await (await fetch(`${server}/ai-sdk/main/${encodeURIComponent(ID)}/stop`, { method: "POST" })).json();
    await running;
    const { finished, errors } = structuredClone(heard);
    await client.sendMessage({ text: "Go on" });
    return { stopped: stopped.state, finished, errors, status: client.status, messages: client.messages, loaded: await load() };
  },

  async error() {
    const { client, heard } = chat();
    await client.sendMessage({ text: "Fail" });
    const status = client.status;
    client.clearError();
    await client.sendMessage({ text: "Try again" });
    return { status, errors: heard.errors, messages: client.messages };
  },

  // One tool that the agent says runs in the front end, and one that the front end brings.
  async client_tools() {
    const parameters = { type: "object", properties: { page: { type: "string" } }, required: ["page"] };
    const tools = {
      open_page: { description: "Opens a page.", parameters },
      // It cannot take the place of the agent's own.
      look_up: { description: "Mine.", parameters: { type: "object" } },
    };
    const called = [];
    const { client, heard } = chat([], {
      automatic: answered,
      transport: { body: { tools } },
      onToolCall: running(called),
    });
    await client.sendMessage({ text: "Show me" });
    await until(client, () => idle(client) && last(client).parts.at(-1).type === "text");
    return { called, messages: client.messages, finished: heard.finished, errors: heard.errors, loaded: await load() };
  },

  // Tools of the front end that a person must allow: each runs when its result is asked for, and not before.
  async approved_client_tools() {
    const parameters = { type: "object", properties: { page: { type: "string" } }, required: ["page"] };
    const called = [];
    const { client, heard } = chat([], {
      automatic: (chat) => approved(chat) || answered(chat),
      transport: { body: { tools: { open_page: { description: "Opens a page.", parameters } } } },
      onToolCall: running(called),
    });
    await client.sendMessage({ text: "Show me" });
    const early = [...called];
    const paused = structuredClone(client.messages);
    const waiting = await load();
    for (const part of last(client).parts.filter((part) => part.state === "approval-requested")) {
      await client.addToolApprovalResponse({ id: part.approval.id, approved: true });
    }
    await until(client, () => idle(client) && last(client).parts.at(-1).type === "text");
    return { early, paused, waiting, called, messages: client.messages, errors: heard.errors, loaded: await load() };
  },
};

await play(scenarios, scenario);
