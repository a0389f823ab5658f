/**
 * Code: the model writes a JavaScript function, and tests decide whether it is right. The examples are those of a careless programmer,
 * whose programs have a wrong operator or no parentheses in two of three cases (without parentheses some are still right). The reward for
 * passing the tests then favours correct programs.
 * Programs run in a sandbox: they have no files, no network, and limits of time and memory.
 */
import {
  type CodeTest,
  codeEnv,
  createSandbox,
  defineRecipe,
  prepareExamples,
  type RecipeScore,
  type RecipeTask,
  rolloutGroups,
  runReinforcement,
  runSupervised,
  type Sandbox,
  seededRandom,
} from "@tinklet/cookbook";

const operations = { add: "+", subtract: "-", "multiply by": "*" } as const;
type Verb = keyof typeof operations;
const verbs = Object.keys(operations) as Verb[];
interface Step {
  readonly verb: Verb;
  readonly number: number;
}

/** A task of two steps. */
interface Task {
  readonly first: Step;
  readonly second: Step;
}
const question = ({ first, second }: Task) =>
  `Write f(x): ${first.verb} ${first.number}, then ${second.verb} ${second.number}.`;
const program = (first: string, then: string, brackets = true) =>
  brackets ? `const f = (x) => (x ${first}) ${then};` : `const f = (x) => x ${first} ${then};`;
const written = ({ verb, number }: Step, as: Verb = verb) => `${operations[as]} ${number}`;
const apply = (x: number, { verb, number }: Step) =>
  verb === "add" ? x + number : verb === "subtract" ? x - number : x * number;

/** Your tests go here: what the function returns for some arguments. */
const testsOf = ({ first, second }: Task): CodeTest[] =>
  [0, 1, 5, -12].map((x) => ({ call: "f", args: [x], expected: apply(apply(x, first), second) }));

/** Different tasks, in random order. */
function tasks(count: number, random: () => number): Task[] {
  const step = () => ({
    verb: verbs[Math.floor(random() * verbs.length)] as Verb,
    number: 2 + Math.floor(random() * 8),
  });
  const made = new Map<string, Task>();
  while (made.size < count) {
    const task = { first: step(), second: step() };
    made.set(question(task), task);
  }
  return [...made.values()];
}

export default defineRecipe({
  about: "reinforcement learning on code: tests in a sandbox decide the reward",
  metric: "share of tasks whose program passes the tests, after a careless programmer's examples and after the reward",
  async run(task) {
    const sandbox = createSandbox();
    try {
      return await learn(task, sandbox);
    } finally {
      await sandbox.close();
    }
  },
});

async function learn(task: RecipeTask, sandbox: Sandbox): Promise<RecipeScore> {
  const { chat, tokenizer, seed } = task;
  const random = seededRandom(seed);
  const all = tasks(550, random);
  const problem = (of: Task) =>
    codeEnv({ chat, tokenizer, sandbox, maxTokens: 32, question: question(of), tests: testsOf(of) });
  const score = async (sampler: typeof task.base) => {
    const { groups } = await rolloutGroups(all.slice(0, 100).map(problem), { sampler, groupSize: 1, seed: 7 });
    return groups.reduce((sum, { totalRewards: [reward = 0] }) => sum + reward, 0) / groups.length;
  };

  const examples = all.slice(100, 400).map((of) => {
    const others = verbs.filter((verb) => verb !== of.second.verb);
    const wrong = others[Math.floor(random() * others.length)] as Verb;
    const kind = Math.floor(random() * 3); // 0: a wrong operator, 1: no parentheses, 2: right
    const then = written(of.second, kind === 0 ? wrong : of.second.verb);
    const answer = program(written(of.first), then, kind !== 1);
    return {
      messages: [
        { role: "user", content: question(of) },
        { role: "assistant", content: answer },
      ],
    };
  });
  const learning = { rank: 16, learningRate: task.learningRate(3e-3) };
  const data = prepareExamples(examples, tokenizer);
  const shown = runSupervised({ ...task.stage("examples"), ...learning, data, epochs: 6, maxSteps: task.steps(160) });
  const careless = await task.follow("examples", shown);
  const before = await score(careless.sampler);
  const loop = runReinforcement({
    ...{ ...task.stage("rl"), from: careless.statePath, environments: all.slice(400).map(problem) },
    ...{ steps: task.steps(10), groupsPerStep: 12, groupSize: 8, rank: 16, learningRate: task.learningRate(5e-4) },
  });
  const { sampler } = await task.follow("rl", loop);
  const answers = await task.compare(sampler, all.slice(0, 3).map(question), careless.sampler);
  return { before, after: await score(sampler), answers };
}
