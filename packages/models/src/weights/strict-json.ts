/**
 * A JSON parser that rejects duplicate keys. `JSON.parse` silently keeps the last of two equal keys; in a weight file these are two tensors
 * with one name, and the correct one is ambiguous.
 */

/**
 * Parses `text` and rejects duplicate keys at any depth.
 * @throws SyntaxError as `JSON.parse` does, or naming the duplicate key.
 */
export function parseStrictJson(text: string): unknown {
  const value: unknown = JSON.parse(text); // validates the syntax, so the scan below can be simple
  const scopes: (Set<string> | undefined)[] = []; // one per open bracket: the keys seen in an object, undefined for an array
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x7b: // {
        scopes.push(new Set());
        break;
      case 0x5b: // [
        scopes.push(undefined);
        break;
      case 0x7d: // }
      case 0x5d: // ]
        scopes.pop();
        break;
      case 0x22: {
        const end = endOfString(text, at);
        const keys = scopes.at(-1);
        if (keys && isKey(text, end)) {
          const key = JSON.parse(text.slice(at, end + 1)) as string; // "\u0061" and "a" are the same key
          if (keys.has(key)) throw new SyntaxError(`the key ${JSON.stringify(key)} appears twice`);
          keys.add(key);
        }
        at = end;
      }
    }
  }
  return value;
}

/** Index of the quote that closes the string opened at `start`. */
function endOfString(text: string, start: number): number {
  let end = start + 1;
  while (text.charCodeAt(end) !== 0x22) end += text.charCodeAt(end) === 0x5c ? 2 : 1;
  return end;
}

/** In well-formed JSON a string is a key exactly when a colon follows. */
function isKey(text: string, end: number): boolean {
  let at = end + 1;
  while (at < text.length && " \t\r\n".includes(text[at] as string)) at++;
  return text[at] === ":";
}
