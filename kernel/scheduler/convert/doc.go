// Package convert owns how objects of the API become the messages that plugins see:
// pods, nodes, and the kinds of package readable.
//
// It is pure: an object goes in, a message comes out, and nothing is kept. Requests are
// counted as kube-scheduler counts them. Volumes of in-tree plugins become those of
// the CSI drivers that replaced them.
//
// It imports API types, the libraries that translate them, and the contract; nothing of
// the scheduler.
package convert
