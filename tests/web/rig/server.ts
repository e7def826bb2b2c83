/** The real binary, as a person starts it, on a data folder of its own. */

import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const BINARY =
  process.env.TURNBUCKLE_BIN ?? join(import.meta.dirname, '..', '..', '..', 'target', 'debug', 'turnbuckle');
/** How long it may take to say where it listens; the first start makes the desk's database. */
const START = 60_000;

export interface ServerOptions {
  /** The pause after each word of the rehearsal, in milliseconds. */
  readonly pace: number;
  /** What its `turnbuckle.toml` says. */
  readonly config?: string;
}

export class Server {
  #child: ChildProcess | null = null;
  #port = 0;
  /** What it wrote to stderr, for a failing test to show. */
  readonly log: string[] = [];

  private constructor(
    private readonly folder: string,
    private readonly options: ServerOptions,
  ) {}

  static async start(options: ServerOptions): Promise<Server> {
    const folder = await mkdtemp(join(tmpdir(), 'turnbuckle-web-'));
    await writeFile(join(folder, 'turnbuckle.toml'), options.config ?? '');
    const server = new Server(folder, options);
    await server.#run();
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Ends it as a power cut would. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Starts it again, on the same port and data. */
  async restart(): Promise<void> {
    await this.#run();
  }

  async remove(): Promise<void> {
    await this.#end('SIGKILL');
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Asks the API what is stored. */
  async get<T>(path: string): Promise<T> {
    const response = await fetch(this.url + path);
    if (!response.ok) throw new Error(`GET ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }

  async #run(): Promise<void> {
    const child = spawn(BINARY, ['serve', '--model', 'rehearsal', '--port', String(this.#port)], {
      cwd: this.folder,
      env: {
        PATH: process.env.PATH ?? '',
        HOME: this.folder,
        TURNBUCKLE_DATA: join(this.folder, 'data'),
        TURNBUCKLE_REHEARSAL_PACE_MS: String(this.options.pace),
        TURNBUCKLE_LOG: 'warn',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    child.stderr.on('data', (text: Buffer) => this.log.push(text.toString()));
    this.#port = await this.#listening(child);
  }

  async #listening(child: ChildProcess): Promise<number> {
    const said: string[] = [];
    const port = new Promise<number>((resolve, reject) => {
      const failed = (why: string): void => reject(new Error(`${why}\n${said.join('\n')}\n${this.log.join('')}`));
      child.once('error', (error) => failed(`${BINARY} cannot be started: ${error.message}`));
      child.once('exit', (code) => failed(`the server ended with ${code}`));
      if (child.stdout === null) return;
      createInterface({ input: child.stdout }).on('line', (line) => {
        said.push(line);
        const found = / at http:\/\/127\.0\.0\.1:(\d+)$/.exec(line)?.[1];
        if (found !== undefined) resolve(Number(found));
      });
      AbortSignal.timeout(START).addEventListener('abort', () => failed('the server does not say where it listens'));
    });
    return port;
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }
}
