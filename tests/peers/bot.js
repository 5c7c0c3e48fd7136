'use strict'
// Joins with a mineflayer bot, one VERSION after the other, up to its spawn in the world.
//
//   node bot.js --connect ADDRESS:PORT --host NAME [--name PLAYER] VERSION...
//
// In --host {version} is replaced. Prints one line for each version: spawned, kicked or error.

const { args, say, hostAndPort, exitWithStdin, text } = require('./common')
const mineflayer = require('mineflayer')

const options = args()
exitWithStdin()
all().then(() => process.exit(0))

async function all () {
  for (const version of options.words) say(await spawn(version))
}

function spawn (version) {
  const bot = mineflayer.createBot({
    ...hostAndPort(options.connect),
    fakeHost: options.host.replaceAll('{version}', version),
    username: options.name ?? 'Bot',
    version,
    auth: 'offline',
    hideErrors: true,
    checkTimeoutInterval: 30_000
  })
  return new Promise(resolve => {
    const timer = setTimeout(() => end({ event: 'error', error: 'no spawn within 30 s' }), 30_000)
    const end = result => {
      clearTimeout(timer)
      bot.end()
      resolve({ version, protocol: bot.protocolVersion, ...result })
    }
    bot.once('spawn', () => end({ event: 'spawned' }))
    bot.once('kicked', reason => end({ event: 'kicked', reason: text(reason) }))
    bot.once('error', error => end({ event: 'error', error: `${error}` }))
    bot.once('end', reason => end({ event: 'error', error: `closed: ${reason}` }))
  })
}
