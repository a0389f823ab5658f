export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly private?: boolean;
  readonly dependencies?: Record<string, string>;
  readonly devDependencies?: Record<string, string>;
  readonly optionalDependencies?: Record<string, string>;
  readonly peerDependencies?: Record<string, string>;
  readonly publishConfig?: { readonly access?: string; readonly provenance?: boolean };
}
export function versionProblems(manifests: readonly Manifest[]): string[];
export function changelogEntry(changelog: string, version: string): { date: string | undefined; text: string };
export function publishOrder(manifests: readonly Manifest[]): Manifest[];
export function provenanceProblems(manifests: readonly Manifest[]): string[];
export function constantProblems(sources: Readonly<Record<string, string>>, version: string): string[];
