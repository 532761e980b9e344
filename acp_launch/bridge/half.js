// half.py for a container that has node but no python3. Its end ends the container, so it ends no daemons itself.
// It cannot see the end of an input that it does not read, so it holds more than half.py.
"use strict"
const { spawn } = require("child_process")
const { accessSync, existsSync, mkdtempSync, constants } = require("fs")
const { signals } = require("os").constants

const MAX_HELD_BYTES = 1 << 24
const TERM_MS = 600
let head = Buffer.alloc(0)

function fail(status, text) {
  process.stderr.write(`acp-launch: ${text}\n`)
  process.exit(status)
}

function findHome() {
  try {
    accessSync(process.env.HOME || "", constants.W_OK)
    return process.env.HOME
  } catch {
    return mkdtempSync("/tmp/home-")
  }
}

function start({ argv: [name, ...args], env, cwd, grace, where, needs_home }, rest) {
  if (!existsSync(cwd)) fail(126, `the directory "${cwd}" cannot be used: No such file or directory, ${where}`)
  const stdio = ["pipe", "inherit", "inherit"]
  const agent = spawn(name, args, { cwd, env: { ...process.env, ...(needs_home ? { HOME: findHome() } : {}), ...env }, detached: true, stdio })
  const kill = (signal) => agent.pid && agent.exitCode === null && process.kill(-agent.pid, signal)
  const end = () => {
    agent.stdin.destroy()
    kill("SIGTERM")
    setTimeout(kill, TERM_MS, "SIGKILL")
  }
  agent.on("error", ({ code }) => {
    if (code !== "ENOENT") fail(126, `"${name}" cannot be run: ${code}, ${where}`)
    fail(127, name.includes("/") ? `there is no "${name}" ${where}` : `"${name}" is not on PATH (${env.PATH || process.env.PATH}) ${where}`)
  })
  agent.on("exit", (code, signal) => process.exit(signal ? 128 + signals[signal] : code))
  agent.stdin.on("error", () => {}) // it has closed its stdin: what comes after is dropped
  for (const event of ["drain", "close"]) agent.stdin.on(event, () => process.stdin.resume())
  process.stdin.on("data", (chunk) => {
    agent.stdin.write(chunk)
    if (agent.stdin.writableLength > MAX_HELD_BYTES) process.stdin.pause()
  })
  process.stdin.removeAllListeners("end").on("end", () => {
    agent.stdin.end()
    setTimeout(end, grace * 1000)
  })
  for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"]) process.on(signal, end)
  if (rest.length) agent.stdin.write(rest)
}

process.stdin.on("end", () => fail(2, "this program is started by acp-launch, which has ended"))
process.stdin.on("data", function read(chunk) {
  head = Buffer.concat([head, chunk])
  const size = head.length < 9 ? Infinity : 9 + Number(head.toString("latin1", 0, 8))
  if (head.length < size) return
  process.stdin.off("data", read)
  start(JSON.parse(head.toString("utf8", 9, size)), head.subarray(size))
})
