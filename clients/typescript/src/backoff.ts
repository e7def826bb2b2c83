/** Waits that grow, with chance in them, so that clients of a server that comes back do not all come at once. */
export class Backoff {
  #failures = 0;

  constructor(
    private readonly first = 250,
    private readonly longest = 10_000,
    private readonly random: () => number = Math.random,
  ) {}

  /** How long to wait now, in milliseconds; half of it is up to chance. */
  next(): number {
    const full = Math.min(this.longest, this.first * 2 ** this.#failures);
    this.#failures += 1;
    return full / 2 + (full / 2) * this.random();
  }

  reset(): void {
    this.#failures = 0;
  }
}

/** Whether a signal has been given by now; a check before an `await` says nothing about the time after it. */
export function isOver(signal: AbortSignal): boolean {
  return signal.aborted;
}

/** Resolves after `ms`, or at once when the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', done);
  });
}
