/**
 * Programs that try to leave a sandbox, to end or slow the process that grades them, or to obtain a reward without the answer: the product of
 * kinds of attack and the places where an attack can run. None returns the answer `f(3)` = 6 honestly.
 */

/** A program, with its name. */
export interface HostileProgram {
  readonly name: string;
  readonly source: string;
}

/** Statements of attacks. Values in them vary with `n`. */
const attacks: Readonly<Record<string, (n: number) => string>> = {
  "endless loop": () => "for (;;) {}",
  "endless loop that catches": () => "for (;;) { try { for (;;) {} } catch {} finally { continue; } }",
  "endless calls": () => "const g = () => 1; for (;;) g();",
  "deep recursion": () => "(function r() { return r() + 1; })();",
  "mutual recursion that catches": () => "(function r() { try { r(); } catch { r(); } })();",
  "allocation of arrays": (n) => `const kept = []; for (;;) kept.push(new Array(${1000 * n}).fill(1));`,
  "allocation of buffers": (n) => `const kept = []; for (;;) kept.push(new ArrayBuffer(${n * 2 ** 20}));`,
  "one huge buffer": (n) => `new Uint8Array(${n} * 2 ** 30).fill(1);`,
  "a string that doubles": () => "let s = 'ab'; for (;;) s += s;",
  "repeated strings": (n) => `for (;;) 'x'.repeat(${n}e6).split('');`,
  "a huge integer": () => "let x = 3n; for (;;) x *= x;",
  "a regular expression that backtracks": (n) => `/^(a+)+$/.test('a'.repeat(${25 + n}) + 'b');`,
  "nested brackets in eval": (n) => `eval('['.repeat(${n}e5));`,
  "nested JSON": (n) => `JSON.parse('['.repeat(${n}e5));`,
  sorting: (n) => `for (;;) Array.from({ length: ${n}e4 }, (_, i) => -i).sort();`,
  "a comparison that never ends": () => "[3, 2, 1].sort(() => { for (;;) {} });",
  "output flood": (n) => `for (;;) console.log('x'.repeat(${n}e5));`,
  "promises without end": () => "(function next() { Promise.resolve().then(next); })();",
  "promises that double": () => "(function next() { Promise.resolve().then(next); Promise.resolve().then(next); })();",
  "a thenable without end": () => "const t = { then(go) { go(t); } }; Promise.resolve(t);",
  "an async generator without end": () =>
    "(async () => { for await (const _ of (async function* () { for (;;) yield 1; })()); })();",
  "a constructor as a way out": () =>
    "const out = [].constructor.constructor('return typeof process === \"object\" ? process : globalThis.process')(); out.exit(1);",
  "Function with a body": () => "new Function('return this')().process.kill(1);",
  "import of a module of Node": () => "import('node:child_process').then((m) => m.execSync('touch escaped'));",
  require: () => "require('node:fs').writeFileSync('escaped', '1');",
  "a message to the thread": () => "postMessage({ outcomes: [{ outcome: 'passed' }] }); parentPort.postMessage(1);",
  "a request": () => "fetch('http://127.0.0.1:1/');",
  "a socket": () => "new WebSocket('ws://127.0.0.1:1/');",
  "shared memory": () => "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);",
  "a timer": () => "setTimeout(() => { for (;;) {} }, 0);",
  "std and os of QuickJS": () => "std.exit(1); os.exec(['sh']);",
  "JSON replaced": () => "JSON.parse = () => [6]; JSON.stringify = () => '6';",
  "setters on the prototypes": () =>
    "for (const key of ['0', 'value', 'length', 'outcome', 'then']) Object.defineProperty(Object.prototype, key, { set() { for (;;) {} }, get() { return 6; }, configurable: true });",
  "iterators replaced": () => "Array.prototype[Symbol.iterator] = function* () { for (;;) yield 6; };",
  "equality by conversion": () => "Number.prototype.valueOf = () => 6; Object.prototype.toString = () => '6';",
  "an error whose message throws": () => "throw { get message() { throw this; }, get name() { throw this; } };",
  "an error with a huge message": (n) => `throw new Error('x'.repeat(${n}e6));`,
  "an error without a prototype": () => "throw Object.create(null);",
  "a proxy as an error": () => "throw new Proxy({}, { get() { for (;;) {} } });",
  "prototypes in a circle of proxies": () => "const p = new Proxy({}, { get: (_t, key, self) => self[key] }); p.x;",
  "weak references": () => "const r = new FinalizationRegistry(() => { for (;;) {} }); for (;;) r.register({}, 1);",
  "labels, with and eval": () => "out: for (;;) { eval('for (;;) { break; }'); continue out; }",
};

