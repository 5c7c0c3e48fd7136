'use strict'
// Asks one server for its status with every pinger npm has.
//
//   node status.js --connect NAME:PORT [--protocol NUMBER]
//
// NAME is what the pingers put into the handshake: here every name is this machine. Prints one line for
// each pinger: { pinger, ok, answer } or { pinger, ok: false, error }.

const dns = require('dns')
const HERE = { address: '127.0.0.1', family: 4 }
dns.lookup = (name, options, done = options) => options.all ? done(null, [HERE]) : done(null, HERE.address, HERE.family)
dns.promises.lookup = async (name, options) => options?.all ? [HERE] : HERE

const { args, say, hostAndPort, exitWithStdin } = require('./common')
const { JavaPingClient } = require('craftping')
const { GameDig } = require('gamedig')
const mcping = require('mcping-js')
const mc = require('minecraft-protocol')
const util = require('minecraft-server-util')
const { MinecraftServerListPing } = require('minecraft-status')
const pinger = require('minecraftstatuspinger')

const LIMIT = 10_000
const options = args()
const { host, port } = hostAndPort(options.connect)
const protocol = Number(options.protocol ?? 772)

const PINGERS = {
  'minecraft-protocol': () => mc.ping({ host, port, version: '1.21.8' }),
  'minecraft-server-util': () => util.status(host, port, { enableSRV: false }),
  'minecraft-server-util fe': () => util.statusFE(host, port, { enableSRV: false }),
  'minecraft-server-util fe01': () => util.statusFE01(host, port, { enableSRV: false }),
  'minecraft-server-util legacy': () => util.statusLegacy(host, port, { enableSRV: false }),
  craftping: () => new JavaPingClient().ping('127.0.0.1', port, { hostname: host, protocolVersion: protocol, signal: AbortSignal.timeout(LIMIT) }),
  'craftping 1.6': () => new JavaPingClient().pingLegacyPost14('127.0.0.1', port, { hostname: host, signal: AbortSignal.timeout(LIMIT) }),
  'craftping fe': () => new JavaPingClient().pingLegacyPre14('127.0.0.1', port, { signal: AbortSignal.timeout(LIMIT) }),
  'minecraft-status': () => MinecraftServerListPing.ping(protocol, host, port, LIMIT),
  'minecraft-status 1.6': () => MinecraftServerListPing.ping16(78, host, port, LIMIT),
  'minecraft-status 1.5': () => MinecraftServerListPing.ping15(host, port, LIMIT),
  'minecraft-status 1.3': () => MinecraftServerListPing.ping13(host, port, LIMIT),
  minecraftstatuspinger: () => pinger.lookup({ host, port, protocolVersion: protocol, disableSRV: true, timeout: LIMIT }),
  'mcping-js': () => new Promise((resolve, reject) => new mcping.MinecraftServer(host, port)
    .ping(LIMIT, protocol, (error, answer) => error ? reject(error) : resolve(answer))),
  gamedig: () => GameDig.query({ type: 'minecraft', address: '127.0.0.1', host, port, givenPortOnly: true })
}

exitWithStdin()
all().then(() => process.exit(0))

async function all () {
  for (const [name, ping] of Object.entries(PINGERS)) say(await ask(name, ping))
}

async function ask (pinger, ping) {
  const late = new Promise((resolve, reject) => setTimeout(() => reject(new Error('no answer in time')), LIMIT).unref())
  try {
    return { pinger, ok: true, answer: await Promise.race([ping(), late]) }
  } catch (error) {
    return { pinger, ok: false, error: `${error}` }
  }
}
