// shim.py for a container that has node but no python3. It always copies, and ends as copying.py does; but it
// cannot see the end of a side that it does not read, so it holds more.
"use strict"
const net = require("net")

const MAX_HELD_BYTES = 1 << 24
const LINGER_MS = 800
const WAITS_MS = { EAGAIN: 5000, ENOENT: 2500 } // for a full backlog, and a socket that is made again
const RETRY_MS = 20
const [path, name] = process.argv.slice(2)
const token = process.env.ACP_LAUNCH_SEAT
const { stdin, stdout } = process
const begun = Date.now()
let lingering

function fail(why) {
  process.stderr.write(`acp-launch: ${why}\n`)
  process.exit(1)
}

function linger() {
  clearTimeout(lingering)
  lingering = setTimeout(() => process.exit(0), LINGER_MS)
}

function copy(source, sink) {
  source.on("data", (chunk) => {
    if (lingering) linger()
    sink.write(chunk)
    if (sink.writableLength > MAX_HELD_BYTES) source.pause()
  })
  sink.on("drain", () => source.resume())
}

function connect() {
  const refuse = () =>
    fail(`no connection for the MCP server "${name}": acp-launch or the session has ended, or it was refused`)
  const seat = net.connect({ path, allowHalfOpen: true })
  seat.once("connect", () => seat.write(`acp-launch 2 ${token} ${name}\n`))
  seat.once("end", refuse)
  seat.once("error", ({ code }) => (Date.now() - begun < WAITS_MS[code] ? setTimeout(connect, RETRY_MS) : refuse()))
  seat.once("data", (answer) => {
    if (answer.toString() !== "+") refuse()
    const finish = () => {
      linger()
      stdout.write("", () => process.exit(0)) // after all the rest
    }
    seat.removeAllListeners("end").removeAllListeners("error").on("end", finish).on("error", finish)
    stdout.on("error", () => process.exit(0))
    seat.write("=")
    copy(seat, stdout)
    copy(stdin, seat)
    const finishInput = () => {
      seat.end()
      linger()
    }
    stdin.on("end", finishInput).on("error", finishInput)
  })
}

if (process.argv.length !== 4 || !token) fail("this program is started by agents; run acp-launch instead")
connect()
