// Proxy is the process that e2e/bench/network measures: one service proxy by the code of its
// plugin, which applies the diffs that it reads from its standard input.
//
// It imports what the plugin imports and no more, so that it weighs what the plugin weighs. It
// must not import another package of e2e.
package main
