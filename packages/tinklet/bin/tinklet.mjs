#!/usr/bin/env node
// The committed executable: npm links a workspace bin only if its file exists before the build.
import { main } from "../dist/cli/main.js";

process.exitCode = await main(process.argv.slice(2));
