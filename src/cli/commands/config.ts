import { captureDecisions, describeConfig, loadConfig } from "../../index.js";
import { printText, printWarning } from "../output.js";

export interface ConfigOptions {
  readonly config: readonly string[];
}

export async function configCommand({ config: files }: ConfigOptions): Promise<number> {
  const { warnings, errors } = captureDecisions(loadConfig(files));
  const [conflict] = errors;
  if (conflict !== undefined) throw conflict;
  for (const warning of warnings) printWarning(warning);
  await printText(describeConfig(files));
  return 0;
}
