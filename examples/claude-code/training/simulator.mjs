/**
 * Claude Code's four tools over files in memory, with the result texts of 2.1.197.
 *
 * For tuning and training only: what the policy is worth is measured with the real CLI.
 */
import { posix } from "node:path";

const STATE_NOTE = "(file state is current in your context — no need to Read it back)";

/** One working directory and what the harness remembers about it. */
export class SimulatedWorkspace {
  constructor(workingDirectory, files) {
    this.workingDirectory = workingDirectory;
    this.files = new Map(Object.entries(files));
    this.known = new Set();
    this.shown = new Set();
  }

  /** Runs one tool call: `{ ok, result }`. */
  run(name, input) {
    switch (name) {
      case "Bash":
        return this.#bash(input.command);
      case "Read":
        return this.#read(input.file_path);
      case "Write":
        return this.#write(input.file_path, input.content);
      case "Edit":
        return this.#edit(input.file_path, input.old_string, input.new_string);
      default:
        return refused(`No such tool available: ${name}`);
    }
  }

  #name(path) {
    return posix.relative(this.workingDirectory, posix.resolve(this.workingDirectory, path));
  }

  #missing() {
    return `File does not exist. Note: your current working directory is ${this.workingDirectory}.`;
  }

  #bash(command) {
    const [, file] = /^cat (\S+)$/.exec(command) ?? [];
    if (file !== undefined) {
      const content = this.files.get(file);
      if (content === undefined)
        return { ok: false, result: `Exit code 1\ncat: ${file}: No such file or directory` };
      this.known.add(file);
      return succeeded(content.trimEnd());
    }
    const [, word, target] = /^echo (\S+) > (\S+)$/.exec(command) ?? [];
    if (target !== undefined) {
      this.files.set(target, `${word}\n`);
      this.shown.delete(target);
      return succeeded("");
    }
    return succeeded([...this.files.keys()].sort().join("\n"));
  }

  #read(path) {
    const name = this.#name(path);
    const content = this.files.get(name);
    if (content === undefined) return { ok: false, result: this.#missing() };
    if (this.shown.has(name))
      return succeeded(
        "Wasted call — file unchanged since your last Read. Refer to that earlier tool_result instead.",
      );
    this.known.add(name);
    this.shown.add(name);
    return succeeded(
      content
        .split("\n")
        .map((line, i) => `${i + 1}\t${line}`)
        .join("\n"),
    );
  }

  #write(path, content) {
    const name = this.#name(path);
    const exists = this.files.has(name);
    if (exists && !this.known.has(name))
      return refused("File has not been read yet. Read it first before writing to it.");
    this.#store(name, content);
    return succeeded(
      exists
        ? `The file ${path} has been updated successfully. ${STATE_NOTE}`
        : `File created successfully at: ${path} ${STATE_NOTE}`,
    );
  }

  #edit(path, before, after) {
    const name = this.#name(path);
    const content = this.files.get(name);
    if (content === undefined) return refused(this.#missing());
    if (!this.known.has(name))
      return refused("File has not been read yet. Read it first before writing to it.");
    if (before === after)
      return refused("No changes to make: old_string and new_string are exactly the same.");
    if (!content.includes(before))
      return refused(`String to replace not found in file.\nString: ${before}`);
    this.#store(
      name,
      content.replace(before, () => after),
    );
    return succeeded(`The file ${path} has been updated successfully. ${STATE_NOTE}`);
  }

  #store(name, content) {
    this.files.set(name, content);
    this.known.add(name);
    this.shown.delete(name);
  }
}

function succeeded(output) {
  return { ok: true, result: output === "" ? "(Bash completed with no output)" : output };
}

function refused(message) {
  return { ok: false, result: `<tool_use_error>${message}</tool_use_error>` };
}
