#!/usr/bin/env node
// Compiles every contracts/NAME.sol of a protocol package into artifacts/NAME.json.
//
//   node tools/compile_contracts.mjs [--check] [PACKAGE_DIRECTORY]
//
// --check writes nothing and exits 1 when an artifact is not exactly what its source compiles to.
// Exit 2: the sources do not compile, or the compiler is missing or of another version.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const COMPILER_VERSION = "0.8.37";
const TOOLS = fileURLToPath(new URL("node/", import.meta.url));
const REFERENCE_PACKAGE = fileURLToPath(new URL("../tayho/protocol/", import.meta.url));

// Everything that decides the bytes is written here and again in the artifact. The compiler's own metadata stays out of
// the bytecode: its hash would change with every comment and with the path of the source.
const SETTINGS = {
  evmVersion: "cancun",
  optimizer: { enabled: true, runs: 200 },
  metadata: { appendCBOR: false, bytecodeHash: "none" },
};

class Refusal extends Error {}

function loadCompiler() {
  const require = createRequire(join(TOOLS, "package.json"));
  let compiler;
  try {
    compiler = require("solc");
  } catch (cause) {
    throw new Refusal("the Solidity compiler is not installed: run `make setup`", { cause });
  }
  const version = compiler.version();
  if (!version.startsWith(`${COMPILER_VERSION}+`)) {
    throw new Refusal(`solc ${version} is installed, ${COMPILER_VERSION} is required: run \`make setup\``);
  }
  return compiler;
}

function readSources(directory) {
  const names = readdirSync(directory).filter((name) => name.endsWith(".sol")).sort();
  if (names.length === 0) throw new Refusal(`no Solidity source in ${directory}`);
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(directory, name), "utf8")]));
}

function compile(compiler, sources) {
  const input = {
    language: "Solidity",
    sources: Object.fromEntries(Object.entries(sources).map(([name, content]) => [name, { content }])),
    settings: {
      ...SETTINGS,
      outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"] } },
    },
  };
  const output = JSON.parse(compiler.compile(JSON.stringify(input)));
  // A warning fails as well: a contract that ships as the reference has none to explain away.
  const complaints = (output.errors ?? []).filter(({ severity }) => severity !== "info");
  if (complaints.length > 0) {
    throw new Refusal(complaints.map(({ formattedMessage }) => formattedMessage.trim()).join("\n"));
  }
  return output.contracts;
}

function artifactText(compilerVersion, name, source, contracts) {
  const contract = basename(name, ".sol");
  const compiled = contracts[name]?.[contract];
  if (compiled === undefined) throw new Refusal(`${name} holds no contract named ${contract}`);
  // An abstract contract is a part of others and is never deployed by itself.
  if (compiled.evm.bytecode.object === "") return undefined;
  const artifact = {
    contract,
    compiler: compilerVersion,
    settings: SETTINGS,
    source: { file: name, sha256: createHash("sha256").update(source).digest("hex") },
    abi: compiled.abi,
    bytecode: `0x${compiled.evm.bytecode.object}`,
    deployedBytecode: `0x${compiled.evm.deployedBytecode.object}`,
  };
  return `${JSON.stringify(artifact, null, 2)}\n`;
}

function compilePackage(directory) {
  const compiler = loadCompiler();
  const sources = readSources(join(directory, "contracts"));
  const contracts = compile(compiler, sources);
  return Object.entries(sources)
    .map(([name, source]) => ({
      path: join(directory, "artifacts", `${basename(name, ".sol")}.json`),
      text: artifactText(compiler.version(), name, source, contracts),
    }))
    .filter(({ text }) => text !== undefined);
}

function staleArtifacts(directory, expected) {
  const wanted = new Set(expected.map(({ path }) => path));
  const changed = expected
    .filter(({ path, text }) => !existsSync(path) || readFileSync(path, "utf8") !== text)
    .map(({ path }) => `${path} is not what its source compiles to`);
  const folder = join(directory, "artifacts");
  const orphaned = (existsSync(folder) ? readdirSync(folder) : [])
    .filter((name) => name.endsWith(".json") && !wanted.has(join(folder, name)))
    .map((name) => `${join(folder, name)} has no source`);
  return [...changed, ...orphaned];
}

function main() {
  const { values, positionals } = parseArgs({ options: { check: { type: "boolean" } }, allowPositionals: true });
  const directory = positionals[0] ?? REFERENCE_PACKAGE;
  const artifacts = compilePackage(directory);
  if (!values.check) {
    mkdirSync(join(directory, "artifacts"), { recursive: true });
    for (const { path, text } of artifacts) writeFileSync(path, text);
    return 0;
  }
  const complaints = staleArtifacts(directory, artifacts);
  for (const complaint of complaints) console.error(complaint);
  if (complaints.length > 0) console.error("mend with: node tools/compile_contracts.mjs");
  return complaints.length > 0 ? 1 : 0;
}

try {
  process.exitCode = main();
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
