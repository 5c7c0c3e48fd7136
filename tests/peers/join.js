'use strict'
// Joins with minecraft-protocol's client, one VERSION after the other.
//
//   node join.js --connect ADDRESS:PORT [--host NAME] [--name PLAYER] [--from ADDRESS] [--intent 3] [--limit SECONDS] [--stay] VERSION...
//
// --host goes into the handshake as it is, but for {version} and a literal \0, which stands for NUL. Prints one line
// for each version: joined (with the protocol number, and whether 16 KiB through `sg:echo` came back unchanged),
// kicked or error. With --stay each player stays in until standard input ends.

const crypto = require('crypto')
const net = require('net')
const { args, say, hostAndPort, exitWithStdin, text } = require('./common')
const mc = require('minecraft-protocol')

const options = args(['stay'])
const target = hostAndPort(options.connect)
const limit = 1000 * Number(options.limit ?? 30)

exitWithStdin()
all().then(() => { if (!options.stay) process.exit(0) })

async function all () {
  for (const version of options.words) say(await join(version))
}

function join (version) {
  const started = Date.now()
  const client = mc.createClient({
    username: options.name ?? 'Steve',
    version,
    port: target.port,
    fakeHost: (options.host ?? target.host).replaceAll('{version}', version).replaceAll('\\0', '\0'),
    auth: 'offline',
    hideErrors: true,
    connect: client => client.setSocket(net.connect({ ...target, localAddress: options.from }))
  })
  if (options.intent) announce(client, Number(options.intent))
  const { version: protocol } = require('minecraft-data')(version).version

  return new Promise(resolve => {
    const timer = setTimeout(() => end({ event: 'error', error: `nothing after ${limit} ms in ${client.state}` }), limit)
    const end = result => {
      clearTimeout(timer)
      if (result.event !== 'joined' || !options.stay) client.end()
      resolve({ version, protocol, ms: Date.now() - started, ...result })
    }
    const kicked = ({ reason }) => end({ event: 'kicked', state: client.state, reason: text(reason) })
    client.on('disconnect', kicked)
    client.on('kick_disconnect', kicked)
    client.on('error', error => end({ event: 'error', error: `${error}` }))
    client.on('end', reason => end({ event: 'error', error: `closed: ${reason}` }))
    client.on('login', async () => end({
      event: 'joined',
      echoed: await echo(client),
      encrypted: client.cipher !== null,
      compressed: client.compressionThreshold >= 0
    }))
  })
}

/** The client always says intent 2 (login); a returning transferred player says 3. */
function announce (client, intent) {
  const write = client.write.bind(client)
  client.write = (name, params) => write(name, name === 'set_protocol' ? { ...params, nextState: intent } : params)
}

/** Half of it random and half of it zeros, so that compression has something to do and to leave alone. */
function echo (client) {
  const data = Buffer.concat([crypto.randomBytes(8192), Buffer.alloc(8192)])
  client.write('custom_payload', { channel: 'sg:echo', data })
  return new Promise(resolve => client.on('custom_payload', packet => {
    if (packet.channel === 'sg:echo') resolve(data.equals(packet.data))
  }))
}
