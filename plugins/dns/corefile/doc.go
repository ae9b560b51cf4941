// Package corefile makes the Corefile that CoreDNS runs by: of the keys of the
// bundle's configuration, or of a whole Corefile that the operator wrote.
//
// # What it owns
//
// Where the server listens and whom it answers are the node's to say, and so is how
// it has the API. Render puts that into every server block, and refuses a Corefile
// that says it itself. Everything else is CoreDNS's: what it does not know it refuses
// when it starts.
//
// It reads no file and opens no socket.
package corefile
