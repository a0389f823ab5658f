/** Compiled programs by what they are for: compiled on first use, released together. */
import type { Program } from "./runtime.ts";

export interface ProgramCache {
  /** The program of a key (any JSON value). One that could not be compiled is tried again when next asked for. */
  get(key: unknown, compile: () => Promise<Program>): Promise<Program>;
  dispose(): Promise<void>;
}

export function createProgramCache(): ProgramCache {
  const programs = new Map<string, Promise<Program>>();
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
