/**
 * One worker: a listener, an engine client, a sink. Testable with `new`; the actor definition is beside it.
 *
 * It never opens a rollout by itself, and it never deletes what was recorded.
 *
 * V1. Seal answers for any rollout, also for one never seen, and only when none of its calls is running.
 * V2. Close ends the listener, then the engine, then the sink: the sink goes after the last put.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyInstance } from "fastify";
import type { PolicySnapshot } from "../../embedded-policy/index.js";
import type { RolloutLedger } from "../rollout.js";
import { markIncomplete, type ServerLogger } from "./call-recorder.js";
import type { CaptureClient } from "./capture-client.js";
import { abortWith, type CallServices, promptOf, runModelCall } from "./captured-call.js";
import { type Clock, systemClock, withDeadline } from "./clock.js";
import type { Dialect } from "./dialects/dialect.js";
import type { ChatEngine, EngineCapabilities } from "./engines/engine.js";
import { buildHttpServer, type Exchange, takeJsonBody } from "./http-server.js";
import { clientGoneSignal, sendJson, sendStream } from "./model-exchange.js";
import type { ModelRequest, ReplyHead, ServedReply } from "./model-request.js";
import { type ModelServerLimits, type ModelServerOptions, resolveLimits } from "./options.js";
import { PolicyVersions } from "./policy-versions.js";
import { RequestError } from "./request-error.js";
import { type Access, type AccessRules, authorise } from "./rollout-access.js";
import type { RolloutPath } from "./rollout-path.js";
import { type OpenedRollout, Rollout, type RolloutOpening, Rollouts } from "./rollouts.js";
import { TurnHealth } from "./turn-health.js";

/** What a worker is made of. */
export interface ModelServerParts {
  readonly engine: ChatEngine;
  /** Null when capture is off. */
  readonly capture: CaptureClient | null;
  readonly logger: ServerLogger;
  readonly clock?: Clock;
  /** What the engine's start check warned of. */
  readonly engineWarnings?: readonly string[];
}

/** The options that are left when the parts are built. */
export interface ModelServerSettings extends Omit<ModelServerOptions, "engine" | "capture"> {
  /** How many threads this worker had before. */
  readonly workerGeneration: number;
}

export interface ModelServerStatus {
  /** Model calls answered. */
  readonly calls: number;
  /** Generated tokens whose record was acknowledged. */
  readonly tokensCaptured: number;
  /** Rollouts that may still call. */
  readonly openRollouts: number;
  /** Answers whose tool calls were not understood and were served as text. */
  readonly unparsedToolCalls: number;
  /** Of the weights that it holds. */
  readonly policyVersion: number;
}

/** What a user should know of the engine behind a worker. */
export interface EngineReport {
  readonly capabilities: EngineCapabilities;
  /** Of the start check. */
  readonly warnings: readonly string[];
}

export class ModelServer {
  readonly #settings: ModelServerSettings;
  readonly #limits: ModelServerLimits;
  readonly #parts: ModelServerParts;
  readonly #clock: Clock;
  readonly #rollouts: Rollouts;
  readonly #access: AccessRules;
  readonly #versions: PolicyVersions;
  readonly #services: CallServices;
  readonly #turnHealth: TurnHealth;
  readonly #http: FastifyInstance;
  #url: string | undefined;
  #calls = 0;

