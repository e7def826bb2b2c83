import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { once } from 'node:events';

/** A way to a server on which every connection breaks after some bytes of the answer. */
export class BreakingProxy {
  breaks = 0;
  readonly #open = new Set<Socket>();
  readonly #server;

  constructor(
    private readonly target: URL,
    /** How many bytes the next connection lets through. */
    private readonly allowance: () => number,
  ) {
    this.#server = createServer((client) => this.#relay(client));
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #relay(client: Socket): void {
    const server = connect(Number(this.target.port), this.target.hostname);
    let left = this.allowance();
    const end = (): void => {
      client.destroy();
      server.destroy();
      this.#open.delete(client);
    };
    this.#open.add(client);
    client.on('error', end).on('close', end);
    server.on('error', end).on('close', end);
    client.pipe(server);
    server.on('data', (bytes: Buffer) => {
      // It is broken already; more may come until the other side notices.
      if (left <= 0) return;
      client.write(bytes.subarray(0, left));
      left -= bytes.length;
      if (left > 0) return;
      this.breaks += 1;
      // What was written goes out first.
      client.end(end);
    });
  }
}
