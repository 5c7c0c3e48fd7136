'use strict'
// Minecraft servers (minecraft-protocol), one for each VERSION:PORT given; port 0 takes a free one.
//
//   node serve.js [--address ADDRESS] [--motd TEXT] [--online] [--transfers] [--until-eof] VERSION:PORT...
//
// Prints listening, asked (a status), handshake (a login), joined and left. A player gets what mineflayer needs to spawn, and every
// custom payload on the channel `sg:echo` back. Ends on SIGTERM, on the console line `stop`, and with
// --until-eof when standard input ends. From 1.8 on, packets of 256 bytes and more are compressed.

const { args, say, hostAndPort, exitWithStdin } = require('./common')

const options = args(['online', 'transfers', 'until-eof'])
if (options.online) vouchForEveryone()
const mc = require('minecraft-protocol')

process.on('SIGTERM', () => process.exit(0))
if (options['until-eof']) exitWithStdin()
process.stdin.on('data', data => { if (`${data}`.split('\n').some(line => line.trim() === 'stop')) process.exit(0) })
for (const word of options.words) {
  const { host: version, port } = hostAndPort(word)
  serve(version, port)
}

/** Encryption needs a session service; this one knows every player, so no network is needed. */
function vouchForEveryone () {
  const yggdrasil = require('yggdrasil')
  const id = '11111111222233334444555555555555'
  yggdrasil.server = () => ({ hasJoined: (name, ...rest) => rest.at(-1)(null, { id, name, properties: [] }) })
}

function serve (version, port) {
  const server = mc.createServer({
    host: options.address ?? '127.0.0.1',
    port,
    version,
    motd: options.motd ?? `A ${version} server`,
    'online-mode': Boolean(options.online),
    hideErrors: true,
    errorHandler: (client, error) => { say({ event: 'fault', version, error: `${error}` }); client.end() }
  })
  server.on('listening', () => say({ event: 'listening', version, port: server.socketServer.address().port }))
  server.on('error', error => { say({ event: 'error', version, error: `${error}` }); process.exit(1) })
  server.on('connection', client => {
    client.once('set_protocol', packet => {
      const { protocolVersion: protocol, serverHost: host, serverPort, nextState: intent } = packet
      say({ event: intent === 1 ? 'asked' : 'handshake', version, protocol, host, port: serverPort, intent, from: client.socket.remoteAddress })
      if (intent === 3 && options.transfers) client.state = mc.states.LOGIN
    })
  })
  server.on('playerJoin', client => {
    const encrypted = client.cipher !== null
    const compressed = client.compressionThreshold >= 0
    say({ event: 'joined', version, name: client.username, protocol: client.protocolVersion, encrypted, compressed })
    client.on('end', () => say({ event: 'left', version, name: client.username }))
    client.on('custom_payload', ({ channel, data }) => {
      if (channel === 'sg:echo') client.write('custom_payload', { channel, data })
    })
    spawn(client, require('minecraft-data')(version))
  })
}

/** The three packets after which mineflayer says `spawn`. */
function spawn (client, data) {
  const old = {
    levelType: 'default', dimension: 0, difficulty: 1, gameMode: 0, hashedSeed: [0, 0], maxPlayers: 20, viewDistance: 4, reducedDebugInfo: false, enableRespawnScreen: true
  }
  client.write('login', { ...old, ...data.loginPacket, entityId: client.id })
  const flags = data.protocol.play.toClient.types.packet_position[1].find(({ name }) => name === 'flags')
  client.write('position', {
    x: 0, y: 64, z: 0, dx: 0, dy: 0, dz: 0, yaw: 0, pitch: 0, teleportId: 1, onGround: true, flags: flags?.type === 'i8' ? 0 : {}
  })
  client.write('update_health', { health: 20, food: 20, foodSaturation: 5 })
}
