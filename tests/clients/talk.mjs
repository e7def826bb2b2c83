// How a client program and the test that started it talk: a line of JSON each way.
import { createInterface } from "node:readline";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Tells the test something. */
function tell(what, value = null) {
  process.stdout.write(`${JSON.stringify({ what, value })}\n`);
}

/** Tells the test something, and waits until it says to go on. */
export async function ask(what, value = null) {
  tell(what, value);
  const { done } = await lines.next();
  if (done) throw new Error(`the test went away after "${what}"`);
}

/** Runs the scenario of that name, and tells what it gives. */
export async function play(scenarios, name) {
  const scenario = scenarios[name];
  if (!scenario) throw new Error(`there is no scenario "${name}"`);
  try {
    tell("done", await scenario());
    process.exit(0);
  } catch (error) {
    tell("failed", String(error?.stack ?? error));
    process.exit(1);
  }
}

/** A promise with its resolver. */
export function later() {
  let resolve;
  const promise = new Promise((r) => (resolve = r));
  return { promise, resolve };
}
