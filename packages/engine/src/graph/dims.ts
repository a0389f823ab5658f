/**
 * Tensor dimensions: a number, or a product of named sizes that are known only when a graph runs ("tokens", "4*tokens"). One graph
 * serves every batch without rebuilding per length or padding to a fixed shape. Two dimensions are equal if their canonical strings
 * are equal; shape inference needs nothing more.
 */

/** A size known now (number) or at run time (a monomial such as `"tokens"` or `"3*batch*time"`). */
export type Dim = number | string;
export type Shape = readonly Dim[];

interface Monomial {
  coefficient: number;
  atoms: string[];
}

const parse = (dim: Dim): Monomial => {
  if (typeof dim === "number") return { coefficient: dim, atoms: [] };
  let coefficient = 1;
  const atoms: string[] = [];
  for (const factor of dim.split("*")) {
    if (/^\d+$/.test(factor)) coefficient *= Number(factor);
    else atoms.push(factor);
  }
  return { coefficient, atoms };
};

const format = ({ coefficient, atoms }: Monomial): Dim => {
  if (atoms.length === 0 || coefficient === 0) return coefficient;
  const names = [...atoms].sort().join("*");
  return coefficient === 1 ? names : `${coefficient}*${names}`;
};

/** Product of dimensions in canonical form: equal sizes have equal strings. */
export const product = (dims: Shape): Dim => {
  const result: Monomial = { coefficient: 1, atoms: [] };
  for (const dim of dims) {
    const { coefficient, atoms } = parse(dim);
    result.coefficient *= coefficient;
    result.atoms.push(...atoms);
  }
  return format(result);
};

/** Whether a dimension may be 0 at run time, given the named sizes that may be 0. */
export const mayBeEmpty = (dim: Dim, possiblyEmpty: ReadonlySet<string>): boolean => {
  const { coefficient, atoms } = parse(dim);
  return coefficient === 0 || atoms.some((name) => possiblyEmpty.has(name));
};

export { sameShape } from "@tinklet/models/config";

/** `[2, tokens, 64]`, for messages. */
export const showShape = (shape: Shape): string => `[${shape.join(", ")}]`;

/**
 * Shape of an elementwise operation, or undefined if the operands do not broadcast. A named size matches only itself and 1:
 * equality with another size at run time would be a coincidence.
 */
export const broadcast = (a: Shape, b: Shape): Shape | undefined => {
  const rank = Math.max(a.length, b.length);
  const result: Dim[] = [];
  for (let axis = 0; axis < rank; axis++) {
    const left = a[a.length - rank + axis] ?? 1;
    const right = b[b.length - rank + axis] ?? 1;
    if (left !== right && left !== 1 && right !== 1) return undefined;
    result.push(left === 1 ? right : left);
  }
  return result;
};
