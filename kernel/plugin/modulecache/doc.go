// Package modulecache keeps compiled WASM modules between starts.
//
// It owns one folder and one key. An entry is a file: the module as the host
// rewrote it, and wazero's machine code of it. The kernel executes the content of an entry,
// and no digest of a manifest covers it. So each entry ends with an HMAC-SHA256. It covers
// the content, the module's digest, the version of the host's rewriting, wazero's version
// and the target. The key lies beside the kernel's other keys.
//
// A Cache returns no error that a caller would have to handle. If an entry cannot be read, or
// another key made it, the Cache logs that and makes the entry anew. If a folder, key or disk
// cannot be used, modules are compiled at each start.
//
// How data passes through: Open reads an entry into memory that can no longer change (a
// sealed memfd) and compares the HMAC. It shows wazero that memory through a link in a
// separate folder. Keep takes what wazero wrote there. Several processes of one user may use
// a folder at the same time.
//
// It imports wazero's public API only; it must not import other packages of Pintle.
package modulecache