  constructor(settings: ModelServerSettings, parts: ModelServerParts) {
    this.#settings = settings;
    this.#limits = resolveLimits(settings.limits);
    this.#parts = parts;
    this.#clock = parts.clock ?? systemClock;
    this.#rollouts = new Rollouts({
      maxInFlight: this.#limits.maxInFlight,
      maxModelCalls: settings.maxModelCalls,
    });
    const { keySecret, requireRolloutKey, samplingOverrides, runSeed } = settings;
    const captureEnabled = parts.capture !== null;
    this.#access = { rollouts: this.#rollouts, keySecret, requireRolloutKey, captureEnabled };
    const { putTimeoutMs } = this.#limits;
    this.#turnHealth = new TurnHealth(parts.logger);
    this.#versions = new PolicyVersions(settings.policyVersion ?? 0);
    this.#services = {
      ...parts,
      clock: this.#clock,
      putTimeoutMs,
      samplingOverrides,
      runSeed,
      turnHealth: this.#turnHealth,
      versions: this.#versions,
    };
    this.#http = buildHttpServer(
      {
        modelCall: (dialect, target, exchange) => this.#modelCall(dialect, target, exchange),
        countTokens: (dialect, target, exchange) => this.#countTokens(dialect, target, exchange),
        unknownPost: (target, { request }) => this.#unknownPost(target, request.headers),
        models: () => modelList(settings.model),
        health: () => ({ status: "ok" }),
      },
      this.#limits.maxBodyBytes,
    );
  }

  /** Listens. Contract: called once, before any other method. */
  async start(): Promise<void> {
    const { host, port } = this.#settings;
    this.#url = await this.#http.listen({ host, port });
  }

  /** Base URL without a trailing slash. */
  address(): { url: string } {
    if (this.#url === undefined) throw new Error("the model server is not listening");
    return { url: this.#url };
  }

  /** @throws RangeError when the rollout was opened in this epoch, or a later one. */
  openRollout(opening: RolloutOpening): OpenedRollout {
    this.#rollouts.open(opening);
    this.#parts.capture?.forget(opening.rolloutId); // What an earlier epoch recorded is gone.
    const { current, next } = this.#versions;
    return { policyVersion: current, nextPolicyVersion: next };
  }

  /** Ends a rollout: new calls get 403, calls in flight `sealTimeoutMs`, then they are aborted. Idempotent. */
  async sealRollout(rolloutId: string): Promise<RolloutLedger> {
    const { workerIndex, workerGeneration } = this.#settings;
    const rollout = this.#rollouts.get(rolloutId);
    if (rollout === undefined) return Rollout.emptyLedger(workerIndex, workerGeneration); // V1
    this.#rollouts.seal(rollout);
    const { sealTimeoutMs } = this.#limits;
    const idle = rollout.idle();
    await withDeadline(idle, "the rollout's calls", sealTimeoutMs, this.#clock).catch(() =>
      rollout.abortRunning(new RequestError(403, `rollout ${rolloutId} is sealed`)),
    );
    await idle;
    this.#parts.capture?.forget(rolloutId);
    return rollout.ledger(workerIndex, workerGeneration);
  }

  /**
   * From now on calls may meet new weights; the engine is paused where it can be. Contract: awaited before the engine
   * gets the first byte of them. @throws RangeError when the version does not grow or one is on its way.
   */
  async beginPolicyUpdate(version: number): Promise<void> {
    this.#versions.begin(version);
    await this.#parts.engine.pause?.();
  }

  /** The new weights are in place; `snapshot` is given to an engine that holds its own. @throws RangeError. */
  async commitPolicyUpdate(version: number, snapshot?: PolicySnapshot): Promise<void> {
    this.#versions.commit(version);
    if (snapshot !== undefined) this.#parts.engine.setPolicy?.({ ...snapshot, version });
    await this.#parts.engine.resume?.();
  }

  /** The weights stay as they were. */
  async cancelPolicyUpdate(version: number): Promise<void> {
    this.#versions.cancel(version);
    await this.#parts.engine.resume?.();
  }

  status(): ModelServerStatus {
    const { tokensRecorded, openRollouts } = this.#rollouts.totals();
    const { unparsedToolCalls } = this.#turnHealth;
    return {
      calls: this.#calls,
      tokensCaptured: tokensRecorded,
      openRollouts,
      unparsedToolCalls,
      policyVersion: this.#versions.current,
    };
  }

  engineReport(): EngineReport {
    const { engine, engineWarnings: warnings = [] } = this.#parts;
    return { capabilities: { ...engine.capabilities }, warnings };
  }

  /** Stops without waiting for clients; calls in flight are aborted. Idempotent. */
  async close(): Promise<void> {
    const running = [...this.#rollouts.all()];
    for (const rollout of running) {
      rollout.seal();
      rollout.abortRunning(new RequestError(529, "the model server is closing"));
    }
    await Promise.all(running.map((rollout) => rollout.idle()));
    await this.#http.close();
    await this.#parts.engine.close();
    await this.#parts.capture?.close(); // V2
  }

  async #modelCall(dialect: Dialect, target: RolloutPath, exchange: Exchange): Promise<void> {
    const { request, reply } = exchange;
    const clientGone = clientGoneSignal(request, reply);
    const call = dialect.parse(takeJsonBody(request), request.headers);
    const access = authorise(target, request.headers, this.#access);
    const run = this.#admitted(call.request, access, clientGone);
    if (!call.request.stream) return sendJson(call, reply, run);
    const { keepAliveAfterMs } = this.#limits;
    return sendStream(call, reply, { clock: this.#clock, keepAliveAfterMs }, run);
  }

  /** Takes a place among the rollout's calls; the returned function gives it back when the call has its outcome. */
  #admitted(
    modelRequest: ModelRequest,
    { rollout, captured }: Access,
    clientGone: AbortSignal,
  ): (onHead: (head: ReplyHead) => void) => Promise<ServedReply> {
    const call = rollout?.admit();
    if (call !== undefined) abortWith(call, clientGone);
    const signal = call?.signal ?? clientGone;
    return async (onHead) => {
      try {
        const scope = { rollout, captured, signal, onHead };
        const served = await runModelCall(this.#services, modelRequest, scope);
        this.#calls += 1;
        return served;
      } finally {
        call?.release();
      }
    };
  }

  async #countTokens(dialect: Dialect, target: RolloutPath, exchange: Exchange): Promise<number> {
    const { request } = exchange;
    const call = dialect.parse(takeJsonBody(request), request.headers);
    const { rollout, captured } = authorise(target, request.headers, this.#access);
    const prompt = await promptOf(this.#services, call.request, captured ? rollout : undefined);
    return prompt.ids?.length ?? this.#parts.engine.countTokens(call.request.conversation);
  }

  #unknownPost(target: RolloutPath, headers: IncomingHttpHeaders): void {
    const { rollout, captured } = authorise(target, headers, this.#access);
    const { capture, logger } = this.#parts;
    if (!captured || rollout === undefined || capture === null) return;
    rollout.countCaptureLost();
    markIncomplete(capture.sink, rollout.id, undefined, logger);
  }
}

function modelList(model: string): unknown {
  const entry = { type: "model", object: "model", id: model, display_name: model };
  return { object: "list", data: [entry], has_more: false, first_id: model, last_id: model };
}
