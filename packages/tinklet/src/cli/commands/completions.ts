/** `completions`: scripts for bash, zsh and fish, generated from the command table. */
import type { Command, OptionSpec } from "../command.ts";
import { commandTable } from "../commands.ts";
import { globalOptions } from "../parse.ts";

interface Completed {
  readonly words: readonly string[];
  readonly about: string;
  readonly options: readonly (readonly [name: string, spec: OptionSpec])[];
}

export const completions: Command = {
  usage: "completions bash|zsh|fish",
  about: "Prints a completion script.",
  arguments: ["SHELL"],
  examples: [
    "completions bash > ~/.local/share/bash-completion/completions/tinklet",
    "completions zsh > ~/.zfunc/_tinklet",
    "completions fish > ~/.config/fish/completions/tinklet.fish",
  ],
  async run({ positionals: [shell = ""] }, { output }) {
    const write = { bash, zsh, fish }[shell];
    if (write === undefined) {
      const { UsageError } = await import("../parse.ts");
      throw new UsageError(`SHELL must be one of bash, zsh, fish, not "${shell}"`);
    }
    const all = await Promise.all(
      commandTable.map(async ({ words, about, load }) => {
        const { options = {} } = await load();
        return { words, about, options: Object.entries({ ...globalOptions, ...options }) };
      }),
    );
    output.line(write(all));
    return undefined;
  },
};

const flags = ({ options }: Completed) => options.map(([name]) => `--${name}`).join(" ");
const firstWords = (all: readonly Completed[]) => [...new Set(all.map(({ words }) => words[0] as string))];

function bash(all: readonly Completed[]): string {
  const groups = firstWords(all).filter((word) => all.some(({ words }) => words[0] === word && words.length > 1));
  const seconds = groups.map((group) => {
    const next = all.filter(({ words }) => words[0] === group).flatMap(({ words }) => words[1] ?? []);
    return `    ${group}) [[ "$COMP_CWORD" -eq 2 && "$cur" != -* ]] && { COMPREPLY=($(compgen -W "${next.join(" ")}" -- "$cur")); return; } ;;`;
  });
  // `data` is also the first word of `data prune`, so its own options complete after "data -".
  const called = ({ words }: Completed) =>
    words.length === 1 && groups.includes(words[0] as string) ? `"${words[0]} -"*` : `"${words.join(" ")}"`;
  const options = all.map((one) => `    ${called(one)}) COMPREPLY=($(compgen -W "${flags(one)}" -- "$cur")) ;;`);
  return [
    "_tinklet() {",
    `  local cur="\${COMP_WORDS[COMP_CWORD]}" words`,
    `  if [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=($(compgen -W "${firstWords(all).join(" ")}" -- "$cur")); return; fi`,
    `  case "\${COMP_WORDS[1]}" in`,
    ...seconds,
    "  esac",
    '  [[ "$cur" != -* ]] && return',
    `  case "\${COMP_WORDS[1]}" in ${groups.join("|")}) words="\${COMP_WORDS[1]} \${COMP_WORDS[2]}" ;; *) words="\${COMP_WORDS[1]}" ;; esac`,
    '  case "$words" in',
    ...options,
    "  esac",
    "}",
    "complete -o default -F _tinklet tinklet",
  ].join("\n");
}

function zsh(all: readonly Completed[]): string {
  return ["#compdef tinklet", "autoload -U +X bashcompinit && bashcompinit", bash(all)].join("\n");
}

function fish(all: readonly Completed[]): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "\\'")}'`;
  const lines = ["complete -c tinklet -f"];
  for (const word of firstWords(all)) {
    const own = all.find(({ words }) => words.length === 1 && words[0] === word);
    const about = own?.about ?? `commands on a ${word}`;
    lines.push(`complete -c tinklet -n __fish_use_subcommand -a ${word} -d ${quoted(about)}`);
  }
  for (const { words, about, options } of all) {
    const [first, second] = words;
    if (second !== undefined) {
      const when = `__fish_seen_subcommand_from ${first}`;
      lines.push(`complete -c tinklet -n ${quoted(when)} -a ${second} -d ${quoted(about)}`);
    }
    const when = words.map((word) => `__fish_seen_subcommand_from ${word}`).join("; and ");
    for (const [name, { type, short, choices, about: text }] of options) {
      const value =
        type === "boolean" ? "" : ` -r${choices === undefined ? " -F" : ` -a ${quoted(choices.join(" "))}`}`;
      lines.push(
        `complete -c tinklet -n ${quoted(when)} -l ${name}${short === undefined ? "" : ` -s ${short}`}${value} -d ${quoted(text)}`,
      );
    }
  }
  return lines.join("\n");
}
