/** Part of the build: packs the tables of the Qwen3 vocabulary beside this file. */
import { writeFileSync } from "node:fs";
import { packTables, sha256 } from "./packed-tables.js";
import { parseTokenizerFile } from "./tokenizer-file.js";
import { QWEN3_PACK, readQwen3Tokenizer } from "./vocabulary.js";
import { vocabularyTables } from "./vocabulary-tables.js";

const source = readQwen3Tokenizer();
const tables = vocabularyTables(parseTokenizerFile(source.toString("utf8")));
writeFileSync(QWEN3_PACK, packTables(tables, sha256(source)));
