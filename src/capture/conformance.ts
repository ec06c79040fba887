/**
 * Does an adapter keep the contracts? Each sentence of `contracts.ts` is one check, over clients that are built fresh
 * for it: what a client remembers is not what its store kept.
 *
 * F1. A check that fails, or an adapter that does not answer, ends the run with an error that names the check.
 * F2. Rollout ids are unique to the run: the adapter's store may be one that is in use.
 */
import { randomUUID } from "node:crypto";
import { dispatchChecks, methodChecks } from "./conformance-dispatch.js";
import { lineageChecks } from "./conformance-lineage.js";
import type { ConformanceBench } from "./conformance-records.js";
import { sinkChecks } from "./conformance-sink.js";
import { sourceChecks } from "./conformance-source.js";
import type { TokenLineage, TokenSink, TokenSource } from "./contracts.js";
import { CaptureError } from "./errors.js";

/** A lineage may have something to close. */
type ClosableLineage = TokenLineage & { close?(): Promise<void> };

/** Builds clients of one store. Each call gives a new one, as each worker does at its start. */
export interface ConformanceSubject {
  readonly makeSink: () => TokenSink | Promise<TokenSink>;
  readonly makeSource: () => TokenSource | Promise<TokenSource>;
  /** Without it lineage is not checked. */
  readonly makeLineage?: () => ClosableLineage | Promise<ClosableLineage>;
}

export interface ConformanceOptions {
  /** How long one call of the adapter may take, ms. Default 10 000. */
  readonly timeoutMs?: number;
}

/**
 * @returns the names of the checks that passed, in order; those of optional parts that are not there are left out.
 * @throws CONFORMANCE_FAILED naming the first check that fails and what was seen.
 */
export async function runConformance(
  subject: ConformanceSubject,
  options: ConformanceOptions = {},
): Promise<string[]> {
  const { timeoutMs = 10_000 } = options;
  const lineage = subject.makeLineage === undefined ? [] : lineageChecks;
  const passed: string[] = [];
  for (const check of [
    ...methodChecks,
    ...sinkChecks,
    ...sourceChecks,
    ...dispatchChecks,
    ...lineage,
  ]) {
    const bench = new Bench(subject, timeoutMs);
    try {
      if (check.applies !== undefined && !(await check.applies(bench))) continue;
      await check.run(bench);
      passed.push(check.name);
    } catch (cause) {
      throw failed(check.name, cause);
    } finally {
      await bench.close();
    }
  }
  return passed;
}

function failed(name: string, cause: unknown): CaptureError {
  const seen = cause instanceof Error ? cause.message : String(cause);
  return new CaptureError("CONFORMANCE_FAILED", `conformance: ${name}: ${seen}`, { cause });
}

class Bench implements ConformanceBench {
  readonly rolloutId = `conformance-${randomUUID()}`;
  readonly #subject: ConformanceSubject;
  readonly #timeoutMs: number;
  readonly #opened: { close?(): unknown }[] = [];

  constructor(subject: ConformanceSubject, timeoutMs: number) {
    this.#subject = subject;
    this.#timeoutMs = timeoutMs;
  }

  sink(): Promise<TokenSink> {
    return this.#made("sink", this.#subject.makeSink);
  }

  source(): Promise<TokenSource> {
    return this.#made("source", this.#subject.makeSource);
  }

  lineage(): Promise<TokenLineage> {
    const { makeLineage } = this.#subject;
    if (makeLineage === undefined) throw new Error("there is no makeLineage");
    return this.#made("lineage", makeLineage);
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#opened.splice(0).map(async (client) => client.close?.()));
  }

  async #made<T extends object>(role: string, make: () => T | Promise<T>): Promise<T> {
    const client = await withDeadline(async () => make(), `make ${role}`, this.#timeoutMs);
    this.#opened.push(client);
    return bounded(client, role, this.#timeoutMs);
  }
}

/** The same client, each call of which ends in time (F1). */
function bounded<T extends object>(client: T, role: string, timeoutMs: number): T {
  return new Proxy(client, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...args: unknown[]) =>
        withDeadline(
          async () => Reflect.apply(member, target, args) as unknown,
          `${role}.${String(name)}`,
          timeoutMs,
        );
    },
  });
}

async function withDeadline<T>(
  start: () => Promise<T>,
  what: string,
  timeoutMs: number,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new Error(`${what} did not answer within ${timeoutMs} ms`);
    timer = setTimeout(() => reject(error), timeoutMs);
  });
  try {
    return await Promise.race([start(), late]);
  } finally {
    clearTimeout(timer);
  }
}
