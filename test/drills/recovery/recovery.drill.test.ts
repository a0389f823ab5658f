// 200 random moments at which the server loses a model.
import { expect, test } from "vitest";
import { recoveryDrill } from "./drill.ts";
import { lossKinds } from "./lossy-server.ts";

test("200 losses: every run ends, with the weights of an undisturbed run, and none trains a stale model", async () => {
  const moments = await recoveryDrill(200, 7);
  expect(moments.filter(({ problems }) => problems.length > 0)).toEqual([]);
  const kinds = new Set(moments.flatMap(({ losses }) => losses));
  expect([...kinds].sort()).toEqual([...lossKinds].sort());
});
