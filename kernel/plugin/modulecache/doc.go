// Package modulecache keeps compiled WASM modules between starts.
//
// It owns one folder and one key. An entry is a file: the module as the host
// rewrote it, and wazero's machine code of it. What is in an entry is executed, and
// no digest of a manifest covers it. So each entry ends with an HMAC-SHA256 over
// its content and over what it belongs to: the module's digest, the version of the
// host's rewriting, wazero's version and the target. The key lies beside the
// kernel's other keys.
//
// A Cache has no fault that anybody would have to handle. An entry that cannot be
// read, or that another key made, is said in the log and made anew; a folder, key
// or disk that cannot be used means that modules are compiled at each start.
//
// How data passes through: Open reads an entry into memory that nobody can change
// any more (a sealed memfd), compares the HMAC, and shows wazero that memory through
// a link in a folder of its own. Keep takes what wazero wrote there. Several
// processes of one user may use a folder at the same time.
//
// It imports wazero's public API only; it must not import other packages of Pintle.
package modulecache
