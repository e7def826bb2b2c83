/** What an address in a text may be. Texts come from models and their tools, and are not trusted. */

export type Target =
  | { readonly is: 'web'; readonly href: string }
  /** A record of the product, such as `desk://thread/12`. */
  | { readonly is: 'record'; readonly address: string }
  | { readonly is: 'none' };

const WEB = new Set(['http:', 'https:', 'mailto:']);
const NEVER = new Set(['javascript:', 'data:', 'vbscript:', 'file:', 'blob:', 'about:']);

export function targetOf(address: string): Target {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(address.trim())?.[1];
  // An address without a scheme would be one of this server.
  if (scheme === undefined) return { is: 'none' };
  const name = `${scheme.toLowerCase()}:`;
  if (WEB.has(name)) return URL.canParse(address) ? { is: 'web', href: address } : { is: 'none' };
  if (NEVER.has(name) || !address.slice(scheme.length).startsWith('://')) return { is: 'none' };
  return { is: 'record', address };
}
