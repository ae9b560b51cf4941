// Package placements proves that the classic policy decides the same whatever
// carries its calls: it builds plugins/classic as a WASM module and as a
// process, serves both by the real plugin host to the real scheduler, and
// compares the placements of generated pods. It holds tests only, and they import
// kernel/plugin and kernel/scheduler: scores and refusals of single pods cannot
// be seen from outside.
package placements
