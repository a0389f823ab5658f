interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}
export interface PackageImports {
  readonly manifest: Manifest;
  readonly own: readonly string[];
  readonly others: readonly string[];
}
export function packageImports(): readonly PackageImports[];
export function packagesOf(file: string, text: string): readonly string[];
export function findCycle(packages: readonly PackageImports[]): readonly string[] | undefined;
export function mermaid(packages: readonly PackageImports[]): string;
export function drawnGraph(): string | undefined;
