// Package convert turns objects of the API into the messages that plugins see: pods, nodes,
// and the kinds of package readable.
//
// It is pure: it takes an object, returns a message, and keeps nothing. It counts requests
// as kube-scheduler does. It turns volumes of in-tree plugins into those of the CSI drivers
// that replaced them.
//
// It imports API types, the libraries that translate them, and the contract. It imports
// nothing of the scheduler.
package convert
