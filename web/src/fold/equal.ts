/** Whether two JSON values are the same; object keys in any order, a key that is `undefined` counts as absent. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    return (
      Array.isArray(a) &&
      Array.isArray(b) &&
      a.length === b.length &&
      a.every((item, i) => sameJson(item, b[i]))
    );
  }
  const left = a as Record<string, unknown>;
  const right = b as Record<string, unknown>;
  const names = Object.keys(left).filter((key) => left[key] !== undefined);
  const count = Object.keys(right).filter((key) => right[key] !== undefined).length;
  return (
    names.length === count &&
    names.every((key) => Object.hasOwn(right, key) && sameJson(left[key], right[key]))
  );
}
