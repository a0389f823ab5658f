/** `@tinklet/cookbook/mcp`: environments over the tools of MCP servers. Needs the package `@modelcontextprotocol/sdk`. */
export { type ConnectMcpOptions, connectMcp, type McpEnvOptions, type McpServers, mcpEnv } from "./mcp-env.ts";
export { type McpLimits, type McpProcess, type McpServer, McpServerError, type McpUrl } from "./session.ts";
