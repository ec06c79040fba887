/**
 * A class that a user's config names: a sink, a source or a lineage. Built in the thread that uses it, from a
 * description that can cross one.
 *
 * U1. What cannot be used is refused at start by one error that names the key, the module and what is wrong.
 * U2. A class may carry `static kwargs`, a zod or other Standard Schema: then its kwargs are what that schema says, and
 *     a key it does not know is refused.
 */
import { z } from "zod";

/** `new Export(kwargs)` of `module:Export`. */
export const UserClass = z.strictObject({ specifier: z.string(), kwargs: z.unknown() });
export type UserClass = z.infer<typeof UserClass>;

/** Which key of the config names the class. */
export type UserClassRole = "sink" | "source" | "lineage";

/** Usual cause: a wrong module path, export name or kwarg. */
class AdapterError extends Error {
  static {
    Object.defineProperty(AdapterError.prototype, "name", { value: "AdapterError" });
  }
  readonly code = "ADAPTER_INVALID";
}

interface StandardSchema {
  readonly "~standard": { validate(value: unknown): SchemaResult | Promise<SchemaResult> };
}

type SchemaResult =
  | { readonly value: unknown; readonly issues?: undefined }
  | {
      readonly issues: readonly {
        readonly message: string;
        readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[];
      }[];
    };

/** @throws AdapterError ADAPTER_INVALID (U1). */
export async function buildUserClass<T>(
  { specifier, kwargs }: UserClass,
  role: UserClassRole,
  methods: readonly (keyof T & string)[],
): Promise<T> {
  const colon = specifier.lastIndexOf(":");
  const exportName = specifier.slice(colon + 1);
  const fault = (problem: string, cause?: unknown, key: string = role) =>
    new AdapterError(`token_id_capture.${key}: "${specifier}" ${problem}`, { cause });
  if (colon <= 0 || exportName === "") throw fault('must be "module:Export"');
  let module: Record<string, unknown>;
  try {
    module = (await import(specifier.slice(0, colon))) as Record<string, unknown>;
  } catch (error) {
    throw fault(`does not load: ${messageOf(error)}`, error);
  }
  const Export = module[exportName];
  if (typeof Export !== "function") throw fault(`has no class ${exportName}`);
  const checked = await checkKwargs((Export as { kwargs?: unknown }).kwargs, kwargs);
  if ("problem" in checked) throw fault(checked.problem, undefined, `${role}_kwargs`);
  let built: unknown;
  try {
    built = new (Export as new (kwargs: unknown) => unknown)(checked.value);
  } catch (error) {
    throw fault(`could not be built: ${messageOf(error)}`, error);
  }
  const missing = methods.filter(
    (method) => typeof (built as Record<string, unknown>)[method] !== "function",
  );
  if (missing.length > 0) throw fault(`has no method ${missing.join(", ")}`);
  return built as T;
}

/** U2 */
async function checkKwargs(
  schema: unknown,
  kwargs: unknown,
): Promise<{ readonly value: unknown } | { readonly problem: string }> {
  if (!isStandardSchema(schema)) return { value: kwargs };
  const result = await schema["~standard"].validate(kwargs);
  if (result.issues !== undefined) {
    const [issue] = result.issues;
    const at = (issue?.path ?? []).map((step) =>
      String(typeof step === "object" ? step.key : step),
    );
    return { problem: `refuses ${at.join(".") || "its kwargs"}: ${issue?.message ?? "invalid"}` };
  }
  const known = Object.keys((result.value ?? {}) as object);
  const unknown = Object.keys((kwargs ?? {}) as object).find((key) => !known.includes(key));
  if (unknown !== undefined) return { problem: `knows no kwarg ${unknown}` };
  return { value: result.value };
}

function isStandardSchema(value: unknown): value is StandardSchema {
  return (
    (typeof value === "object" || typeof value === "function") &&
    value !== null &&
    "~standard" in value
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
