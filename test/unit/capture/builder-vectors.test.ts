import { describe, expect, it } from "vitest";
import { buildTrajectory, rebuildResponse } from "../../../src/capture/index.js";
import { builderCases, fromJson } from "./entries.js";

const cases = builderCases();

describe("the builder against 400 recorded builds", () => {
  it("has all cases", () => expect(cases).toHaveLength(400));

  it.each(cases)("builds $expected.rollout_id as expected", ({ entries, expected }) => {
    const options = { rolloutId: expected.rollout_id };
    const build = buildTrajectory(entries.map(fromJson), options);
    const response = rebuildResponse(build);
    expect(build.masked).toBe(expected.mask_sample);
    expect(build.metrics).toMatchObject(expected.metrics);
    expect([...build.unresolvedRetries].sort()).toEqual(
      [...(expected.unresolved_retries ?? [])].sort(),
    );
    expect(build.error !== undefined).toBe(expected.error !== undefined);
    if (expected.rebuilt_response === null) expect(response).toBeNull();
    else expect(response).toEqual(expected.rebuilt_response);
  });
});
