import { describe, expect, test } from 'vitest';
import { createClient, unwrap } from '../src/client.ts';
import { Problem, Unreachable } from '../src/problem.ts';

type Answer = () => Response;

const json = (body: unknown, status = 200, headers: Record<string, string> = {}): Answer => {
  return () => new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });
};
const broken: Answer = () => {
  throw new TypeError('connection refused');
};

/** A client of a server that answers in this order; the last answer stays. */
function clientOf(...answers: readonly [Answer, ...Answer[]]) {
  const asked: Request[] = [];
  const left = [...answers];
  const client = createClient({
    url: 'http://turnbuckle.test/',
    token: 'tbk_secret',
    fetch: async (request) => {
      asked.push(request);
      // A body that is read cannot be sent again.
      await request.clone().text();
      const next = left.length > 1 ? left.shift() : left[0];
      return (next ?? broken)();
    },
  });
  return { client, asked };
}

const busy = json({ status: 503, code: 'unavailable', title: 'Unavailable' }, 503, { 'retry-after': '0' });

describe('requests', () => {
  test('carry who sends them, and where', async () => {
    const { client, asked } = clientOf(json({ tenant: 't', user: 'ada', roles: ['user'], auth: 'key' }));
    expect(await unwrap(client.GET('/v1/whoami'))).toMatchObject({ user: 'ada' });
    expect(asked.map((request) => [request.method, request.url, request.headers.get('authorization')])).toEqual([
      ['GET', 'http://turnbuckle.test/v1/whoami', 'Bearer tbk_secret'],
    ]);
  });

  test('that read are repeated while the server is busy', async () => {
    const { client, asked } = clientOf(broken, busy, json({ items: [] }));
    expect(await unwrap(client.GET('/v1/agents'))).toEqual({ items: [] });
    expect(asked).toHaveLength(3);
  });

  test('that change something are not repeated without a key', async () => {
    const { client, asked } = clientOf(broken);
    await expect(unwrap(client.POST('/v1/sessions', { body: {} }))).rejects.toThrow(Unreachable);
    expect(asked).toHaveLength(1);
  });

  test('that change something are repeated under the same key, with the same body', async () => {
    const { client, asked } = clientOf(busy, json({ turn: 't', message: 'm', after: '0', duplicate: false }, 202));
    const submitted = client.POST('/v1/sessions/{session}/turns', {
      params: { path: { session: 's' }, header: { 'Idempotency-Key': 'k' } },
      body: { content: 'Hello' },
    });
    expect(await unwrap(submitted)).toEqual({ turn: 't', message: 'm', after: '0', duplicate: false });
    expect(asked.map((request) => request.headers.get('idempotency-key'))).toEqual(['k', 'k']);
    expect(await Promise.all(asked.map((request) => request.text()))).toEqual(['{"content":"Hello"}', '{"content":"Hello"}']);
  });

  test('that are refused fail with the problem the server told, once', async () => {
    const problem = { status: 422, code: 'invalid_request', title: 'Invalid', errors: [{ field: 'title', message: 'is empty' }] };
    const { client, asked } = clientOf(json(problem, 422));
    const refused = unwrap(client.PATCH('/v1/sessions/{session}', { params: { path: { session: 's' } }, body: { title: '' } }));
    await expect(refused).rejects.toEqual(
      new Problem(422, 'invalid_request', 'Invalid', undefined, [{ field: 'title', message: 'is empty' }]),
    );
    expect(asked).toHaveLength(1);
  });

  test('that are given up stay given up', async () => {
    const life = new AbortController();
    const { client } = clientOf(() => {
      life.abort();
      throw new TypeError('connection refused');
    });
    await expect(unwrap(client.GET('/v1/info', { signal: life.signal }))).rejects.toMatchObject({ name: 'AbortError' });
  });

  test('whose answer breaks off are unreachable', async () => {
    const { client } = clientOf(() => new Response('{"items": [', { headers: { 'content-type': 'application/json' } }));
    await expect(unwrap(client.GET('/v1/agents'))).rejects.toThrow(Unreachable);
  });
});
