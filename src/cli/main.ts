#!/usr/bin/env node
/**
 * The `corral` command. Exit codes: 0 all done, 1 work failed, 2 usage or config error. One clear line on stderr for
 * every error; results on stdout.
 */
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { configCommand } from "./commands/config.js";
import { conformanceCommand } from "./commands/conformance.js";
import { doctorCommand } from "./commands/doctor.js";
import { explainCommand } from "./commands/explain.js";
import { exportCommand } from "./commands/export.js";
import { inspectCommand } from "./commands/inspect.js";
import { mockEngineCommand } from "./commands/mock-engine.js";
import { pruneCommand } from "./commands/prune.js";
import { rebuildCommand } from "./commands/rebuild.js";
import { runCommand } from "./commands/run.js";
import { serveCommand } from "./commands/serve.js";
import { verifyCommand } from "./commands/verify.js";
import { exitCodeOf, guardOutput, printError } from "./output.js";

function configOption(): Option {
  return new Option("--config <file...>", "config files, merged in order");
}

/** @throws InvalidArgumentError naming what is allowed. */
function portOf(text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 0 && port <= 65_535) return port;
  throw new InvalidArgumentError("allowed: 0 to 65535");
}

/** Takes a command's exit code. */
type Finish = (code: number) => void;

function program(finish: Finish): Command {
  const corral = new Command("corral")
    .description(
      "RL rollouts of external agent harnesses, with the exact tokens the policy sampled",
    )
    .exitOverride()
    .configureOutput({ writeErr: () => undefined });
  addRunCommands(corral, finish);
  addRowCommands(corral, finish);
  addEvidenceCommands(corral, finish);
  addStoreCommands(corral, finish);
  addEngineCommands(corral, finish);
  for (const command of corral.commands) command.exitOverride();
  return corral;
}

function addRunCommands(corral: Command, finish: Finish): void {
  corral
    .command("run")
    .description(
      "serve, roll out, rebuild and write results; the same --out goes on where it stopped",
    )
    .addOption(configOption().makeOptionMandatory())
    .requiredOption("--tasks <file>", "tasks, one JSON object a line")
    .requiredOption("--out <file>", "results, one JSON object a line")
    .option("--server <url>", "roll out against a corral serve of another process")
    .option("--json", "print the summary as JSON")
    .action(async (options) => finish(await runCommand(options)));
  corral
    .command("serve")
    .description("serve the models until a signal; prints the URL for corral run --server")
    .addOption(configOption().makeOptionMandatory())
    .addOption(new Option("--port <n>", "port on 127.0.0.1; default: a free one").argParser(portOf))
    .action(async (options) => finish(await serveCommand(options)));
  corral
    .command("config")
    .description("print the merged, checked config; secrets are shown as ***")
    .addOption(configOption().makeOptionMandatory())
    .action(async (options) => finish(await configCommand(options)));
}

/** What works on files of records and rows. */
function addRowCommands(corral: Command, finish: Finish): void {
  corral
    .command("rebuild")
    .description("rebuild trajectories from token records; one JSON build a line")
    .requiredOption("--entries <file>", "token records, one JSON object a line")
    .addOption(new Option("--mode <mode>", "main (one chain) or all (every chain)").default("main"))
    .addOption(
      new Option("--form <form>", "full or delta: what an item's prompt holds").default("full"),
    )
    .action(async (options) => finish(await rebuildCommand(options)));
  corral
    .command("verify")
    .description("check a results file; with --config also replay its log probabilities")
    .requiredOption("--rollouts <file>", "results of corral run")
    .addOption(configOption())
    .option("--json", "print the report as JSON")
    .action(async (options) => finish(await verifyCommand(options)));
  corral
    .command("export")
    .description(
      "write the trainable rows of a results file, or of what a run keeps, as another trainer's data",
    )
    .option("--rollouts <file>", "results of corral run")
    .option("--dir <folder>", "a run directory, or a folder of them, in place of results")
    .requiredOption("--format <format>", "gym, verl, trl, slime or parquet")
    .requiredOption("--out <file>", "the new file")
    .option("--chains <chains>", "main: the chain that a row shows; all: each chain", "main")
    .action(async (options) => finish(await exportCommand(options)));
}

