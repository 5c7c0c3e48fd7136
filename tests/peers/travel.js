'use strict'
// Joins a server that may let the player wait elsewhere, and follows every transfer with intent 3 and its cookies,
// as the game does, one VERSION after the other, or with --together all at the same time.
//
//   node travel.js --connect ADDRESS:PORT --host NAME [--bot] [--together] [--packs] [--name PLAYER] [--limit SECONDS]
//     [--sessions URL --id UUID --token TOKEN [--sign [--forge]]] VERSION...
//
// With --sessions the player owns an account that the session server at URL knows, and tells it of each login that asks
// for that; with --sign it has a chat key, too, and signs what 1.19 to 1.19.2 sign with it, with --forge by another key.
//
// With --packs the client says that it has the packs which it is offered, as the game does; its own answer is that it
// has none.
//
// The client is minecraft-protocol's, with --bot mineflayer, which reads the world too. In --host {version} is replaced;
// the port of the handshake is the one of --connect. Prints one line for each version: joined (`sg:echo` came back, or
// with --bot the player spawned), kicked or error; with the protocol number, and for each transfer the state it came in, where
// it led, what was shown until then and how many milliseconds that took. Clients do not follow a transfer by themselves: this script connects anew.

const crypto = require('crypto')
const net = require('net')
const { args, say, hostAndPort, exitWithStdin, text } = require('./common')
const mc = require('minecraft-protocol')
const mineflayer = require('mineflayer')

const options = args(['bot', 'sign', 'forge', 'together', 'packs'])
const target = hostAndPort(options.connect)
const limit = 1000 * Number(options.limit ?? 60)

exitWithStdin()
all().then(() => process.exit(0))

async function all () {
  if (options.together) return Promise.all(options.words.map(async version => say(await travel(version))))
  for (const version of options.words) say(await travel(version))
}

async function travel (version) {
  const { version: protocol } = require('minecraft-data')(version).version
  const jar = new Map()
  const transfers = []
  let host = options.host.replaceAll('{version}', version)
  let port = target.port
  for (;;) {
    const { event, ...end } = await connect({ version, host, port, intent: transfers.length === 0 ? 2 : 3, jar })
    if (event !== 'transfer') return { version, protocol, event, transfers, ...end }
    transfers.push(end)
    if (transfers.length > 3) return { version, protocol, event: 'error', error: 'transferred in a circle', transfers }
    ;({ host, port } = end)
  }
}

/** One connection, up to the transfer or to the game. */
function connect ({ version, host, port, intent, jar }) {
  const settings = { username: options.name ?? 'Steve', version, host: '127.0.0.1', port, fakeHost: host, auth: options.sessions ? own : 'offline', sessionServer: options.sessions, hideErrors: true }
  const bot = options.bot ? mineflayer.createBot({ ...settings, checkTimeoutInterval: 60_000 }) : null
  const connection = { ...target, port }
  const client = bot?._client ?? mc.createClient({ ...settings, connect: client => client.setSocket(net.connect(connection)) })
  announce(client, intent)
  keepCookies(client, jar)
  const seen = look(client)
  const began = Date.now()
  return new Promise(resolve => {
    const timer = setTimeout(() => end({ event: 'error', error: `nothing within ${limit} ms in ${client.state}` }), limit)
    const end = result => {
      clearTimeout(timer)
      client.removeAllListeners('end')
      // What goes wrong while it leaves is no error of the join.
      client.on('error', () => {})
      if (bot) bot.end(); else client.end()
      resolve({ ...result, seen, waited: Date.now() - began })
    }
    const kicked = ({ reason }) => end({ event: 'kicked', state: client.state, reason: text(reason) })
    client.on('disconnect', kicked)
    client.on('kick_disconnect', kicked)
    client.on('error', error => end({ event: 'error', error: `${error}`, state: client.state }))
    bot?.on('error', error => end({ event: 'error', error: `${error}`, state: client.state }))
    client.on('end', reason => end({ event: 'error', error: `closed: ${reason}`, state: client.state }))
    client.on('transfer', ({ host, port }) => end({ event: 'transfer', state: client.state, host, port }))
    if (bot) bot.once('spawn', () => end({ event: 'joined' }))
    else echo(client, () => end({ event: 'joined' }))
  })
}

/** Logs in to the account, without the service that would say so. */
function own (client, settings) {
  client.username = settings.username
  client.session = { accessToken: options.token, selectedProfile: { id: options.id, name: settings.username } }
  if (options.sign) {
    const pair = () => crypto.generateKeyPairSync('rsa', { modulusLength: 2048 })
    const keys = pair()
    const signature = crypto.randomBytes(256)
    client.profileKeys = { public: keys.publicKey, private: options.forge ? pair().privateKey : keys.privateKey, signature, signatureV2: signature, expiresOn: new Date(Date.now() + 3600_000) }
  }
  Object.assign(settings, { haveCredentials: true, accessToken: options.token })
  settings.connect(client)
}

/** The client always says intent 2 (login); a returning transferred player says 3. */
function announce (client, intent) {
  const write = client.write.bind(client)
  let offered = []
  client.prependListener('select_known_packs', ({ packs }) => { offered = packs })
  client.write = (name, params) => {
    if (name === 'set_protocol') return write(name, { ...params, nextState: intent })
    if (name === 'select_known_packs' && options.packs) return write(name, { packs: offered })
    return write(name, params)
  }
}

function keepCookies (client, jar) {
  client.on('store_cookie', ({ key, value }) => jar.set(key, value))
  client.on('cookie_request', ({ cookie: key }) => client.write('cookie_response', { key, value: jar.get(key) }))
}

/** What a person would see of the wait, as the packets' names with their text. */
function look (client) {
  const seen = []
  for (const name of ['set_title_text', 'set_title_subtitle', 'action_bar', 'system_chat', 'boss_bar', 'show_dialog', 'map_chunk']) {
    client.on(name, packet => seen.push([name, text(packet.text ?? packet.content ?? packet.title ?? packet.dialog ?? packet.x ?? '')]))
  }
  return seen
}

/** A world to wait in ignores it. */
function echo (client, done) {
  const sent = Buffer.from('are you the server?')
  client.on('login', () => client.write('custom_payload', { channel: 'sg:echo', data: sent }))
  client.on('custom_payload', ({ channel, data }) => { if (channel === 'sg:echo' && data.equals(sent)) done() })
}
