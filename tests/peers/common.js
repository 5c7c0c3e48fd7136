'use strict'
// What the node peers share: their arguments, and one JSON object a line on standard output.

const fs = require('fs')

/** `--name value`, `--flag` and plain words of the command line. */
function args (flags = []) {
  const found = { words: [] }
  const rest = process.argv.slice(2)
  while (rest.length > 0) {
    const word = rest.shift()
    if (!word.startsWith('--')) found.words.push(word)
    else if (flags.includes(word.slice(2))) found[word.slice(2)] = true
    else found[word.slice(2)] = rest.shift()
  }
  return found
}

/** Synchronous, so that nothing is lost when the process is ended right after. */
function say (event) {
  fs.writeSync(1, JSON.stringify(event) + '\n')
}

function hostAndPort (text) {
  const at = text.lastIndexOf(':')
  return { host: text.slice(0, at), port: Number(text.slice(at + 1)) }
}

/** Whoever started this process is gone, or has said so, when its standard input ends. */
function exitWithStdin () {
  process.stdin.on('end', () => process.exit(0)).resume()
}

/** A chat message as JSON text, whichever of its three shapes the protocol used: JSON, NBT, string. */
function text (reason) {
  return typeof reason === 'string' ? reason : JSON.stringify(reason)
}

module.exports = { args, say, hostAndPort, exitWithStdin, text }
