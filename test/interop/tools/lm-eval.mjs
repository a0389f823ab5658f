// lm-eval, unmodified, through its model `local-completions`: its log-likelihoods are those that `tinklet eval` computes for the same examples.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";
import { ensureVenv } from "../venv.mjs";

const run = promisify(execFile);
const words = ["dog", "cat", "bird", "house", "river", "king"];
const examples = words.map((word) => ({ prompt: `The ${word}`, completion: " is very big and nice." }));
const jsonLines = (rows) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");

/** The task: the completion with the token that ends it, as in training data, beside a shorter text. */
const task = (data) => `task: completions
dataset_path: json
dataset_kwargs: {data_files: {test: ${data}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{prompt}}"
doc_to_choice: "{{[completion + '<|im_end|>', ' x']}}"
doc_to_target: 0
target_delimiter: ""
metric_list: [{metric: acc}]
`;

export async function checkLmEval(url, checks) {
  const python = ensureVenv("lm-eval", ["lm_eval[api]==0.4.13", "transformers==5.23.0"]);
  const work = mkdtempSync(join(tmpdir(), "tinklet-lm-eval-"));
  const [data, yaml, out] = ["examples.jsonl", "task.yaml", "out"].map((name) => join(work, name));
  try {
    writeFileSync(data, jsonLines(examples));
    writeFileSync(yaml, task(data));
    mkdirSync(out);
    const model = [
      ...["model=tinklet/base", `base_url=${url}/v1/completions`, `tokenizer=${join(root, "packages/base-model")}`],
      ...["tokenized_requests=True", "num_concurrent=2", "max_retries=1"],
    ].join(",");
    const args = ["--model", "local-completions", "--model_args", model, "--tasks", yaml];
    await run(python, ["-m", "lm_eval", ...args, "--log_samples", "--output_path", out], {
      env: { ...process.env, OPENAI_API_KEY: "tml-chat", HF_HUB_OFFLINE: "1", HF_HOME: join(work, "hub") },
      maxBuffer: 64 << 20,
    });
    const samples = readdirSync(out, { recursive: true }).find((name) => /samples.*\.jsonl$/.test(name));
    const theirs = readFileSync(join(out, samples), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    const { stdout } = await run(process.execPath, [await bundle("test/interop/tools/lm-eval-main.ts"), url, data]);
    const ours = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    checks.is("lm-eval evaluated every example", theirs.length, examples.length);
    for (const [at, { resps }] of theirs.entries()) {
      const [logLikelihood, { loss, tokens }] = [Number(resps[0][0][0]), ours[at]];
      // The same float32 log-probs, added in another order in float64.
      const holds = Math.abs(-logLikelihood / tokens - loss) <= 1e-12 * loss;
      checks.holds(`lm-eval and tinklet eval: example ${at}`, holds, { logLikelihood, loss, tokens });
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
