// What importing the SDK costs, over an empty Node process.
import "../../packages/sdk/dist/index.js";
