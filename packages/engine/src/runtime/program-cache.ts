/** Compiled programs by key: compiled on first use, released together. */
import type { Program } from "./runtime.ts";

export interface ProgramCache<Kind extends Program = Program> {
  /** The program of a key (any JSON value). If compilation fails, the next call tries again. */
  get(key: unknown, compile: () => Promise<Kind>): Promise<Kind>;
  dispose(): Promise<void>;
}

export function createProgramCache<Kind extends Program = Program>(): ProgramCache<Kind> {
  const programs = new Map<string, Promise<Kind>>();
  return {
    get(key, compile) {
      const id = JSON.stringify(key);
      const known = programs.get(id);
      if (known) return known;
      const program = compile();
      program.catch(() => programs.delete(id));
      programs.set(id, program);
      return program;
    },
    async dispose() {
      const compiled = await Promise.all(programs.values());
      programs.clear();
      await Promise.all(compiled.map((program) => program.dispose()));
    },
  };
}
