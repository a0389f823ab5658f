// What importing the SDK costs, over an empty Node process.
import "../../packages/tinklet/dist/index.js";
