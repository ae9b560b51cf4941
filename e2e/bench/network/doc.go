// Network measures the ways of packets, names and requests, each beside another one, in turns.
//
//   - sync: how long the proxies nftables and iptables take to load many services, how long one
//     endpoint's change takes until packets go the new way, and what they weigh.
//   - connections: the rate of connections from pod to pod through a service, beside that
//     straight to its endpoint, with few and with many services.
//   - names: answers of the bundle dns from its cache, beside CoreDNS alone.
//   - requests: what the bundle ingress forwards, beside nginx, where that is installed.
//
// A proxy of the first two runs in a process of its own (proxy/main.go), in a network namespace of
// its own, by the code of the plugin. It gets diffs as the node agent sends them, so that what it
// weighs is what the plugin weighs. The others run in a cluster. It needs root.
package main
