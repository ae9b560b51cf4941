// Network measures the service proxies, in turns: how long they take to load many services, how
// long one endpoint's change takes until packets go the new way, and what they weigh.
//
// Each proxy runs in a process of its own (proxy/main.go), in a network namespace of its own, by
// the code of the plugin. It gets diffs as the node agent sends them, so that what it weighs is
// what the plugin weighs. It needs root.
package main
