// An agent on npm `@agentclientprotocol/sdk` that uses every method: what `tests/agents/every.py` does.
// argv: the directory of the SDK's package.
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const acp = await import(pathToFileURL(`${process.argv[2]}/dist/v1/stable/acp.js`));
const { agent: A } = acp.methods;
const steps = JSON.parse(readFileSync(new URL("turn.json", import.meta.url), "utf8"));
const modes = { currentModeId: "ask", availableModes: [{ id: "ask", name: "Ask" }, { id: "code", name: "Code" }] };
const model = { id: "model", name: "Model", type: "select", currentValue: "a", options: [{ value: "a", name: "A" }] };
const state = { modes, configOptions: [model], _meta: { of: "the agent" } };
const cancels = new Map();
let sessions = 0;

const text = (said) => ({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: said } });
const update = (client, sessionId, what) => client.notify("session/update", { sessionId, update: what });

async function everything(client, sessionId) {
  for (const step of steps) {
    if (step.notify) await update(client, sessionId, step.notify);
    else if (step.tell) await client.notify(step.tell, step.params);
    else {
      const answer = await client.request(step.ask, { sessionId, ...step.params }).catch((error) => ({ code: error.code, message: error.message, data: error.data }));
      await update(client, sessionId, text(JSON.stringify(answer)));
    }
  }
}

async function prompt({ params, client, signal }) {
  const { sessionId } = params;
  const said = params.prompt.map((block) => block.text).join("");
  if (said === "everything") await everything(client, sessionId);
  if (said === "wait") {
    const how = await new Promise((resolve) => {
      cancels.set(sessionId, () => resolve("told"));
      signal.addEventListener("abort", () => resolve("withdrawn"));
      update(client, sessionId, text("waiting"));
    });
    if (how === "withdrawn") throw new acp.RequestError(-32800, "cancelled");
    return { stopReason: "cancelled" };
  }
  if (said === "withdraw") {
    const control = new AbortController();
    const question = { sessionId, toolCall: { toolCallId: "call-2" }, options: [{ optionId: "yes", name: "Yes", kind: "allow_once" }] };
    const asked = client.request("session/request_permission", question, { cancellationSignal: control.signal });
    control.abort();
    await update(client, sessionId, text(JSON.stringify(await asked.catch((error) => error.code))));
  }
  await update(client, sessionId, text(`You said: ${said}`));
  return { stopReason: "end_turn" };
}

acp
  .agent({ name: "npm-agent" })
  .onRequest(A.initialize, () => ({
    protocolVersion: 1,
    agentInfo: { name: "npm-agent", version: "1.0.0" },
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { image: true, audio: true, embeddedContext: true },
      sessionCapabilities: { list: {}, delete: {}, resume: {}, close: {}, additionalDirectories: {} },
      auth: { logout: {} },
    },
    authMethods: [{ id: "browser", name: "Log in" }, { type: "terminal", id: "shell", name: "Here", args: ["login"] }],
  }))
  .onRequest(A.authenticate, async ({ client, requestId }) => {
    const form = { mode: "form", message: "The code?", requestedSchema: { type: "object", properties: { code: { type: "string" } } }, requestId };
    return { _meta: { answer: await client.request("elicitation/create", form) } };
  })
  .onRequest(A.logout, () => ({}))
  .onRequest(A.session.new, () => ({ sessionId: `session-${++sessions}`, ...state }))
  .onRequest(A.session.load, async ({ params, client }) => {
    await update(client, params.sessionId, text("before"));
    return state;
  })
  .onRequest(A.session.resume, () => state)
  .onRequest(A.session.list, ({ params }) => ({ sessions: [{ sessionId: "session-1", cwd: params.cwd ?? "/" }], nextCursor: "more" }))
  .onRequest(A.session.delete, () => { throw new acp.RequestError(-32002, "no such session", { uri: "session-9" }); })
  .onRequest(A.session.close, () => ({ _meta: { closed: true } }))
  .onRequest(A.session.setMode, () => ({}))
  .onRequest(A.session.setConfigOption, () => ({ configOptions: [model] }))
  .onRequest(A.session.prompt, prompt)
  .onNotification(A.session.cancel, ({ params }) => cancels.get(params.sessionId)?.())
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
