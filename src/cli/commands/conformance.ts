/** `corral conformance`: exit code 1 when a check fails, 2 when the adapters cannot be built. */
import { checkConformance, loadConfig } from "../../index.js";
import { printText } from "../output.js";

export interface ConformanceCommandOptions {
  readonly config?: readonly string[];
  readonly sink?: string;
  readonly source?: string;
  readonly lineage?: string;
  readonly json?: boolean;
}

export async function conformanceCommand(options: ConformanceCommandOptions): Promise<number> {
  const { config, sink, source, lineage, json } = options;
  const block = config === undefined ? undefined : loadConfig(config).token_id_capture;
  const passed = await checkConformance({
    ...block,
    ...(sink === undefined ? {} : { sink }),
    ...(source === undefined ? {} : { source }),
    ...(lineage === undefined ? {} : { lineage }),
  });
  const lines = passed.map((name) => `ok ${name}\n`).join("");
  await printText(
    json ? `${JSON.stringify({ passed })}\n` : `${lines}${passed.length} checks passed\n`,
  );
  return 0;
}
