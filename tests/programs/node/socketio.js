// socket.io's adapter over ioredis: three servers share rooms, each through another node. What a
// server sends to a room comes to the clients of all, but for those of a node that is dead; and a
// question to all servers is answered by all.

import { createServer } from 'node:http';
import { createAdapter } from '@socket.io/redis-adapter';
import Redis from 'ioredis';
import { Server } from 'socket.io';
import { io } from 'socket.io-client';
import { assert, check, finish, load, nodes, now, sleep, untilWorks } from './shared.js';

const ROOM = 'room';
const WAIT_MS = 1000;
const servers = [];
const clients = [];
const heard = [];

/** A server through a node, and a client of it in the room. */
async function add(number) {
  const http = createServer();
  // As applications make them: publishing is tried again while the node is dead.
  const [publisher, subscriber] = [new Redis(nodes[number]), new Redis(nodes[number])];
  [publisher, subscriber].forEach((one) => one.on('error', () => {}));
  const server = new Server(http, {
    adapter: createAdapter(publisher, subscriber, { requestsTimeout: WAIT_MS }),
  });
  server.on('connection', (socket) => socket.join(ROOM));
  await new Promise((done) => http.listen(0, '127.0.0.1', done));
  const one = io(`http://127.0.0.1:${http.address().port}`, { transports: ['websocket'] });
  const texts = new Set();
  one.on('news', (text) => texts.add(text));
  await new Promise((done) => one.on('connect', done));
  servers.push(server);
  clients.push(one);
  heard.push(texts);
}

/** Whether what each server sends now comes to all clients. */
async function allHear() {
  const text = `${now()}`;
  servers.forEach((server, number) => server.to(ROOM).emit('news', `${text} ${number}`));
  const all = () => heard.every(
    (texts) => servers.every((_, number) => texts.has(`${text} ${number}`)));
  for (const until = now() + WAIT_MS; now() < until;) {
    if (all()) return true;
    await sleep(20);
  }
  return false;
}

await check('socket.io: servers and clients', async () => {
  for (const number of nodes.keys()) await add(number);
});
await check('socket.io: a room over three nodes', () => untilWorks('a room', allHear));
await check('socket.io: questions to all servers', () => untilWorks('an answer', async () => {
  const sockets = await servers[0].in(ROOM).fetchSockets();
  return sockets.length === nodes.length;
}));
await check('socket.io: sent while a node is killed', () => load(1, async (_, end) => {
  let rounds = 0;
  let heardByAll = 0;
  while (now() < end) {
    rounds += 1;
    heardByAll += Number(await allHear());
    await sleep(50);
  }
  console.log(`note: ${heardByAll} of ${rounds} rounds were heard by all`);
  assert(heardByAll > 0, 'nobody heard anything');
}));
await check('socket.io: a room after the kill', () => untilWorks('a room', allHear));
clients.forEach((one) => one.disconnect());
finish();