/** Values that a hostile function returns instead of the answer. */
const returned: Readonly<Record<string, string>> = {
  "a proxy":
    "new Proxy({}, { get: () => 6, getOwnPropertyDescriptor: () => { for (;;) {} }, ownKeys: () => { for (;;) {} } })",
  "a proxy of a number": "new Proxy(Object(6), {})",
  "an object that converts":
    "({ valueOf: () => 6, toString: () => '6', toJSON: () => 6, [Symbol.toPrimitive]: () => 6 })",
  "a boxed number": "Object(6)",
  "a number as a string": "'6'",
  "a big integer": "6n",
  "not a number": "NaN",
  "an array of it": "[6]",
  "a getter": "({ get value() { for (;;) {} } })",
  "a circle": "(() => { const a = []; a.push(a); return a; })()",
  "a huge array": "new Array(2 ** 32 - 1)",
  "a huge string": "'6'.repeat(5e6)",
  "a function": "() => 6",
  "a promise of itself": "(() => { const p = new Promise((go) => setTimeout(go)); return p; })()",
  "a promise that never settles": "new Promise(() => {})",
  "a thenable": "({ then(go) { go(6); } })",
  "a symbol": "Symbol('6')",
  "a class": "class { static valueOf() { return 6; } }",
};

/** Places where an attack runs. */
const places: Readonly<Record<string, (attack: string) => string>> = {
  "when loaded": (attack) => `var f = (x) => x; ${attack}`,
  "when called": (attack) => `function f(x) { ${attack} return x; }`,
  "when called, later": (attack) => `async function f(x) { await null; await null; ${attack} return x; }`,
  "when the function is looked up": (attack) =>
    `Object.defineProperty(globalThis, 'f', { get() { ${attack} return () => 0; } });`,
  "in a conversion of the result": (attack) =>
    `const f = () => ({ toString() { ${attack} }, valueOf() { ${attack} }, get x() { ${attack} } });`,
  "in a generator": (attack) => `function f() { return [...(function* () { ${attack} yield 1; })()]; }`,
};

/** At least 500 programs, always the same. */
export function hostilePrograms(): readonly HostileProgram[] {
  const made: HostileProgram[] = [];
  for (const [kind, attack] of Object.entries(attacks))
    for (const [place, put] of Object.entries(places))
      for (const n of [1, 9]) {
        const [source, other] = [put(attack(n)), put(attack(1))];
        if (n === 1 || source !== other) made.push({ name: `${kind} (${n}), ${place}`, source });
      }
  const bodies = Object.entries(returned);
  for (const [kind, value] of bodies) {
    made.push({ name: `returns ${kind}`, source: `function f() { return ${value}; }` });
    made.push({ name: `returns ${kind}, async`, source: `async function f() { return ${value}; }` });
    made.push({ name: `throws ${kind}`, source: `function f() { throw ${value}; }` });
    made.push({ name: `throws ${kind} when loaded`, source: `throw ${value};` });
    made.push({ name: `is ${kind}`, source: `var f = ${value};` });
    made.push({ name: `rejects with ${kind}`, source: `const f = () => Promise.reject(${value});` });
    for (const [other, second] of bodies)
      if (other > kind && made.length < 520)
        made.push({ name: `returns ${kind} with ${other}`, source: `const f = () => [${value}, ${second}];` });
  }
  return made;
}

/** A test whose expected value no program can know: one that passes it has read it, or has written the grade. */
export const unknowable = [{ call: "f", args: [3], expected: ["a value that is not in the engine", 48_151_623] }];