function addEngineCommands(corral: Command, finish: Finish): void {
  corral
    .command("doctor")
    .description("start every model and agent of a config once, and say what works on this node")
    .addOption(configOption().makeOptionMandatory())
    .option("--json", "print the checks as JSON")
    .action(async (options) => finish(await doctorCommand(options)));
  corral
    .command("mock-engine")
    .description("serve a policy without a model as vLLM, SGLang or llama.cpp would")
    .addOption(new Option("--shape <shape>", "whose HTTP it speaks").default("vllm"))
    .addOption(new Option("--port <port>", "0 takes a free one").default("8000"))
    .option("--checkpoint <file>", "a saved policy; default: the untrained one")
    .option("--script <file>", "answers in order, one JSON object a line")
    .option("--fault <kind...>", "spoil a generation call: KIND, or KIND@CALL")
    .option("--served-model-name <name>", "the model's name")
    .option("--max-model-len <tokens>", "tokens of prompt and answer together")
    .option("--logprobs-mode <mode>", "raw_logprobs or processed_logprobs")
    .option("--enable-auto-tool-choice", "take chats with tools, with --tool-call-parser")
    .option("--tool-call-parser <name>", "any: the Hermes parser is used")
    .action(async (options) => finish(await mockEngineCommand(options)));
}

/** What looks at the evidence that a run left. */
function addEvidenceCommands(corral: Command, finish: Finish): void {
  addRecordsCommand(
    corral,
    "explain <rollout>",
    "why a rollout's calls are not one chain, with the tokens",
  ).action(async (rollout, options) => finish(await explainCommand(rollout, options)));
  addRecordsCommand(
    corral,
    "inspect [rollout]",
    "the tree of a rollout's calls: purposes, lengths, masks; without a rollout, what stores hold",
  ).action(async (rollout, options) => finish(await inspectCommand(rollout, options)));
}

function addRecordsCommand(corral: Command, name: string, description: string): Command {
  return corral
    .command(name)
    .description(description)
    .option("--dir <folder>", "a run directory, or the folder of them (token_id_capture.dir)")
    .option("--entries <file>", "token records, one JSON object a line")
    .option("--json", "print as JSON");
}

/** What concerns stores and adapters, apart from any run. */
function addStoreCommands(corral: Command, finish: Finish): void {
  corral
    .command("conformance")
    .description("check a sink, a source and a lineage of your own against the contracts")
    .addOption(configOption())
    .option("--sink <module:Export>", "instead of token_id_capture.sink")
    .option("--source <module:Export>", "instead of token_id_capture.source")
    .option("--lineage <module:Export>", "instead of token_id_capture.lineage")
    .option("--json", "print the names of the checks as JSON")
    .action(async (options) => finish(await conformanceCommand(options)));
  corral
    .command("prune")
    .description(
      "remove old tombstones, and with --masked the records of masked rollouts, of runs that are over",
    )
    .addOption(configOption())
    .option(
      "--dir <folder>",
      "a run directory, or the folder of them; default: token_id_capture.dir",
    )
    .option("--masked", "also the records of rollouts that were delivered masked")
    .option("--older-than <duration>", "e.g. 90s, 30m, 12h, 7d", "7d")
    .option("--json", "print what was removed as JSON")
    .action(async (options) => finish(await pruneCommand(options)));
}

async function main(argv: readonly string[]): Promise<number> {
  let code = 0;
  try {
    await program((value) => {
      code = value;
    }).parseAsync(argv);
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return 0;
      printError(error.code === "commander.help" ? "give a command; see corral --help" : error);
      return 2;
    }
    printError(error);
    return exitCodeOf(error);
  }
  return code;
}

guardOutput();
process.exitCode = await main(process.argv);
