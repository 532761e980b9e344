// An editor on npm `@agentclientprotocol/sdk`: `node client.mjs SDK DIRECTORY COMMAND…` talks to the demo agent.
// SDK is the directory of its package.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, cwd, command, ...args] = process.argv.slice(2);
const acp = await import(pathToFileURL(`${sdk}/dist/v1/stable/acp.js`));
const { agent: A, client: C } = acp.methods;
const child = spawn(command, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => child.on("exit", resolve));

function read({ params }) {
  if (!existsSync(params.path)) throw acp.RequestError.resourceNotFound(params.path);
  return { content: readFileSync(params.path, "utf8") };
}

const allowed = (options) => options.find((option) => option.kind === "allow_once").optionId;

await acp
  .client({ name: "npm-editor" })
  .onRequest(C.session.requestPermission, ({ params }) => ({ outcome: { outcome: "selected", optionId: allowed(params.options) } }))
  .onRequest(C.fs.readTextFile, read)
  .onRequest(C.fs.writeTextFile, ({ params }) => (writeFileSync(params.path, params.content), {}))
  .onRequest(C.terminal.create, () => ({ terminalId: "t-1" }))
  .onRequest(C.terminal.waitForExit, () => ({ exitCode: 0 }))
  .onRequest(C.terminal.output, () => ({ output: "said\n", truncated: false }))
  .onRequest(C.terminal.release, () => ({}))
  .onRequest(C.elicitation.create, () => ({ action: "decline" }))
  .onNotification(C.session.update, () => {})
  .onNotification(C.elicitation.complete, () => {})
  .connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (agent) => {
    const clientCapabilities = { fs: { readTextFile: true, writeTextFile: true }, terminal: true, elicitation: { form: {}, url: {} } };
    await agent.request(A.initialize, { protocolVersion: 1, clientCapabilities, clientInfo: { name: "npm-editor", version: "1" } });
    const { sessionId } = await agent.request(A.session.new, { cwd, mcpServers: [] });
    const prompt = (text) => agent.request(A.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
    for (const text of ["hello", "edit note.txt a line", "form", "link"]) await prompt(text);
    await agent.request(A.session.setMode, { sessionId, modeId: "code" });
    await agent.request(A.session.setConfigOption, { sessionId, configId: "model", value: "script-l" });
    await agent.request(A.session.list, { cwd });
    await agent.request(A.session.close, { sessionId });
    await agent.request(A.session.load, { sessionId, cwd, mcpServers: [] });
    await prompt("history");
    await prompt("shell echo said"); // last, because a replay is without its terminal
    await agent.request(A.session.delete, { sessionId });
  });
child.stdin.end();
await ended;
process.exit(0);
