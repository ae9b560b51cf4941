// Hostports is a CNI plugin that leads ports of the machine to pods, by nftables over netlink
// and without a tool on the machine.
//
// It stands behind a plugin that gives pods their addresses, whose result it returns unchanged.
// Its configuration names the bridge of the pods and a folder for its records; the ports
// come by the capability portMappings. What it writes and how: package podnat, by which the
// runtime puts right what others deleted.
//
// ADD replaces what the same sandbox had before. DEL of a sandbox without ports is no error.
// CHECK says what differs. GC takes away the ports of all sandboxes but those that are valid.
package main
